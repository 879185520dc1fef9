package retention_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/goleak"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/retention"
	"attend/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answer is a judge that says the same of every window, once it has looked
// whether it can read it.
func answer(t *testing.T, route func(in *judge.Input) engine.Route) judge.Func {
	return func(_ context.Context, in *judge.Input) (judge.Reply, error) {
		for _, e := range in.Window.Events {
			if e.Text != "text of "+e.ID || e.ID == "" {
				t.Errorf("the judge cannot read the event at %d of window %s: %+v", e.Position, in.Window.ID, e)
			}
		}
		r := route(in)
		if r == 0 {
			return judge.Reply{}, &judge.Error{Class: judge.Permanent, Message: "no"}
		}
		return judge.Reply{Answer: engine.Answer{Route: r}}, nil
	}
}

func TestKeeper_DeletesWhatIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil).start()
		defer w.end()
		for range 10 {
			w.push("a", "log:l"+time.Now().String(), "ask:a"+time.Now().String())
			sleep(day)
		}
		r := w.round()
		if r.Events != 6 || r.Steps != 0 || r.Aside != 0 {
			t.Errorf("after ten days: %+v, want the events of three gone", r)
		}
		if got := len(w.steps(store.StepQuery{Kinds: []engine.StepKind{engine.StepDecision}})); got != 10 {
			t.Errorf("%d decisions are left", got)
		}
		if again := w.round(); again.Events+again.Steps != 0 || again.Kept != r.Kept {
			t.Errorf("a second round: %+v", again)
		}
		sleep(25 * day)
		r = w.round()
		if r.Events != 14 || r.Steps != 10 || r.Forgotten != 0 { // ten settles and decisions, five days of them
			t.Errorf("after 35 days: %+v", r)
		}
		if got := w.steps(store.StepQuery{}); len(got) != 11 || got[0].Step.Kind != engine.StepPolicy {
			t.Errorf("%d steps are left, the first is %v", len(got), got[0].Step.Kind)
		}
		want := `
# HELP attend_log_compacted_records_total Records deleted because they were too old, by table; aside is the events that were named for longer, once nobody named them.
# TYPE attend_log_compacted_records_total counter
attend_log_compacted_records_total{table="aside"} 0
attend_log_compacted_records_total{table="events"} 20
attend_log_compacted_records_total{table="steps"} 10
`
		if err := testutil.GatherAndCompare(w.reg, strings.NewReader(want), "attend_log_compacted_records_total"); err != nil {
			t.Error(err)
		}
		if problems, err := promlint.NewWithMetricFamilies(mustGather(t, w)).Lint(); err != nil || len(problems) > 0 {
			t.Errorf("metrics: %v (%v)", problems, err)
		}
	})
}

func TestKeeper_KeepsForEver(t *testing.T) {
	for name, keep := range map[string]retention.Options{
		"everything": {}, "steps": {Events: day},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.keep = keep
			w.start()
			defer w.end()
			w.push("a", "ask:1")
			sleep(40 * day)
			r := w.round()
			if r.Steps != 0 || r.Forgotten != 0 || (r.Events == 1) != (keep.Events > 0) {
				t.Errorf("%s: %+v", name, r)
			}
		})
	}
}

// An open and a held window are judged long after their events are too old, and
// a restart in between changes nothing.
func TestKeeper_AWindowIsReadWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := func(in *judge.Input) engine.Route {
			if in.Window.Waits == 0 && in.Scope == "held" {
				return engine.Wait
			}
			return engine.Queue
		}
		w := newWorld(t, answer(t, waits), func(s *engine.Settings) {
			s.MaxWindowMs, s.WaitHorizonMs, s.DedupMs = (20 * day).Milliseconds(), (20 * day).Milliseconds(), (40 * day).Milliseconds()
			s.ClosingGraceMs = (15 * day).Milliseconds()
		}).start()
		w.push("open", "log:1", "done:2")
		w.push("held", "done:3")
		sleep(16 * day) // held is held now
		w.push("held", "log:4")
		w.push("other", "ask:5")
		sleep(time.Hour)
		if r := w.round(); r.Events != 3 || r.Aside != 1 {
			t.Errorf("%+v, want the three old events gone, and that of the held window aside", r)
		}
		w.end()
		w.start()
		defer w.end()
		if r := w.round(); r.Released != 0 {
			t.Errorf("a round after the restart: %+v", r)
		}
		sleep(20 * day)
		d := w.last(engine.StepDecision)
		if d.Scope != "held" || d.Step.Decision.Notice != "text of 3\ntext of 4" {
			t.Errorf("the last decision: %+v", d.Step.Decision)
		}
		w.push("held", "ask:3") // its id is remembered
		if got := w.last(engine.StepDecision); got.Position != d.Position {
			t.Errorf("a duplicate of an event that is gone made a decision: %+v", got.Step.Decision)
		}
		sleep(time.Hour)
		if r := w.round(); r.Released != 1 || w.aside() != 0 {
			t.Errorf("a round after the decision: %+v, and %d events are aside", r, w.aside())
		}
	})
}

// A dead letter can be requeued for as long as it is kept.
func TestKeeper_ADeadLetterIsRequeued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sick := true
		w := newWorld(t, answer(t, func(*judge.Input) engine.Route {
			if sick {
				return 0
			}
			return engine.Queue
		})).start()
		defer w.end()
		w.push("a", "log:1", "ask:2")
		sleep(25 * day)
		w.push("b", "ask:3")
		sleep(time.Hour)
		if r := w.round(); r.Events != 2 || r.Aside != 2 {
			t.Errorf("%+v", r)
		}
		sick = false
		letter := w.steps(store.StepQuery{Kinds: []engine.StepKind{engine.StepDeadLetter}})[0]
		if !w.requeue(&letter) {
			t.Fatal("the events are gone")
		}
		sleep(time.Second)
		if d := w.last(engine.StepDecision).Step.Decision; d.Notice != "text of 1\ntext of 2" || d.ID != letter.Step.DeadLetter.WindowID {
			t.Errorf("%+v", d)
		}
		sleep(7 * day)
		w.round() // the dead letter goes, and its events are named once more
		if w.aside() != 3 {
			t.Errorf("%d events are aside, want those of both dead letters", w.aside())
		}
		w.push("c", "log:9")
		sleep(time.Hour)
		if r := w.round(); r.Released != 2 {
			t.Errorf("%+v", r)
		}
		if got := w.steps(store.StepQuery{Kinds: []engine.StepKind{engine.StepDeadLetter}}); len(got) != 1 {
			t.Errorf("%d dead letters are left", len(got))
		}
	})
}

// Between the checkpoint and the rows that name it, a requeue is found in the
// log.
func TestKeeper_ARequeueThatNoRowKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		calls := 0
		w := newWorld(t, func(ctx context.Context, in *judge.Input) (judge.Reply, error) {
			if calls++; calls == 1 {
				return judge.Reply{}, &judge.Error{Class: judge.Permanent, Message: "no"}
			}
			select {
			case <-hang:
			case <-ctx.Done():
			}
			return judge.Reply{Answer: engine.Answer{Route: engine.Queue}}, nil
		}, func(s *engine.Settings) { s.JudgeTimeoutMs = (10 * day).Milliseconds() })
		w.keep.Steps = 8 * day
		w.opt.CheckpointInterval = time.Minute
		w.start()
		defer w.end()
		w.push("a", "ask:1")
		sleep(8*day - time.Second)
		w.round()
		letter := w.last(engine.StepDeadLetter)
		w.opt.CheckpointInterval = 100 * day
		w.end()
		w.start() // and no checkpoint from here on
		if !w.requeue(letter) {
			t.Fatal("the events are gone")
		}
		sleep(time.Minute)
		for range 3 {
			w.round()
			w.push("b", "log:"+time.Now().String())
		}
		if w.aside() != 1 {
			t.Errorf("%d events are aside, want that of the window which is judged", w.aside())
		}
		close(hang)
		sleep(time.Second)
		if d := w.last(engine.StepDecision).Step.Decision; d.Notice != "text of 1" {
			t.Errorf("%+v", d)
		}
	})
}

func TestKeeper_WhatOnlyCollectsIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil).start()
		defer w.end()
		w.push("a", "log:1", "log:2")
		sleep(8 * day)
		w.push("b", "ask:3")
		sleep(time.Hour)
		if r := w.round(); r.Events != 2 || r.Aside != 0 {
			t.Errorf("%+v, want two events gone that nothing can ask for", r)
		}
		w.push("a", "ask:4")
		sleep(time.Second)
		if d := w.last(engine.StepDecision).Step.Decision; d.Notice != "text of 4" || d.Dropped != 2 {
			t.Errorf("%+v, want the two that went counted", d)
		}
	})
}

func TestKeeper_ForgetsScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil).start()
		defer w.end()
		var e store.Entry
		for i := range 300 {
			e.Events = append(e.Events, store.NewEvent{Scope: fmt.Sprintf("done %03d", i), Event: engine.Event{ID: "1", Name: "ask", Kind: engine.Flush, Policy: w.Policy().Number}})
		}
		w.append(e)
		w.push("collects", "log:1")
		sleep(29 * day)
		w.push("young", "ask:1")
		sleep(2 * day)
		before, err := w.store.ScopeNames(t.Context(), "", 1000)
		if err != nil || len(before) != 302 {
			t.Fatalf("%d states (%v)", len(before), err)
		}
		if r := w.round(); r.Forgotten != 300 {
			t.Errorf("%+v, want 300 scopes forgotten", r)
		}
		names, err := w.store.ScopeNames(t.Context(), "", 10)
		if err != nil || strings.Join(names, " ") != "collects young" {
			t.Errorf("left: %q (%v)", names, err)
		}
		// A scope that comes back begins anew, in memory or not.
		w.push(before[5], "ask:1")
		sleep(time.Minute)
		if d := w.last(engine.StepDecision); d.Scope != before[5] {
			t.Errorf("%+v", d)
		}
		w.end()
		w.start()
		w.push(before[6], "ask:1")
		if d := w.last(engine.StepDecision); d.Scope != before[6] {
			t.Errorf("%+v", d)
		}
	})
}

func TestKeeper_LeavesItToTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil).start()
		defer w.end()
		w.push("a", "ask:1")
		sleep(40 * day)
		w.keep.Store, w.keep.Fence = w.store, func(int) (store.Fence, bool) { return store.Fence{}, false }
		r, err := retention.New(w.keep).Round(t.Context())
		if err != nil || r != (retention.Report{}) {
			t.Errorf("without the right: %+v, %v", r, err)
		}
		w.keep.Fence = func(int) (store.Fence, bool) { return store.Fence{Shard: -1, Token: 99}, true }
		if _, err := retention.New(w.keep).Round(t.Context()); !errors.Is(err, store.ErrFenced) {
			t.Errorf("with another's: %v", err)
		}
	})
}

// A row that cannot be read may name any event.
func TestKeeper_DeletesNothingOfAnUnreadableStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil).start()
		defer w.end()
		w.push("a", "ask:1")
		sleep(40 * day)
		fence, _ := w.Fence(0)
		row := store.StateRow{Scope: "broken", Position: 1, Live: true, Format: engine.Format, Body: []byte("{")}
		if err := w.store.SaveStates(t.Context(), fence, []store.StateRow{row}, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := w.keeper.Round(t.Context()); err == nil || !strings.Contains(err.Error(), `"broken"`) {
			t.Errorf("round: %v", err)
		}
		kept, err := w.store.Kept(t.Context())
		if err != nil || kept != (store.Kept{}) {
			t.Errorf("marks %+v, %v", kept, err)
		}
	})
}

func TestKeeper_RunsNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil).start()
		defer w.end()
		w.push("a", "ask:1")
		sleep(8 * day)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.keeper.Run(ctx) }()
		sleep(59 * time.Second)
		if kept, _ := w.store.Kept(ctx); kept.Events != 0 {
			t.Errorf("before a minute: %+v", kept)
		}
		sleep(time.Second)
		if kept, _ := w.store.Kept(ctx); kept.Events == 0 {
			t.Error("after a minute nothing was deleted")
		}
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}
