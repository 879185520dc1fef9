package ingest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/store"
)

func (r *Result) counts() string {
	return fmt.Sprintf("%d: %d accepted, %d duplicates, %d rejected", r.Status(), r.Accepted, r.Duplicates, r.Rejected)
}

func TestPush_EveryFieldReachesTheLog(t *testing.T) {
	w := newWorld(t)
	at := engine.Time(5)
	data := []byte(`{"a":1,"a":2}`)
	got, err := w.Push(t.Context(), []Line{
		{Scope: "s", Name: "message.created", ID: "1", At: &at, Data: data, Text: "t"},
		{Scope: "s", Name: "n"},
		{Scope: "s", Name: "n", ID: "1"},
	})
	if err != nil || got.counts() != "200: 2 accepted, 1 duplicates, 0 rejected" || got.Errors == nil {
		t.Fatal(got, err)
	}
	data[0] = 'X' // the caller's own
	want := store.NewEvent{Scope: "s", Event: engine.Event{ID: "1", Name: "message.created", Kind: engine.Flush, Policy: 7, At: &at, Data: []byte(`{"a":1,"a":2}`), Text: "t"}}
	if diff := cmp.Diff(want, w.log.all()[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if e := w.log.all()[1]; len(e.ID) != 26 || e.Data != nil || e.At != nil {
		t.Errorf("got %+v", e)
	}
}

// What is parsed already is held against the same rules.
func TestPush_TheRulesOfALine(t *testing.T) {
	late, early := engine.Time(maxAt+1), engine.Time(minAt-1)
	for _, c := range []struct {
		name string
		line Line
		code Code
		says string
	}{
		{"no scope", Line{Name: "n"}, CodeEmptyField, `field "scope" is empty: give 1 to 512 bytes`},
		{"a control character", Line{Scope: "a\x00", Name: "n"}, CodeControl, `field "scope" holds the control character U+0000: leave it out`},
		{"no name", Line{Scope: "s"}, CodeEmptyField, `field "name" is empty: give 1 to 256 bytes`},
		{"a long name", Line{Scope: "s", Name: strings.Repeat("n", 257)}, CodeTooLong, `field "name" has 257 bytes: at most 256`},
		{"a long id", Line{Scope: "s", Name: "n", ID: strings.Repeat("n", 257)}, CodeTooLong, `field "id" has 257 bytes: at most 256`},
		{"no UTF-8 in id", Line{Scope: "s", Name: "n", ID: "\xff"}, CodeInvalidUTF8, `field "id" is not UTF-8`},
		{"no UTF-8 in text", Line{Scope: "s", Name: "n", Text: "\xff"}, CodeInvalidUTF8, `field "text" is not UTF-8`},
		{"a late at", Line{Scope: "s", Name: "n", At: &late}, CodeBadTime, `field "at" is not in the years 0 to 9999`},
		{"an early at", Line{Scope: "s", Name: "n", At: &early}, CodeBadTime, `field "at" is not in the years 0 to 9999`},
		{"data that is no JSON", Line{Scope: "s", Name: "n", Data: []byte(`{`)}, CodeIncomplete, `field "data": column 2: the line ends where a field name in quotes is expected: a line holds one whole object`},
		{"data of no bytes", Line{Scope: "s", Name: "n", Data: []byte{}}, CodeIncomplete, `field "data": column 1: the line ends where a value is expected: a line holds one whole object`},
		{"data of two values", Line{Scope: "s", Name: "n", Data: []byte(`1 2`)}, CodeSyntax, `field "data": column 2: ' ' where the end of the value is expected`},
		{"data that is no UTF-8", Line{Scope: "s", Name: "n", Data: []byte("\"\xff\"")}, CodeInvalidUTF8, `field "data": column 2: byte 0xff in a string is not UTF-8: encode the text as UTF-8`},
		{"data too deep", Line{Scope: "s", Name: "n", Data: []byte(nested(maxDepth))}, CodeTooDeep, `field "data": column 512: more than 512 objects and arrays in one another`},
		{"too large", Line{Scope: "s", Name: "n", Text: strings.Repeat("x", 1<<20)}, CodeTooLarge, `1048578 bytes: an event has at most 1048576 (maxEventBytes)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			got, err := w.Push(t.Context(), []Line{{Scope: "s", Name: "n", ID: "good"}, c.line})
			if err != nil || got.counts() != "422: 1 accepted, 0 duplicates, 1 rejected" {
				t.Fatal(got, err)
			}
			if diff := cmp.Diff([]LineError{{Line: 2, Code: c.code, Error: c.says}}, got.Errors); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(w.log.all()) != 1 {
				t.Error("it was committed")
			}
		})
	}
}

func TestPushJSON(t *testing.T) {
	w := newWorld(t)
	var events []json.RawMessage
	for _, s := range []string{line("1"), `{"name":"n","id":"2"}`, `{"name":"n","id":""}`, line("1"), `[]`, ``} {
		events = append(events, json.RawMessage(s))
	}
	got, err := w.PushJSON(t.Context(), "own", events)
	if err != nil || got.counts() != "422: 2 accepted, 1 duplicates, 3 rejected" || codes(got.Errors) != "3:emptyField 5:notObject 6:incomplete" {
		t.Error(got, err)
	}
	if all := w.log.all(); all[0].Scope != "s" || all[1].Scope != "own" {
		t.Errorf("got %+v", all)
	}
	if got, err := w.PushJSON(t.Context(), "a\nb", events); err == nil || got.Accepted != 0 || !strings.Contains(err.Error(), "U+000A") {
		t.Error(got, err)
	}
	if got, err := w.PushJSON(t.Context(), "\xff", nil); err == nil {
		t.Error(got, err)
	}
	if got, err := w.Push(t.Context(), nil); err != nil || got.counts() != "200: 0 accepted, 0 duplicates, 0 rejected" {
		t.Error(got, err)
	}
}

func TestPush_TheStoreIsDown(t *testing.T) {
	w := newWorld(t, func(w *world, o *Options) {
		o.Limits.GroupLines = 2
		w.log.before = func(call int, _ *store.Entry) error {
			if call == 2 {
				return store.ErrUnavailable
			}
			return nil
		}
	})
	var lines []Line
	for i := range 7 {
		lines = append(lines, Line{Scope: "s", Name: "n", ID: fmt.Sprint(i)})
	}
	got, err := w.Push(t.Context(), lines)
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("error %v", err)
	}
	if got.counts() != "429: 2 accepted, 0 duplicates, 2 rejected" || codes(got.Errors) != "3:storeUnavailable 4:storeUnavailable" {
		t.Error(got)
	}
}

func TestNew_WhatIsRequired(t *testing.T) {
	w := newWorld(t)
	for _, o := range []Options{{}, {Log: w.log}, {Owner: w.owner}, {Log: w.log, Owner: w.owner, Registerer: w.reg}} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v makes a handler", o)
		}
	}
	if _, err := New(Options{Log: w.log, Owner: w.owner}); err != nil {
		t.Error(err)
	}
}
