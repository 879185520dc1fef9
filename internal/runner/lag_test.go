package runner_test

import (
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

// patient is a pure judge that waits for as long as it may.
func patient(w *engine.Window) engine.Answer {
	if slices.Contains(w.Offered, engine.Wait) {
		return engine.Answer{Route: engine.Wait}
	}
	return engine.Answer{Route: engine.Queue}
}

// A held window that is judged alone at its horizon has the same events as
// before, and so the same id. An owner that comes late writes both of its
// settles in one entry: the decision is about the second.
func TestRunner_DecisionIsAboutTheLastSettleOfItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t)
		p := policy("patient", kinds)
		if err := p.Compile(); err != nil {
			t.Fatal(err)
		}
		if err := runner.EnsurePolicy(t.Context(), st, &p); err != nil {
			t.Fatal(err)
		}
		e := store.NewEvent{Scope: "a", Event: engine.Event{ID: "one", Name: "done", Kind: engine.Closing, Policy: 1}}
		if _, err := st.Append(t.Context(), store.Entry{Events: []store.NewEvent{e}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute) // long after the horizon
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		r := runner.New(runner.Options{
			Store: st, Compile: func(*engine.Policy) (engine.Compiled, error) { return engine.Compiled{Judge: patient}, nil },
			Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Registerer: prometheus.NewRegistry(),
		})
		go func() { ended <- r.Run(ctx) }()
		synctest.Wait()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		steps, err := st.Steps(t.Context(), store.StepQuery{Scope: "a"})
		if err != nil || len(steps) < 4 {
			t.Fatal(steps, err)
		}
		settled, d := steps[len(steps)-2].Step.Settled, steps[len(steps)-1].Step.Decision
		if settled == nil || d == nil || settled.Trigger != engine.TriggerHorizon {
			t.Fatalf("the last steps are %+v", steps[len(steps)-2:])
		}
		if d.Trigger != settled.Trigger || d.Due != settled.Due || d.Waits != settled.Waits || d.SettledAt != settled.SettledAt {
			t.Errorf("the decision says trigger %s, due %d, waits %d, settled at %d; its settle %s, %d, %d, %d",
				d.Trigger, d.Due, d.Waits, d.SettledAt, settled.Trigger, settled.Due, settled.Waits, settled.SettledAt)
		}
	})
}

// rowsFail is a store whose state rows cannot be written while bad is set. It
// counts the tries, and holds those that are too many.
type rowsFail struct {
	store.Store
	bad   bool
	tries atomic.Int64
}

func (s *rowsFail) SaveStates(ctx context.Context, f store.Fence, rows []store.StateRow, checkpoint engine.Position) error {
	if s.tries.Add(1) > 1000 {
		<-ctx.Done()
	}
	if s.bad {
		return store.Describe("save states", store.ErrUnavailable)
	}
	return s.Store.SaveStates(ctx, f, rows, checkpoint)
}

// Scopes that cannot leave memory, because a judge is being called for them or
// because rows cannot be written, do not keep the loop busy.
func TestRunner_DoesNotSpinOnScopesThatCannotLeaveMemory(t *testing.T) {
	for _, bad := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			st := &rowsFail{Store: open(t), bad: bad}
			w := start(t, st, policy("script", kinds, func(s *engine.Settings) { s.JudgeTimeoutMs = 3_600_000 }),
				runner.Options{Judge: &script{reply: []any{nil}}, MaxScopes: 1})
			w.push("a", "ask")
			w.push("b", "ask")
			time.Sleep(time.Minute)
			if n := st.tries.Load(); n > 70 {
				t.Errorf("with rows failing %v: state rows were written %d times in a minute", bad, n)
			}
		})
	}
}
