package feed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// events appends an event for each text, and returns where they stand.
func (w *world) events(scope string, texts ...string) []engine.Position {
	w.t.Helper()
	var at []engine.Position
	for i, text := range texts {
		receipts, err := w.store.Append(context.Background(), store.Entry{Events: []store.NewEvent{{Scope: scope, Event: engine.Event{
			ID: fmt.Sprintf("e%d", int(w.head())+i), Name: "x", Kind: engine.Closing, Text: text, Data: []byte(`{"secret":"sauce"}`),
		}}}})
		if err == nil {
			err = receipts[0].Err
		}
		if err != nil {
			w.t.Fatalf("append an event: %v", err)
		}
		at = append(at, receipts[0].First)
	}
	return at
}

func (w *world) settle(scope, window, held string, events ...engine.Position) {
	w.t.Helper()
	w.write(scope, engine.Step{Kind: engine.StepSettled, Window: window, Settled: &engine.Settled{
		Window: window, Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, Held: held, Due: 7, Events: events,
	}})
}

func (w *world) hold(scope, window string) {
	w.t.Helper()
	w.write(scope, engine.Step{Kind: engine.StepWait, Window: window, Verdict: &engine.Verdict{Window: window, Route: engine.Wait}})
}

func stepKinds(s *Story) []engine.StepKind {
	var kinds []engine.StepKind
	for i := range s.Steps {
		kinds = append(kinds, s.Steps[i].Kind)
	}
	return kinds
}

func TestStory_OfADecisionIsItsOwn(t *testing.T) {
	w := newWorld(t, memory.Options{})
	w.settle("a", "d1", "", w.events("a", "one")...)
	d := w.decide("a", engine.Queue, nil)
	s, err := NewReader(w.store).Story(t.Context(), "d1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*d, s.Decision); diff != "" || s.State != StateDecided || s.Settled == nil {
		t.Errorf("state %s, decision: %s", s.State, diff)
	}
	if diff := cmp.Diff([]engine.StepKind{engine.StepSettled, engine.StepDecision}, stepKinds(s)); diff != "" {
		t.Error(diff)
	}
}

func TestStory_OfAWindowThatIsNotDecided(t *testing.T) {
	w := newWorld(t, memory.Options{})
	r := NewReader(w.store)
	long := strings.Repeat("long ", 2000)
	first := w.events("a", "one", long)
	w.settle("a", "w1", "", first...)
	w.hold("a", "w1")
	held, err := r.Story(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	d := held.Decision
	if held.State != StateHeld || d.ID != "w1" || d.Kind != "window" || d.Route != 0 || d.Probabilities != nil || d.Due != 7 || d.Reason != engine.ReasonClosing {
		t.Errorf("got %+v", held)
	}
	if !strings.HasPrefix(d.Notice, "one\n") || len(d.Events) != 2 || len(d.Events[1].Text) > engine.ViewText || d.Events[0].Data != nil {
		t.Errorf("it is not cut as a decision is: %d events, notice %.100q", len(d.Events), d.Notice)
	}

	w.settle("a", "w2", "w1", append(first, w.events("a", "two")...)...)
	w.write("a", engine.Step{Kind: engine.StepCall, Window: "w2", Call: &engine.Call{Attempt: 1, Judge: "llm"}})
	for _, id := range []string{"w1", "w2"} {
		s, err := r.Story(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"w1", "w2"}, s.Windows); diff != "" || s.ID != "w2" || s.State != StateJudging || len(s.Events) != 3 || len(s.Steps) != 4 {
			t.Errorf("%s: state %s, %d events, %d steps; windows %s", id, s.State, len(s.Events), len(s.Steps), diff)
		}
	}

	// Events that are no longer kept are counted.
	s, err := NewReader(&aged{Store: w.store, event: first[0]}).Story(t.Context(), "w2")
	if err != nil || len(s.Events) != 2 || s.Cut != 1 {
		t.Errorf("%d events, %d cut (%v); want 2 and 1", len(s.Events), s.Cut, err)
	}
}

func TestStory_OfNothing(t *testing.T) {
	w := newWorld(t, memory.Options{})
	w.decide("a", engine.Queue, nil)
	if _, err := NewReader(w.store).Story(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

// A dead letter's id leads to its window: every attempt, with what was shown to
// the judge and what came back.
func TestStory_OfADeadLetter(t *testing.T) {
	w := newWorld(t, memory.Options{})
	w.settle("a", "w1", "", w.events("a", "one")...)
	call := &engine.Call{
		Attempt: 1, Judge: "llm", Facts: []byte(`{"who":"me"}`), Predicates: []engine.Predicate{{Name: "late", Question: "Is it?"}},
		Images: []engine.ImageRef{{SHA256: "ab", MIME: "image/png", Bytes: 7}},
	}
	exchange := engine.Exchange{Judge: "llm", Model: "m", Outcome: "error", Status: 503, RequestID: "r-1", Prompt: "what?", Answer: "busy"}
	w.write("a", engine.Step{Kind: engine.StepCall, Window: "w1", Call: call})
	w.write("a", engine.Step{Kind: engine.StepFailed, Window: "w1", Failed: &engine.Failed{Attempt: 1, Why: "error", Calls: []engine.Exchange{exchange}}})
	w.write("a", engine.Step{Kind: engine.StepDeadLetter, Window: "w1", ID: "x1", DeadLetter: &engine.DeadLetter{ID: "x1", Stage: engine.StageJudge, WindowID: "w1"}})
	r := NewReader(w.store)
	byWindow, err := r.Story(t.Context(), "w1")
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Story(t.Context(), "x1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(byWindow.Steps, s.Steps); diff != "" || s.State != StateDeadLetter || s.ID != "w1" {
		t.Fatalf("%s is %s; steps by the window's id and by the letter's:\n%s", s.ID, s.State, diff)
	}
	if diff := cmp.Diff([]engine.StepKind{engine.StepSettled, engine.StepCall, engine.StepFailed, engine.StepDeadLetter}, stepKinds(s)); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff(call, s.Steps[1].Call); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]engine.Exchange{exchange}, s.Steps[2].Failed.Calls); diff != "" {
		t.Error(diff)
	}
}
