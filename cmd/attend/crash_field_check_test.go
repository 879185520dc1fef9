package main_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"attend/internal/engine"
	"attend/internal/field"
	"attend/internal/fields"
)

// sentEntry names an entry that an author has sent, once.
type sentEntry struct{ field, mark string }

// ackedEntry is what the answer said.
type ackedEntry struct {
	id    string
	epoch int64 // -1 where it is not known: of a draft
}

// fieldEvidence is what the authors saw.
type fieldEvidence struct {
	sent   map[sentEntry]bool
	acked  map[sentEntry]ackedEntry
	status map[string]field.Status // id → what it is; absent while that is not known
	scopes map[string]bool         // of the events of the topics that were written about
}

func newFieldEvidence() fieldEvidence {
	return fieldEvidence{make(map[sentEntry]bool), make(map[sentEntry]ackedEntry), make(map[string]field.Status), make(map[string]bool)}
}

func (l *ledger) entrySent(e sentEntry, scope string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fields.sent[e] = true
	l.fields.scopes[scope] = true
}

func (l *ledger) entryAcked(e sentEntry, id string, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fields.acked[e] = ackedEntry{id, epoch}
}

// entryMoved notes the epoch that a draft has taken.
func (l *ledger) entryMoved(id string, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for e, a := range l.fields.acked {
		if a.id == id {
			l.fields.acked[e] = ackedEntry{id, epoch}
		}
	}
}

func (l *ledger) entryIs(id string, status field.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fields.status[id] = status
}

// entryChanges notes that an operation on an entry is on its way.
func (l *ledger) entryChanges(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.fields.status, id)
}

// checkFields holds the Fields that are left against what the authors saw, and
// the events in the log against the Fields.
func checkFields(f *findings, changes map[string][]*field.Change, log []engine.Record, seen *fieldEvidence) (entries int) {
	found := make(map[sentEntry]ackedEntry)
	var committed []string
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		state, epoch := field.NewState(), int64(0)
		for i, c := range changes[name] {
			if id := c.Commits(); id != "" {
				committed = append(committed, id)
			}
			if takesEpoch(c) {
				if c.Epoch != epoch {
					f.add("epochs", "field %q: change %d takes epoch %d, want %d", name, i+1, c.Epoch, epoch)
				}
				epoch = c.Epoch + 1
			}
			if err := state.Apply(c); err != nil {
				f.add("field", "field %q: change %d does not follow: %v", name, i+1, err)
			}
		}
		entries += checkEntries(f, name, state, seen, found)
	}
	for e, acked := range seen.acked {
		switch got, there := found[e]; {
		case !there:
			f.add("lost", "entry %s of field %q was acknowledged, and is not there", e.mark, e.field)
		case got.id != acked.id || acked.epoch >= 0 && got.epoch != acked.epoch:
			f.add("altered", "entry %s of field %q was acknowledged as %v, and is %v", e.mark, e.field, acked, got)
		}
	}
	checkFieldEvents(f, committed, log)
	return entries
}

func takesEpoch(c *field.Change) bool {
	switch c.Kind {
	case field.KindRegistered, field.KindDeregistered, field.KindDiscarded:
		return false
	default:
		return true
	}
}

// checkEntries looks at what a Field holds, the drafts of its authors too.
func checkEntries(f *findings, name string, state *field.State, seen *fieldEvidence, found map[sentEntry]ackedEntry) int {
	ids := make(map[string]bool)
	n := 0
	for _, e := range everyEntry(f, state) {
		n++
		if ids[e.ID] {
			f.add("twice", "field %q has the id %s twice", name, e.ID)
		}
		ids[e.ID] = true
		var payload struct{ Mark mark }
		if err := json.Unmarshal(e.Entry, &payload); err != nil || payload.Mark.Of == "" {
			f.add("stranger", "field %q: entry %s is %s, which nobody wrote", name, e.ID, e.Entry)
			continue
		}
		sent := sentEntry{name, payload.Mark.Of}
		if !seen.sent[sent] {
			f.add("stranger", "field %q: entry %s has the mark %s, which nobody sent", name, e.ID, sent.mark)
		}
		if first, again := found[sent]; again {
			f.add("twice", "entry %s of field %q is there as %s and as %s, and was sent once", sent.mark, name, first.id, e.ID)
		}
		found[sent] = ackedEntry{e.ID, e.Epoch}
		if want, known := seen.status[e.ID]; known && e.Status != want {
			f.add("status", "field %q: entry %s is %s, and was acknowledged as %s", name, e.ID, e.Status, want)
		}
	}
	return n
}

// everyEntry reads a Field whole, page by page, with the drafts of all authors.
func everyEntry(f *findings, state *field.State) []field.Entry {
	var all []field.Entry
	for _, caller := range append([]string{""}, crashAuthors()...) {
		params := map[string]any{"caller": caller, "limit": 1000}
		for more := true; more; {
			raw, err := json.Marshal(params)
			if err != nil {
				f.add("field", "%v", err)
				return nil
			}
			d, err := state.Decide(field.OpRead, raw, field.DefaultSettings(), field.Draw{})
			if err != nil {
				f.add("field", "%v", err)
				return nil
			}
			page := d.Result.(field.Page)
			for _, e := range page.Entries {
				if caller == "" || e.Status == field.StatusDraft {
					all = append(all, e)
				}
				params["after"] = e.ID
			}
			more = page.More
		}
	}
	return all
}

// checkFieldEvents: what a Field has committed is told in the log, once, in the
// same commit; a pair that contradicts each other too.
func checkFieldEvents(f *findings, committed []string, log []engine.Record) {
	told := make(map[string]int)
	pairs := make(map[string]bool)
	for i := range log {
		e := log[i].Event
		if e == nil || !strings.HasPrefix(log[i].Scope, "field:") {
			continue
		}
		var data struct {
			ID   string
			A, B struct{ ID string }
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			f.add("events", "position %d: %v", log[i].Position, err)
		}
		switch e.Name {
		case fields.EventCommitted:
			told[data.ID]++
		case fields.EventConflict:
			pair := min(data.A.ID, data.B.ID) + " and " + max(data.A.ID, data.B.ID)
			if pairs[pair] {
				f.add("events", "position %d tells again that %s contradict each other", log[i].Position, pair)
			}
			pairs[pair] = true
		default:
			f.add("events", "position %d is a %s", log[i].Position, e.Name)
		}
	}
	for _, id := range committed {
		if told[id] != 1 {
			f.add("events", "entry %s was committed once, and told %d times", id, told[id])
		}
		delete(told, id)
	}
	for _, id := range slices.Sorted(maps.Keys(told)) {
		f.add("events", "entry %s was told, and never committed", id)
	}
}

// Each breach is found, and what is whole is not one.
func TestCrashCheck_Fields(t *testing.T) {
	payload := func(of string) json.RawMessage {
		return json.RawMessage(`{"topic":"t","mark":{"of":"` + of + `"}}`)
	}
	record := func(name, data string) engine.Record {
		return engine.Record{Position: 1, Scope: "field:default:t", Event: &engine.Event{Name: name, Data: []byte(data)}}
	}
	type scene struct {
		changes []*field.Change
		log     []engine.Record
		seen    fieldEvidence
	}
	for _, c := range []struct {
		name, finding string
		breach        func(s *scene)
	}{
		{"nothing", "", func(*scene) {}},
		{"not known is no breach", "", func(s *scene) {
			delete(s.seen.acked, sentEntry{"default", "a-1"})
			delete(s.seen.status, "1")
		}},
		{"lost", "lost:", func(s *scene) { s.seen.acked[sentEntry{"default", "a-9"}] = ackedEntry{"9", 9} }},
		{"another id", "altered:", func(s *scene) { s.seen.acked[sentEntry{"default", "a-1"}] = ackedEntry{"9", 0} }},
		{"another epoch", "altered:", func(s *scene) { s.seen.acked[sentEntry{"default", "a-1"}] = ackedEntry{"1", 7} }},
		{"stranger", "stranger:", func(s *scene) { delete(s.seen.sent, sentEntry{"default", "a-1"}) }},
		{"twice", "twice:", func(s *scene) {
			s.changes = append(s.changes, &field.Change{Kind: field.KindWritten, At: 4, Epoch: 3, ID: "4", Agent: "a", Intent: "i", Entry: payload("a-1")})
			s.log = append(s.log, record(fields.EventCommitted, `{"id":"4"}`))
		}},
		{"a gap", "epochs:", func(s *scene) { s.changes[2].Epoch = 5 }},
		{"a change that does not follow", "field:", func(s *scene) { s.changes[2].ID = "none" }},
		{"a retraction is gone", "status:", func(s *scene) { s.changes = s.changes[:2] }},
		{"not told", "events:", func(s *scene) { s.log = s.log[1:] }},
		{"told twice", "events:", func(s *scene) { s.log = append(s.log, s.log[0]) }},
		{"told of nothing", "events:", func(s *scene) { s.log = append(s.log, record(fields.EventCommitted, `{"id":"9"}`)) }},
		{"a conflict told twice", "events:", func(s *scene) {
			s.log = append(s.log, record(fields.EventConflict, `{"a":{"id":"1"},"b":{"id":"2"}}`), record(fields.EventConflict, `{"a":{"id":"2"},"b":{"id":"1"}}`))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{
				changes: []*field.Change{
					{Kind: field.KindWritten, At: 1, Epoch: 0, ID: "1", Agent: "a", Intent: "i", Entry: payload("a-1")},
					{Kind: field.KindDrafted, At: 2, Epoch: 1, ID: "2", Agent: crashAuthors()[0], Intent: "i", Entry: payload("a-2")},
					{Kind: field.KindRetracted, At: 3, Epoch: 2, ID: "1", Intent: "r"},
				},
				log:  []engine.Record{record(fields.EventCommitted, `{"id":"1"}`)},
				seen: newFieldEvidence(),
			}
			s.seen.sent = map[sentEntry]bool{{"default", "a-1"}: true, {"default", "a-2"}: true, {"default", "a-3"}: true}
			s.seen.acked = map[sentEntry]ackedEntry{{"default", "a-1"}: {"1", 0}, {"default", "a-2"}: {"2", -1}}
			s.seen.status = map[string]field.Status{"1": field.StatusRetracted, "2": field.StatusDraft}
			c.breach(&s)
			var f findings
			checkFields(&f, map[string][]*field.Change{"default": s.changes}, s.log, &s.seen)
			if c.finding == "" && len(f) > 0 || c.finding != "" && !strings.Contains(f.report(), c.finding) {
				t.Errorf("findings %q, want %q", f, c.finding)
			}
		})
	}
}
