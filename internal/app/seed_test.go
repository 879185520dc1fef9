package app_test

import (
	"errors"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// seed is a log with what the judge of this version never does: calls that
// fail, dead letters, windows that are held.
type seed struct {
	t     *testing.T
	store *sqlite.Store
	fence store.Fence
	last  map[string]engine.Position
}

// plant writes a log into a file, before a daemon opens it.
func plant(t *testing.T, path string, write func(*seed)) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &seed{t: t, store: st, last: make(map[string]engine.Position)}
	if s.fence, err = st.Own(t.Context()); err != nil {
		t.Fatal(err)
	}
	policy := engine.Policy{Number: 1, Kinds: map[string]engine.Kind{"message.*": engine.Flush}, Default: engine.Defaults(), Judge: "llm"}
	s.append(store.Entry{Steps: []engine.Step{{Kind: engine.StepPolicy, Policy: &policy}}})
	write(s)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
}

func (s *seed) append(e store.Entry) store.Receipt {
	s.t.Helper()
	receipts, err := s.store.Append(s.t.Context(), e)
	if err := errors.Join(err, receipts[0].Err); err != nil {
		s.t.Fatal(err)
	}
	return receipts[0]
}

// step appends a step as its owner.
func (s *seed) step(scope string, step engine.Step) store.Receipt {
	s.t.Helper()
	head, err := s.store.Head(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	r := s.append(store.Entry{Scope: scope, Steps: []engine.Step{step}, Fence: s.fence, After: s.last[scope], Applied: head.Position})
	s.last[scope] = r.Last
	return r
}

// settled appends a flush event and the settle of its window.
func (s *seed) settled(scope, id string) (window string, settled *engine.Settled, members engine.Members) {
	s.t.Helper()
	e := engine.Event{ID: id, Name: "message.created", Kind: engine.Flush, Policy: 1, Text: "help", Data: []byte(`{"n": 1}`)}
	r := s.append(store.Entry{Events: []store.NewEvent{{Scope: scope, Event: e}}})
	members = engine.Members{{
		Position: r.First, SeenAt: r.Stamp, Policy: 1, Size: int32(e.Size()), Kind: e.Kind, Name: e.Name, Digest: engine.DigestOf(id),
	}}
	window = engine.WindowID(scope, members)
	settled = &engine.Settled{
		Window: window, Reason: engine.ReasonFlush, Trigger: engine.TriggerDeadline,
		Deadline: engine.Deadline{Reason: engine.ReasonFlush, At: r.Stamp, Event: r.First},
		Due:      r.Stamp, SettledAt: r.Stamp, Events: []engine.Position{r.First}, Covered: r.First, FirstSeen: r.Stamp,
	}
	s.step(scope, engine.Step{Kind: engine.StepSettled, Window: window, Settled: settled})
	return window, settled, members
}

// call appends the start of a judge call.
func (s *seed) call(scope, window string, attempt int) {
	s.t.Helper()
	s.step(scope, engine.Step{Kind: engine.StepCall, Window: window, Call: &engine.Call{
		Attempt: attempt, Policy: 1, Offered: []engine.Route{engine.Interrupt, engine.Queue, engine.Skip}, Judge: "llm", TimeoutMs: 20000,
	}})
}

// dead appends a window that a stage gave up on, and returns the dead letter's
// id. missing is the position of an event that is no longer kept, 0 for none.
func (s *seed) dead(scope, stage string, missing engine.Position) string {
	s.t.Helper()
	window, settled, members := s.settled(scope, "e-"+scope)
	s.call(scope, window, 1)
	s.step(scope, engine.Step{Kind: engine.StepFailed, Window: window, Failed: &engine.Failed{Attempt: 1, Why: "error", Message: "401", Permanent: true, TookMs: 7}})
	kept := *settled
	if missing != 0 {
		kept.Events = []engine.Position{missing}
	}
	id := engine.DeadLetterID(window, stage, 1)
	s.step(scope, engine.Step{Kind: engine.StepDeadLetter, Window: window, ID: id, DeadLetter: &engine.DeadLetter{
		ID: id, Kind: "deadLetter", Stage: stage, Scope: scope, WindowID: window, Message: "401", Permanent: true, Attempts: 1,
		At: settled.SettledAt, Number: 1, Settled: &kept, Members: members,
		Events: []engine.EventView{{ID: "e-" + scope, Name: "message.created", Kind: engine.Flush, SeenAt: members[0].SeenAt, Text: "help"}},
	}})
	return id
}

// held appends a window that its judge told to wait, and returns its id.
func (s *seed) held(scope string) string {
	s.t.Helper()
	window, settled, _ := s.settled(scope, "e-"+scope)
	s.call(scope, window, 1)
	until := settled.Due + engine.Time(time.Hour.Milliseconds())
	s.step(scope, engine.Step{Kind: engine.StepWait, Window: window, Verdict: &engine.Verdict{
		Window: window, Attempt: 1, Route: engine.Wait, JudgedRoute: engine.Wait, At: settled.Due,
		Probabilities: &engine.Probabilities{}, Judge: &engine.JudgeName{Name: "llm", Model: "m-1"}, Policy: 1, HeldUntil: until,
	}})
	return window
}
