package fields_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// joined joins a service's Fields to attention.
func joined(t *testing.T) func(*fields.Options) {
	t.Helper()
	policy := &engine.Policy{Number: 3, Default: engine.Defaults(), Kinds: map[string]engine.Kind{
		"field.conflict.*": engine.Closing, "field.entry.committed": engine.Context,
	}}
	if err := policy.Compile(); err != nil {
		t.Fatal(err)
	}
	return func(o *fields.Options) { o.Ingest, o.Policy = true, func() *engine.Policy { return policy } }
}

// logged are the events in a store's log.
func logged(t *testing.T, st store.Log) []engine.Record {
	t.Helper()
	records, err := st.Read(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// said writes events in short: kind, scope, text.
func said(records []engine.Record) []string {
	out := make([]string, len(records))
	for i, r := range records {
		out[i] = fmt.Sprintf("%s %s %s: %s", r.Event.Kind, r.Event.Name, r.Scope, r.Event.Text)
	}
	return out
}

func TestEvents_ConflictIsNamed(t *testing.T) {
	st := memory.New(memory.Options{})
	s := open(t, st, joined(t))
	defer s.Close()
	const topic = "competitor-pricing"
	b := do[field.Written](t, s, "", field.OpWrite, note("kelp", topic, "price", "$49/mo", "seats", 5))
	do[field.Drafted](t, s, "", field.OpDraft, note("mara", topic, "price", "$1/mo"))
	a := do[field.Written](t, s, "", field.OpWrite, note("gull", topic, "price", "$39/mo", "seats", 5))
	records := logged(t, st)
	want := []string{
		"context field.entry.committed field:default:competitor-pricing: kelp wrote in competitor-pricing: so that the others know",
		"context field.entry.committed field:default:competitor-pricing: gull wrote in competitor-pricing: so that the others know",
		`closing field.conflict.detected field:default:competitor-pricing: gull and kelp disagree about price in competitor-pricing: "$39/mo" against "$49/mo"`,
	}
	if diff := cmp.Diff(want, said(records)); diff != "" {
		t.Fatalf("events (-want +got):\n%s", diff)
	}
	var got any
	if err := json.Unmarshal(records[2].Event.Data, &got); err != nil {
		t.Fatal(err)
	}
	side := func(id, agent, price string) map[string]any {
		return map[string]any{"id": id, "agent": agent, "intent": "so that the others know", "values": map[string]any{"price": price}}
	}
	if diff := cmp.Diff(any(map[string]any{
		"field": "default", "topic": topic, "keys": []any{"price"}, "a": side(a.ID, "gull", "$39/mo"), "b": side(b.ID, "kelp", "$49/mo"),
	}), got); diff != "" {
		t.Errorf("data of the conflict (-want +got):\n%s", diff)
	}
	if err := json.Unmarshal(records[0].Event.Data, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(map[string]any{
		"id": b.ID, "field": "default", "agent": "kelp", "topic": topic, "intent": "so that the others know",
		"entry": map[string]any{"topic": topic, "price": "$49/mo", "seats": 5.0},
	}), got); diff != "" {
		t.Errorf("data of the entry (-want +got):\n%s", diff)
	}
	if records[0].Event.Policy != 3 {
		t.Errorf("policy %d, want 3", records[0].Event.Policy)
	}
}

// Every way to commit an entry makes events; superseded entries contradict
// nobody any longer.
func TestEvents_OfEveryCommit(t *testing.T) {
	st := memory.New(memory.Options{})
	s := open(t, st, joined(t))
	defer s.Close()
	old := do[field.Written](t, s, "f:1", field.OpWrite, note("kelp", "tide", "h", 1))
	do[field.Written](t, s, "f:1", field.OpSupersede, params("superseding_id", old.ID, "agent", "kelp", "intent", "measured again", "entry", params("topic", "tide", "h", 2)))
	draft := do[field.Drafted](t, s, "f:1", field.OpDraft, params("entry", params("topic", "tide", "h", nil), "intent", "unsigned\nand odd"))
	do[field.Written](t, s, "f:1", field.OpCommit, params("draft_id", draft.DraftID))
	do[field.Written](t, s, "f:1", field.OpWrite, note("kelp", "tide", "h", 3, "k", true))
	do[field.Done](t, s, "f:1", field.OpRetract, params("id", old.ID, "agent", "kelp", "intent", "no change at all"))
	const scope = " field:f%3A1:tide: "
	want := []string{
		"context field.entry.committed" + scope + "kelp wrote in tide: so that the others know",
		"context field.entry.committed" + scope + "kelp wrote in tide: measured again",
		"context field.entry.committed" + scope + "somebody wrote in tide: unsigned and odd",
		"closing field.conflict.detected" + scope + "somebody and kelp disagree about h in tide: null against 2",
		"context field.entry.committed" + scope + "kelp wrote in tide: so that the others know",
		"closing field.conflict.detected" + scope + "kelp and somebody disagree about h in tide: 3 against null",
		"closing field.conflict.detected" + scope + "kelp contradicts itself about h in tide: 3 against 2",
	}
	if diff := cmp.Diff(want, said(logged(t, st))); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// Writers that share a commit contradict each other, too: every pair makes one
// event, in the entry's own append.
func TestEvents_WithinABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlow()
		s := open(t, st, joined(t))
		defer s.Close()
		do[field.Written](t, s, "", field.OpWrite, note("first", "tide", "h", -1))
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				do[field.Written](t, s, "", field.OpWrite, note(fmt.Sprint("agent", i), "tide", "h", i))
			})
		}
		all.Wait()
		ids := make(map[string]bool)
		conflicts := 0
		for _, r := range logged(t, st.Store) {
			ids[r.Event.ID] = true
			if r.Event.Name == fields.EventConflict {
				conflicts++
			}
		}
		if conflicts != 11*10/2 || len(ids) != conflicts+11 {
			t.Errorf("%d conflicts and %d ids among 11 entries that all contradict each other, want 55 and 66", conflicts, len(ids))
		}
		if slices.Max(st.appends) < 2 { // how many come together is the scheduler's to say
			t.Errorf("appends of %v entries: no two were one batch", st.appends)
		}
	})
}

func TestEvents_AreBounded(t *testing.T) {
	st := memory.New(memory.Options{})
	quiet := open(t, st)
	long := strings.Repeat("é\n", 700)
	for i := range 1010 {
		do[field.Written](t, quiet, "", field.OpWrite, note("kelp", "tide", "h", i, "text", long))
	}
	quiet.Close()
	s := open(t, st, joined(t))
	defer s.Close()
	wide := []any{"h", -1, "text", "short", "long", strings.Repeat("x", 20<<10)}
	for i := range 40 {
		wide = append(wide, fmt.Sprint("k", i), i)
	}
	do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", wide...))
	records := logged(t, st)
	if len(records) != 101 {
		t.Fatalf("%d events, want one of the entry and 100 of its conflicts", len(records))
	}
	for i, r := range records {
		var data struct {
			Cut  int                        `json:"cut"`
			More int                        `json:"more_conflicts"`
			Ent  map[string]json.RawMessage `json:"entry"`
		}
		if err := json.Unmarshal(r.Event.Data, &data); err != nil {
			t.Fatal(err)
		}
		if want := map[int]int{100: 900}[i]; data.More != want {
			t.Errorf("event %d counts %d more conflicts, want %d", i, data.More, want)
		}
		if i == 0 && (data.Cut != 1 || len(data.Ent) != 43) {
			t.Errorf("the entry has %d members and %d cut, want all but the long one", len(data.Ent), data.Cut)
		}
		if r.Event.Size() > 32<<10 || len(r.Event.Text) > 1000 || strings.ContainsAny(r.Event.Text, "\n\r") {
			t.Errorf("event %d has %d bytes and says %q", i, r.Event.Size(), r.Event.Text)
		}
	}
}

// A new entry is compared with the newest 1,000 of its topic that stand, those
// that come with it in one batch among them, and with nothing older.
func TestEvents_CompareTheNewest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlow()
		quiet := open(t, st)
		var all sync.WaitGroup
		tides := func(s *fields.Service, n int) {
			for range n {
				all.Go(func() { do[field.Written](t, s, "", field.OpWrite, note("kelp", "tide", "agrees", true)) })
			}
			all.Wait()
		}
		old := do[field.Written](t, quiet, "", field.OpWrite, note("mara", "tide", "h", 1))
		tides(quiet, 900)
		quiet.Close()
		s := open(t, st, joined(t))
		defer s.Close()
		tides(s, 99) // of one batch, but for the first
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", "h", 2))
		found := func() (n int) {
			for _, r := range logged(t, st.Store) {
				if r.Event.Name == fields.EventConflict && strings.Contains(string(r.Event.Data), old.ID) {
					n++
				}
			}
			return n
		}
		if n := found(); n != 1 {
			t.Errorf("the 1,000th entry before is named in %d conflicts, want 1", n)
		}
		do[field.Written](t, s, "", field.OpWrite, note("gull", "tide", "h", 3))
		if n := found(); n != 1 {
			t.Errorf("the 1,001st entry before is named in %d conflicts, want 1 still", n)
		}
	})
}

// What a batch says about conflicts may be far larger than the batch: then it
// takes several appends.
func TestEvents_DoNotMakeAppendsLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newSlow()
		quiet := open(t, st)
		entry := func(agent string, n int) json.RawMessage {
			var pairs []any
			for k := range 12 {
				pairs = append(pairs, fmt.Sprint("key", k), strings.Repeat(fmt.Sprintf("%04d ", n), 100))
			}
			return note(agent, "tide", pairs...)
		}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() { do[field.Written](t, quiet, "", field.OpWrite, entry("kelp", i)) })
		}
		all.Wait()
		quiet.Close()
		st.appends = nil
		s := open(t, st, joined(t))
		defer s.Close()
		for i := range 12 {
			all.Go(func() { do[field.Written](t, s, "", field.OpWrite, entry("gull", 1000+i)) })
		}
		all.Wait()
		if most := slices.Max(st.appends); most < 2 || most > 6 { // about 1 MiB each
			t.Errorf("appends of %v entries, want several of about 4", st.appends)
		}
		if state := folded(t, st, "default"); state.Len() != 112 {
			t.Errorf("%d entries, want 112", state.Len())
		}
	})
}

// What an agent wrote stands in events as it was written.
func TestEvents_AreNotEscaped(t *testing.T) {
	st := memory.New(memory.Options{})
	s := open(t, st, joined(t))
	defer s.Close()
	long := strings.Repeat("<&>", 400)
	do[field.Written](t, s, "", field.OpWrite, json.RawMessage(`{"entry":{"topic":"<a>","v":"<$40 & up>","long":"`+long+`","n":1e2},"intent":"why <not> & how","agent":"a&b"}`))
	do[field.Written](t, s, "", field.OpWrite, json.RawMessage(`{"entry":{"topic":"<a>","v":"<$50>","long":"-"},"intent":"why <not> & how"}`))
	for _, r := range logged(t, st) {
		if all := string(r.Event.Data) + r.Event.Text; strings.Contains(all, `\u00`) || !strings.Contains(all, "<$") && r.Event.Name == fields.EventConflict {
			t.Errorf("%s: %s\n%s", r.Event.Name, r.Event.Text, r.Event.Data)
		}
	}
}
