package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/sqlite"
	"attend/internal/store/storetest"
)

func openReader(t *testing.T, path string) *sqlite.Reader {
	t.Helper()
	r, err := sqlite.OpenReader(t.Context(), path)
	if err != nil {
		t.Fatalf("open reader: %v", err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

func event(scope, id string) store.NewEvent {
	return store.NewEvent{Scope: scope, Event: engine.Event{ID: id, Name: "n", Kind: engine.Closing}}
}

// change is one change of a Field, which tells its own number.
func change(name string, after int64) *store.FieldAppend {
	return &store.FieldAppend{Name: name, After: after, Changes: []store.FieldChange{{Format: 1, Body: fmt.Append(nil, after+1)}}}
}

func mustAppend(t *testing.T, s store.Log, entries ...store.Entry) []store.Receipt {
	t.Helper()
	rs, err := s.Append(t.Context(), entries...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rs {
		if rs[i].Err != nil {
			t.Fatal(rs[i].Err)
		}
	}
	return rs
}

// TestReader_ReadsBesideADaemon compares every answer of a reader with the
// daemon's, while the daemon goes on.
func TestReader_ReadsBesideADaemon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attend.db")
	s := open(t, path, sqlite.Options{})
	fence, err := s.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	for i := range 3 {
		mustAppend(t, s, store.Entry{
			Events: []store.NewEvent{event("a", "1"), event("b", "2")},
			Steps:  []engine.Step{{Kind: engine.StepFlush}}, Scope: "a",
			Puts: []store.Put{{Space: "x", Key: "k", Value: []byte{byte(i)}}}, Field: change("f", int64(i)),
		})
		row := store.StateRow{Scope: "a", Position: engine.Position(3 * i), Live: true, Format: engine.Format, Body: []byte("b")}
		if err := s.SaveStates(t.Context(), fence, []store.StateRow{row}, 1); err != nil {
			t.Fatal(err)
		}
		type answers struct {
			Head   store.Head
			Log    []engine.Record
			Events []engine.Record
			Steps  []engine.Record
			State  store.StateRow
			Rows   []store.Put
			Field  []store.FieldChange
			Last   int64
			Names  []string
		}
		type reads interface {
			store.Rows
			store.Fields
			Head(ctx context.Context) (store.Head, error)
			Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error)
			Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error)
			Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error)
			LoadState(ctx context.Context, scope string) (store.StateRow, error)
		}
		ask := func(from reads) (a answers) {
			var errs [9]error
			a.Head, errs[0] = from.Head(t.Context())
			a.Log, errs[1] = from.Read(t.Context(), 1, 100)
			a.Events, errs[2] = from.Events(t.Context(), []engine.Position{2, 1, 3})
			a.Steps, errs[3] = from.Steps(t.Context(), store.StepQuery{Scope: "a"})
			a.State, errs[4] = from.LoadState(t.Context(), "a")
			a.Rows, errs[5] = from.Rows(t.Context(), "x")
			a.Field, errs[6] = from.FieldChanges(t.Context(), "f", 0, 10)
			a.Last, errs[7] = from.FieldHead(t.Context(), "f")
			a.Names, errs[8] = from.FieldNames(t.Context(), "", 10)
			if err := errors.Join(errs[:]...); err != nil {
				t.Fatal(err)
			}
			return a
		}
		if got := ask(r).Last; got != int64(i+1) {
			t.Errorf("the reader sees %d changes of %d", got, i+1)
		}
		if d := storetest.Compare(ask(r), ask(s)); d != "" {
			t.Errorf("the reader's answers differ (-daemon +reader):\n%s", d)
		}
	}
}

func TestReader_WaitsForAnotherProcessToWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attend.db")
	s := open(t, path, sqlite.Options{})
	r := openReader(t, path)
	done := make(chan error)
	go func() { done <- r.Wait(t.Context(), 0) }()
	mustAppend(t, s, store.Entry{Events: []store.NewEvent{event("a", "1")}})
	if err := <-done; err != nil {
		t.Errorf("wait: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(t.Context(), 0, 1); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a read after the close: %v", err)
	}
}

// TestReader_NeedsNoDaemonAndChangesNothing reads a store that was closed, and
// keeps no daemon from starting.
func TestReader_NeedsNoDaemonAndChangesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attend.db")
	s := open(t, path, sqlite.Options{})
	mustAppend(t, s, store.Entry{Events: []store.NewEvent{event("a", "1")}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r := openReader(t, path)
	if rs, err := r.Read(t.Context(), 0, 10); err != nil || len(rs) != 1 {
		t.Errorf("read: %d records, %v", len(rs), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the reader changed the store, %v", err)
	}
	// It holds no lock: a daemon can start and end beside it.
	r = openReader(t, path)
	s = open(t, path, sqlite.Options{})
	mustAppend(t, s, store.Entry{Events: []store.NewEvent{event("a", "2")}})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if rs, err := r.Read(t.Context(), 0, 10); err != nil || len(rs) != 2 {
		t.Errorf("read after the daemon's end: %d records, %v", len(rs), err)
	}
}

// TestKill_LosesNothingAcknowledged kills a process that appends, at a moment
// that it does not choose, and opens what it left.
func TestKill_LosesNothingAcknowledged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attend.db")
	var stamp engine.Time
	var told engine.Position
	for round := range 3 {
		told = max(told, killAppender(t, path, 200*(round+1)))
		s := open(t, path, sqlite.Options{Now: func() time.Time { return time.UnixMilli(0) }})
		h, err := s.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if h.Position < told || h.Stamp < stamp {
			t.Fatalf("head %+v after %d was acknowledged at %d", h, told, stamp)
		}
		stamp = h.Stamp
		var at engine.Position
		steps := 0
		for at < h.Position {
			rs, err := s.Read(t.Context(), at, 1000)
			if err != nil || len(rs) == 0 {
				t.Fatalf("read after %d: %d records, %v", at, len(rs), err)
			}
			for i := range rs {
				if at++; rs[i].Position != at {
					t.Fatalf("a gap: %d where %d belongs", rs[i].Position, at)
				}
				if rs[i].Step != nil {
					steps++
				}
			}
		}
		if got := changesOf(t, s); got != steps {
			t.Fatalf("%d changes of fields stand beside %d steps: an entry is torn", got, steps)
		}
		if r := mustAppend(t, s, store.Entry{Events: []store.NewEvent{event("a", "late")}})[0]; r.First != h.Position+1 || r.Stamp < stamp {
			t.Errorf("receipt %+v after head %+v", r, h)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// changesOf counts the changes of all Fields, and sees that each is whole.
func changesOf(t *testing.T, s store.Fields) (n int) {
	t.Helper()
	names, err := s.FieldNames(t.Context(), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		changes, err := s.FieldChanges(t.Context(), name, 0, 1_000_000)
		if err != nil {
			t.Fatal(err)
		}
		for i := range changes {
			if c := &changes[i]; c.Number != int64(i+1) || string(c.Body) != fmt.Sprint(i+1) {
				t.Fatalf("field %s: change %d is %d, %q", name, i+1, c.Number, c.Body)
			}
		}
		n += len(changes)
	}
	return n
}
