package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
)

// change is an entry of one change of a Field, with a body of n bytes.
func change(name string, after int64, n int) store.Entry {
	return store.Entry{Field: &store.FieldAppend{Name: name, After: after, Changes: []store.FieldChange{{Format: 1, Body: make([]byte, n)}}}}
}

func lastChange(t *testing.T, s *Store, name string) int64 {
	t.Helper()
	last, err := s.FieldHead(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return last
}

// TestFields_AFailureForgetsWhatWasNotCommitted breaks a commit before and
// after its work, under a Field that is new and one that is not.
func TestFields_AFailureForgetsWhatWasNotCommitted(t *testing.T) {
	for name, made := range map[string]bool{"NoCommit": false, "NoAnswer": true} {
		t.Run(name, func(t *testing.T) {
			fail := false
			s := openStore(t, fresh(t), Options{onCommit: func(commit func() error) error {
				if !fail {
					return commit()
				}
				fail = false
				if made {
					return errors.Join(commit(), errors.New("the answer was lost"))
				}
				return errors.New("no commit")
			}})
			mustAppend(t, s, change("old", 0, 1))
			fail = true
			both := []store.Entry{change("old", 1, 1), change("new", 0, 1), change("new", 1, 1)}
			if _, err := s.Append(t.Context(), both...); !errors.Is(err, store.ErrUnavailable) {
				t.Fatalf("append: %v, want unavailable", err)
			}
			rs, err := s.Append(t.Context(), both...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range rs {
				if made != errors.Is(rs[i].Err, store.ErrConflict) || made != (rs[i].Err != nil) {
					t.Errorf("entry %d again: %v", i, rs[i].Err)
				}
			}
			if a, b := lastChange(t, s, "old"), lastChange(t, s, "new"); a != 2 || b != 2 {
				t.Errorf("heads %d and %d, want 2 and 2", a, b)
			}
		})
	}
}

// TestFields_AForgottenHeadIsReadAgain comes back to a Field after as many
// others as the writer remembers.
func TestFields_AForgottenHeadIsReadAgain(t *testing.T) {
	s := openStore(t, fresh(t), Options{})
	mustAppend(t, s, change("f", 0, 1), change("f", 1, 1))
	err := s.do(t.Context(), "test", func(context.Context, *session) error {
		for i := range 2 * recentMost {
			s.writer.fields.put(fmt.Sprint(i), new(fieldHead))
		}
		if _, ok := s.writer.fields.get("f"); ok {
			return errors.New("the writer still remembers the first one")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, change("f", 2, 1))
	if got := lastChange(t, s, "f"); got != 3 {
		t.Errorf("head %d, want 3", got)
	}
}

// TestPending_CountsChangesForItsGroupAndNotForTheTail: a group is bounded
// whatever it is made of, and the tail holds no changes.
func TestPending_CountsChangesForItsGroupAndNotForTheTail(t *testing.T) {
	g := new(group)
	e := change("f", 0, groupBytes/4)
	e.Events = plain("a", 1).Events
	var entries []store.Entry
	for range 8 {
		entries = append(entries, e)
	}
	c := newCall(none, entries)
	if calls := []*call{c}; fill(g, &calls) || len(g.entries) != 3 {
		t.Errorf("a group took %d entries of a quarter of its size", len(g.entries))
	}
	b := new(batch)
	var last engine.Position
	for _, p := range g.entries {
		p.head = new(fieldHead)
		last = b.add(p, last)
	}
	if len(b.changes) != 3 || b.bytes == 0 || b.bytes > 3*2*recordOverhead {
		t.Errorf("%d changes; three small events count as %d bytes", len(b.changes), b.bytes)
	}
}

// TestFields_ReadsNeitherScanNorSort sees that a page of a Field costs what is
// on it.
func TestFields_ReadsNeitherScanNorSort(t *testing.T) {
	s := openStore(t, fresh(t), Options{})
	for query, args := range map[string][]any{
		fieldChangesQuery: {"f", 0, 10}, fieldHeadQuery: {"f"}, fieldNamesQuery: {"", 10}, findFieldQuery: {"f"},
	} {
		if plan := planOf(t, s, query, args); strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN") {
			t.Errorf("%s:\n%s", query, plan)
		}
	}
}
