package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/storetest"
)

func openStore(t *testing.T, path string, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func fresh(t *testing.T) string { return filepath.Join(t.TempDir(), "attend.db") }

func plain(scope string, n int) store.Entry {
	var e store.Entry
	for i := range n {
		e.Events = append(e.Events, store.NewEvent{Scope: scope, Event: engine.Event{ID: fmt.Sprint(i), Name: "n", Kind: engine.Closing}})
	}
	return e
}

func mustAppend(t *testing.T, s *Store, entries ...store.Entry) []store.Receipt {
	t.Helper()
	rs, err := s.Append(t.Context(), entries...)
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	for i := range rs {
		if rs[i].Err != nil {
			t.Fatalf("entry %d was refused: %v", i, rs[i].Err)
		}
	}
	return rs
}

func position(t *testing.T, s *Store) engine.Position {
	t.Helper()
	h, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return h.Position
}

// eventually waits for something that the store does in its own time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}

// TestContract_WithoutATail runs the suite on a store that keeps one group in
// memory, so that nearly every answer comes from the tables.
func TestContract_WithoutATail(t *testing.T) {
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		return openStore(t, fresh(t), Options{Now: now, tailRecords: 1, Synchronous: SynchronousNormal})
	})
}

// TestContract_AfterAKill reopens what the disk holds while the first store
// still stands there unclosed, with everything in its WAL.
func TestContract_AfterAKill(t *testing.T) {
	paths := make(map[store.Store]string)
	open := func(t *testing.T, path string, now func() time.Time) store.Store {
		s := openStore(t, path, Options{Now: now, noCheckpoints: true, Synchronous: SynchronousNormal})
		paths[s] = path
		return s
	}
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		return open(t, fresh(t), now)
	}, storetest.Reopen(func(t *testing.T, s store.Store, now func() time.Time) store.Store {
		return open(t, copyStore(t, paths[s]), now)
	}))
}

func TestCommit_WhoseAnswerWasLostIsFoundAgain(t *testing.T) {
	lose := false
	s := openStore(t, fresh(t), Options{onCommit: func(commit func() error) error {
		err := commit()
		if lose {
			lose = false
			return errors.Join(err, errors.New("the answer was lost"))
		}
		return err
	}})
	mustAppend(t, s, plain("a", 2))
	fence, err := s.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	step := store.Entry{Steps: []engine.Step{{Kind: engine.StepTrace, Trace: &engine.Trace{Name: "x"}}}, Scope: "a", Fence: fence}
	lose = true
	rs, err := s.Append(t.Context(), plain("b", 1), step)
	if !errors.Is(err, store.ErrUnavailable) || !errors.Is(rs[0].Err, store.ErrUnavailable) || !errors.Is(rs[1].Err, store.ErrUnavailable) {
		t.Fatalf("append: %+v, %v; want unavailable", rs, err)
	}
	if got := position(t, s); got != 4 {
		t.Errorf("head %d after a commit that was made, want 4", got)
	}
	log, err := s.Read(t.Context(), 0, 10)
	if err != nil || len(log) != 4 || log[2].Scope != "b" || log[3].Step == nil {
		t.Errorf("log %+v, %v", log, err)
	}
	// The owner decides again on what it finds: what it appended is there.
	if rs, err = s.Append(t.Context(), step); err != nil || !errors.Is(rs[0].Err, store.ErrConflict) {
		t.Errorf("the same step again: %+v, %v; want a conflict", rs, err)
	}
	step.After = 4
	if r := mustAppend(t, s, step)[0]; r.First != 5 {
		t.Errorf("the next step stands at %d, want 5", r.First)
	}
}

func TestCommit_ThatFailsLeavesNothing(t *testing.T) {
	fail := false
	s := openStore(t, fresh(t), Options{onCommit: func(commit func() error) error {
		if fail {
			fail = false
			return errors.New("no commit")
		}
		return commit()
	}})
	mustAppend(t, s, plain("a", 1))
	fail = true
	e := plain("b", 3)
	e.Puts = []store.Put{{Space: "x", Key: "k", Value: []byte("v")}}
	if _, err := s.Append(t.Context(), e); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("append: %v, want unavailable", err)
	}
	if got := position(t, s); got != 1 {
		t.Errorf("head %d, want 1", got)
	}
	if _, err := s.Row(t.Context(), "x", "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("row: %v, want not found", err)
	}
	if r := mustAppend(t, s, plain("c", 1))[0]; r.First != 2 {
		t.Errorf("the next event stands at %d, want 2", r.First)
	}
}

// on runs something on the writer's connection.
func on(t *testing.T, s *Store, query string) error {
	t.Helper()
	return s.do(t.Context(), "test", func(ctx context.Context, w *session) error {
		_, err := w.conn.ExecContext(ctx, query)
		return err
	})
}

func TestWriter_RecoversByItself(t *testing.T) {
	for name, c := range map[string]struct{ breaks, says string }{
		"FullDisk": {"PRAGMA max_page_count = 1", "full"}, // SQLite does not go below what there is
		"ReadOnly": {"PRAGMA query_only = 1", "readonly"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t, fresh(t), Options{})
			mustAppend(t, s, plain("a", 1))
			fence, err := s.Own(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := on(t, s, c.breaks); err != nil {
				t.Fatal(err)
			}
			big := plain("b", 1)
			big.Events[0].Data = make([]byte, 1<<20)
			_, err = s.Append(t.Context(), big)
			if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("append: %v, want unavailable and %q", err, c.says)
			}
			// The fault was of the connection, and that one is gone.
			if r := mustAppend(t, s, big)[0]; r.First != 2 {
				t.Errorf("the event stands at %d, want 2", r.First)
			}
			if err := on(t, s, c.breaks); err != nil {
				t.Fatal(err)
			}
			rows := []store.StateRow{{Scope: "a", Position: 1, Format: 1, Body: make([]byte, 1<<20)}}
			if err := s.SaveStates(t.Context(), fence, rows, 1); !errors.Is(err, store.ErrUnavailable) {
				t.Errorf("save states: %v, want unavailable", err)
			}
			if err := s.SaveStates(t.Context(), fence, rows, 1); err != nil {
				t.Errorf("save states again: %v", err)
			}
		})
	}
}

func TestEnd_SurvivesCompactionOfEverything(t *testing.T) {
	path := fresh(t)
	clock := storetest.NewClock(1_760_000_000_000)
	s := openStore(t, path, Options{Now: clock.Now})
	fence, err := s.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := mustAppend(t, s, plain("a", 5), store.Entry{Steps: []engine.Step{{Kind: engine.StepFlush}}, Scope: "a"})[1]
	if err := s.SaveStates(t.Context(), fence, nil, last.Last); err != nil {
		t.Fatal(err)
	}
	if err := on(t, s, "DELETE FROM events; DELETE FROM steps"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Set(0)
	s = openStore(t, path, Options{Now: clock.Now})
	if r := mustAppend(t, s, plain("a", 1))[0]; r.First != last.Last+1 || r.Stamp < last.Stamp {
		t.Errorf("receipt %+v after %+v", r, last)
	}
}

func TestRead_RefusesRowsOfANewerFormat(t *testing.T) {
	path := fresh(t)
	s := openStore(t, path, Options{tailRecords: 1})
	mustAppend(t, s, plain("a", 1), store.Entry{Steps: []engine.Step{{Kind: engine.StepFlush}}, Scope: "a"})
	mustAppend(t, s, plain("a", 1))
	for _, table := range []string{"events", "steps"} {
		if err := on(t, s, "UPDATE "+table+" SET format = 99 WHERE position < 3"); err != nil {
			t.Fatal(err)
		}
		var format *engine.FormatError
		if _, err := s.Read(t.Context(), 0, 10); !errors.As(err, &format) || format.Got != 99 {
			t.Errorf("read of %s: %v, want a format error", table, err)
		}
		if err := on(t, s, "UPDATE "+table+" SET format = 1"); err != nil {
			t.Fatal(err)
		}
	}
	if rs, err := s.Read(t.Context(), 0, 10); err != nil || len(rs) != 3 {
		t.Errorf("read: %d records, %v", len(rs), err)
	}
}

// TestSchema_EventsHaveNoIndex guards the shape that ingest's speed rests on.
func TestSchema_EventsHaveNoIndex(t *testing.T) {
	s := openStore(t, fresh(t), Options{})
	var n int
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND tbl_name = 'events'").Scan(&n); err != nil || n != 0 {
		t.Errorf("events have %d indexes, %v", n, err)
	}
}

// TestStepQuery_NeverSorts sees that pages of steps come out of an index in
// order: a sort would read every row behind the cursor for each page.
func TestStepQuery_NeverSorts(t *testing.T) {
	s := openStore(t, fresh(t), Options{})
	two := []engine.StepKind{engine.StepDecision, engine.StepDeadLetter}
	for _, q := range []store.StepQuery{
		{},
		{After: 7},
		{Kinds: two},
		{Kinds: two[:1], After: 7},
		{Scope: "a"},
		{Scope: "a", Kinds: two},
		{Window: "w"},
		{Window: "w", Kinds: two, Scope: "a"},
		{ID: "i"},
		{ID: "i", Kinds: two, Scope: "a", Window: "w"},
	} {
		query, args := stepQuery(&q)
		plan := planOf(t, s, query, args)
		if strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN") {
			t.Errorf("steps %+v:\n%s", q, plan)
		}
	}
}

// planOf is how SQLite would go about a query.
func planOf(t *testing.T, s *Store, query string, args []any) string {
	t.Helper()
	rows, err := s.db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var id, parent, unused int
		var detail string
		if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(detail + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

func TestSynchronous_IsWhatWasAskedFor(t *testing.T) {
	for mode, want := range map[Synchronous]int{"": 2, SynchronousFull: 2, SynchronousNormal: 1} {
		s := openStore(t, fresh(t), Options{Synchronous: mode})
		var got int
		err := s.do(t.Context(), "test", func(ctx context.Context, w *session) error {
			return w.conn.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&got)
		})
		if err != nil || got != want {
			t.Errorf("%q: synchronous is %d, %v; want %d", mode, got, err, want)
		}
	}
	if _, err := Open(t.Context(), fresh(t), Options{Synchronous: "off"}); err == nil || !strings.Contains(err.Error(), "want full or normal") {
		t.Errorf("synchronous off: %v", err)
	}
}

func pid() string { return strconv.Itoa(os.Getpid()) }
