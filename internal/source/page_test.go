package source

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestPage_HasABound(t *testing.T) {
	events := func(n int) string { return `{"cursor":"c","events":[` + strings.Repeat("0,", n-1) + `0]}` }
	var p Page
	if err := json.Unmarshal([]byte(events(maxPageEvents)), &p); err != nil || len(p.Events) != maxPageEvents {
		t.Errorf("of a full page %d are read: %v", len(p.Events), err)
	}
	if err := json.Unmarshal([]byte(events(maxPageEvents+1)), &p); !errors.Is(err, ErrPage) {
		t.Errorf("of a longer one: %v", err)
	}
	for text, fails := range map[string]bool{`{}`: false, `{"events":null}`: false, `{"events":[]}`: false, `{"events":{}}`: true, `{"events":7}`: true} {
		var p Page
		if err := json.Unmarshal([]byte(text), &p); (err != nil) != fails || len(p.Events) != 0 {
			t.Errorf("%s: %v, %v", text, p.Events, err)
		}
	}
}

// It would be the same page again: people must set maxEvents.
func TestPage_ThatIsTooLongEndsTheSource(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Mode = ModePoll
		w.poll = func(context.Context, Request) (Page, error) { return Page{}, ErrPage }
		w.start()
		if s := w.status(); s.State != Ended || !strings.Contains(s.LastError.Message, "set maxEvents") {
			t.Errorf("it stands as %+v, %+v", s, s.LastError)
		}
	})
}

// Of what a server lists one entry is kept, whatever the others are.
func TestListing_KeepsOneEntry(t *testing.T) {
	for text, want := range map[string]string{
		`{"events":[7,{"name":8},{"name":"y"},{"name":"x","delivery":["push"]},{"name":"x"}],"nextCursor":"2"}`: "push",
		`{"events":[{"name":"y","delivery":["push"]}]}`:                                                         "",
		`{}`: "",
	} {
		l := listing{name: "x"}
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.size != len(text) {
			t.Errorf("%s: %v", text, err)
		}
		if got := l.found; (got != nil) != (want != "") || got != nil && !got.pushes() {
			t.Errorf("%s: found %+v", text, got)
		}
	}
}

// However long a server goes on to list, the search ends.
func TestSession_FindEnds(t *testing.T) {
	asked := 0
	s, _, _ := connect(t, func(p *peer, _ string, id json.RawMessage, _ map[string]any) {
		asked++
		p.result(id, `{"events":[{"name":"`+strings.Repeat("y", 1<<20)+`"}],"nextCursor":"more"}`)
	})
	defer s.Close()
	if got, err := s.Find(t.Context(), "x"); err != nil || got.pushes() || asked > maxListBytes>>20+1 {
		t.Errorf("found %+v on %d pages, %v", got, asked, err)
	}
}
