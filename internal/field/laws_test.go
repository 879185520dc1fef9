package field_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/field"
)

// Folding the encoded changes, from the start or from any place, gives the
// state that deciding gave.
func TestLaw_FoldIsTheState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := liveOn(t, drawSettings(t), 60)
		folded := field.NewState()
		prefix := rapid.IntRange(0, len(l.log)).Draw(t, "prefix")
		for i, c := range l.log {
			if i >= prefix {
				body, err := c.Encode()
				if err != nil {
					t.Fatal(err)
				}
				if c, err = field.DecodeChange(field.Format, body); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(l.log[i], c); diff != "" {
					t.Fatalf("change %d (-decided +decoded):\n%s", i+1, diff)
				}
			}
			if err := folded.Apply(c); err != nil {
				t.Fatal(err)
			}
		}
		if a, b := portrait(t, l.state), portrait(t, folded); a != b {
			t.Fatalf("states differ:\n%s\n%s", a, b)
		}
		if folded.Number() != int64(len(l.log)) {
			t.Fatalf("%d changes, number %d", len(l.log), folded.Number())
		}
	})
}

// portrait shows everything about a state that can be seen.
func portrait(t *rapid.T, s *field.State) string {
	out := fmt.Sprintln(s.Number(), s.Epoch(), s.Len())
	for _, agent := range someone {
		out += encoded(everything(t, s, agent)) + "\n"
		for _, set := range []field.Settings{gradedMode, referenceMode} {
			for _, params := range []string{`{"agent":%q}`, `{"agent":%q,"topic":"reef","role":"pilot"}`} {
				q, err := field.ParseQuery(field.OpReckon, json.RawMessage(fmt.Sprintf(params, agent)), set)
				if err != nil {
					t.Fatal(err)
				}
				result, err := s.Answer(q, set)
				if err != nil {
					t.Fatal(err)
				}
				out += encoded(result) + "\n"
			}
		}
	}
	return out
}

// Epochs rise along the list, but for drafts that were discarded; timestamps
// never fall from change to change; links hold at both ends.
func TestLaw_OrderOfTheList(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := liveOn(t, drawSettings(t), 60)
		last := int64(-1)
		for _, e := range everything(t, l.state, "") {
			linked(t, l.state, &e)
			if e.Status == field.StatusRetracted && e.RetractIntent == "" {
				continue
			}
			if e.Epoch <= last {
				t.Fatalf("epoch %d after %d", e.Epoch, last)
			}
			last = e.Epoch
		}
		at := int64(0)
		for _, c := range l.log {
			if c.At < at {
				t.Fatalf("a change at %d after one at %d", c.At, at)
			}
			at = c.At
		}
	})
}

// linked checks that what is superseded, and nothing else, names a successor,
// which names it.
func linked(t *rapid.T, s *field.State, e *field.Entry) {
	next, ok := s.Entry(e.SupersededBy)
	if ok != (e.Status == field.StatusSuperseded) || ok && next.Supersedes != e.ID {
		t.Fatalf("%s is %s, its successor is %q, which supersedes %q", e.ID, e.Status, e.SupersededBy, next.Supersedes)
	}
	if e.Supersedes == "" {
		return
	}
	if before, _ := s.Entry(e.Supersedes); before.SupersededBy != e.ID {
		t.Fatalf("%s supersedes %s, which %q does", e.ID, e.Supersedes, before.SupersededBy)
	}
}

// Who writes first changes which of the two is a, and nothing else.
func TestLaw_ReckonIsSymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		one, two := drawPayload(t), drawPayload(t)
		reckon := func(first, second string) []field.Conflict {
			s := field.NewState()
			for i, payload := range []string{first, second} {
				if err := s.Apply(&field.Change{Kind: field.KindWritten, Epoch: int64(i), ID: fmt.Sprint(i), Intent: intent20, Entry: json.RawMessage(payload)}); err != nil {
					t.Fatal(err)
				}
			}
			q, err := field.ParseQuery(field.OpReckon, json.RawMessage(`{"agent":"mara","deep":true}`), set)
			if err != nil {
				t.Fatal(err)
			}
			_, conflicts, _ := s.Reckon(q, set)
			return conflicts
		}
		a, b := reckon(one, two), reckon(two, one)
		if len(a) != len(b) || len(a) > 1 {
			t.Fatalf("%s and %s: %d and %d conflicts", one, two, len(a), len(b))
		}
		for i := range a {
			if diff := cmp.Diff(append(a[i].Keys, a[i].Paths...), append(b[i].Keys, b[i].Paths...)); diff != "" {
				t.Fatalf("%s and %s:\n%s", one, two, diff)
			}
			if a[i].A.ID != "1" || b[i].A.ID != "1" {
				t.Fatalf("a is %s and %s: want the later", a[i].A.ID, b[i].A.ID)
			}
		}
	})
}
