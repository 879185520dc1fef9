package storetest_test

import (
	"errors"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
	"attend/internal/store/storetest"
)

func entry() store.Entry {
	return store.Entry{Events: []store.NewEvent{{Scope: "a", Event: engine.Event{ID: "1", Name: "n", Kind: engine.Closing}}}}
}

func TestFaulty_WithoutAFaultPassesTheSuite(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, now func() time.Time) store.Store {
		return storetest.Faulty(memory.New(memory.Options{Now: now}), storetest.Fault{})
	})
}

func TestFaulty_FailsTheNthCallBeforeOrAfterItsWork(t *testing.T) {
	for _, c := range []struct {
		fault storetest.Fault
		heads []engine.Position // of the store behind, after each of three appends
	}{
		{storetest.Fault{N: 2}, []engine.Position{1, 1, 2}},
		{storetest.Fault{N: 2, After: true}, []engine.Position{1, 2, 3}},
		{storetest.Fault{N: 1, Ops: []storetest.Op{storetest.OpHead}}, []engine.Position{1, 2, 3}},
	} {
		inner := memory.New(memory.Options{})
		s := storetest.Faulty(inner, c.fault)
		failed := 0
		for i, want := range c.heads {
			_, err := s.Append(t.Context(), entry())
			if err != nil {
				failed++
				if !errors.Is(err, store.ErrUnavailable) || i+1 != c.fault.N || s.Fired() != storetest.OpAppend {
					t.Errorf("%v: append %d: %v, fired %q", c.fault, i+1, err, s.Fired())
				}
			}
			h, err := inner.Head(t.Context())
			if err != nil || h.Position != want {
				t.Errorf("%v: head %+v after append %d, %v; want %d", c.fault, h, i+1, err, want)
			}
		}
		if len(c.fault.Ops) == 0 && failed != 1 {
			t.Errorf("%v: %d appends failed, want 1", c.fault, failed)
		}
	}
}

// TestEveryCall_FailsEachCallOfTheWork runs work of three calls that tries
// each again until it succeeds.
func TestEveryCall_FailsEachCallOfTheWork(t *testing.T) {
	met := make(map[string]int)
	runs := 0
	storetest.EveryCall(t, []storetest.Op{storetest.OpAppend, storetest.OpHead}, func(t *testing.T, f storetest.Fault) *storetest.FaultyStore {
		runs++
		inner := memory.New(memory.Options{})
		s := storetest.Faulty(inner, f)
		again := func(work func() error) {
			t.Helper()
			for range 2 {
				err := work()
				if err == nil {
					return
				}
				if !errors.Is(err, store.ErrUnavailable) {
					t.Fatal(err)
				}
			}
			t.Fatal("two faults where there is one")
		}
		again(func() error { _, err := s.Append(t.Context(), entry()); return err })
		again(func() error { _, err := s.Head(t.Context()); return err })
		again(func() error { _, err := s.Append(t.Context(), entry()); return err })
		want := engine.Position(2)
		if f.After && s.Fired() == storetest.OpAppend {
			want = 3 // written, not answered, written again
		}
		if h, err := inner.Head(t.Context()); err != nil || h.Position != want {
			t.Errorf("%v: head %+v, %v; want %d", f, h, err, want)
		}
		met[string(s.Fired())]++
		return s
	})
	if runs != 8 || met["Append"] != 4 || met["Head"] != 2 || met[""] != 2 {
		t.Errorf("%d runs met %v, want 3 faults and a clean run, before and after", runs, met)
	}
}

func TestFaults(t *testing.T) {
	storetest.Faults(t, func(_ *testing.T, now func() time.Time) store.Store { return memory.New(memory.Options{Now: now}) })
}

func TestFaulty_ReachesEveryOperation(t *testing.T) {
	for _, op := range []storetest.Op{
		storetest.OpAppend, storetest.OpHead, storetest.OpRead, storetest.OpWait, storetest.OpEvents, storetest.OpSteps,
		storetest.OpSaveStates, storetest.OpLoadState, storetest.OpLiveStates, storetest.OpScopeNames, storetest.OpCheckpoint,
		storetest.OpRow, storetest.OpRows, storetest.OpFieldChanges, storetest.OpFieldHead, storetest.OpFieldNames, storetest.OpOwn, storetest.OpSecret,
	} {
		s := storetest.Faulty(memory.New(memory.Options{}), storetest.Fault{N: 1, Ops: []storetest.Op{op}})
		for name, call := range map[storetest.Op]func() error{
			storetest.OpAppend:       func() error { _, err := s.Append(t.Context(), entry()); return err },
			storetest.OpHead:         func() error { _, err := s.Head(t.Context()); return err },
			storetest.OpRead:         func() error { _, err := s.Read(t.Context(), 0, 1); return err },
			storetest.OpWait:         func() error { return s.Wait(t.Context(), -1) },
			storetest.OpEvents:       func() error { _, err := s.Events(t.Context(), nil); return err },
			storetest.OpSteps:        func() error { _, err := s.Steps(t.Context(), store.StepQuery{}); return err },
			storetest.OpSaveStates:   func() error { return s.SaveStates(t.Context(), store.Fence{}, nil, 0) },
			storetest.OpLoadState:    func() error { _, err := s.LoadState(t.Context(), "a"); return err },
			storetest.OpLiveStates:   func() error { _, err := s.LiveStates(t.Context(), "", 1); return err },
			storetest.OpScopeNames:   func() error { _, err := s.ScopeNames(t.Context(), "", 1); return err },
			storetest.OpCheckpoint:   func() error { _, err := s.Checkpoint(t.Context(), store.Fence{}); return err },
			storetest.OpRow:          func() error { _, err := s.Row(t.Context(), "x", "k"); return err },
			storetest.OpRows:         func() error { _, err := s.Rows(t.Context(), "x"); return err },
			storetest.OpFieldChanges: func() error { _, err := s.FieldChanges(t.Context(), "f", 0, 1); return err },
			storetest.OpFieldHead:    func() error { _, err := s.FieldHead(t.Context(), "f"); return err },
			storetest.OpFieldNames:   func() error { _, err := s.FieldNames(t.Context(), "", 1); return err },
			storetest.OpOwn:          func() error { _, err := s.Own(t.Context()); return err },
			storetest.OpSecret:       func() error { _, err := s.Secret(t.Context()); return err },
		} {
			if err := call(); errors.Is(err, store.ErrUnavailable) != (name == op) {
				t.Errorf("fault on %s: %s gave %v", op, name, err)
			}
		}
	}
}
