package replay_test

import (
	"slices"
	"testing"

	"attend/internal/engine"
	"attend/internal/replay"
)

// A held window that is judged alone keeps its id. Where the owner comes late,
// both settles stand in one entry, and the decision is about the second.
func TestWorld_DecisionIsAboutTheLastSettle(t *testing.T) {
	var settled *engine.Settled
	var decision *engine.Decision
	w := replay.New(replay.Options{
		Compile: func(*engine.Policy) (engine.Compiled, error) {
			return engine.Compiled{Judge: func(w *engine.Window) engine.Answer {
				if slices.Contains(w.Offered, engine.Wait) {
					return engine.Answer{Route: engine.Wait}
				}
				return engine.Answer{Route: engine.Queue}
			}}, nil
		},
		Emit: func(rec *engine.Record, _ *engine.Outcome) {
			if st := rec.Step; st != nil && st.Settled != nil {
				settled = st.Settled
			} else if st != nil && st.Decision != nil {
				decision = st.Decision
			}
		},
	})
	policy := engine.Policy{Number: 1, Default: engine.Defaults(), Judge: "patient", Kinds: map[string]engine.Kind{"done": engine.Closing}}
	if err := w.Take(0, replay.Input{Step: &engine.Step{Kind: engine.StepPolicy, Policy: &policy}}); err != nil {
		t.Fatal(err)
	}
	w.Pause(0)
	if err := w.Take(0, event("a", "done", "e1")); err != nil {
		t.Fatal(err)
	}
	w.Start(600_000)
	if decision == nil || settled.Trigger != engine.TriggerHorizon {
		t.Fatalf("settled %+v, decision %+v", settled, decision)
	}
	if decision.Trigger != settled.Trigger || decision.Waits != 1 || decision.Due != settled.Due {
		t.Errorf("the decision tells of trigger %s, %d waits, due %d; want %s, 1, %d", decision.Trigger, decision.Waits, decision.Due, settled.Trigger, settled.Due)
	}
}
