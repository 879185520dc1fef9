package runner

import (
	"context"
	"encoding/json"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
)

// call is a judge call of this process. It stands in the log before it runs,
// and once what the judge is shown beside the window has been fetched.
type call struct {
	window   string
	attempt  int
	extra    bool
	gathered *gathered       // what the fetch brought; nil while it is out
	facts    json.RawMessage // as they stand in the log
	running  bool
	cancel   context.CancelFunc // of what runs
	result   *outcome
}

// outcome is what a call brought: a reply or a failure, or, before it starts,
// what was fetched for it.
type outcome struct {
	scope    *scope
	call     *call
	gathered *gathered
	reply    judge.Reply
	err      error
	took     time.Duration
}

// judging moves the window in the scope's judge slot on: it starts a call,
// runs one whose start stands in the log, and turns outcomes into steps.
func (r *Runner) judging(ctx context.Context, s *scope, now engine.Time) []engine.Step {
	slot := s.state.Slot
	if slot == nil {
		s.call = nil
		return nil
	}
	calling := slot.Phase == engine.PhaseCalling
	if s.call != nil && s.call.running && !calling {
		s.call = nil // its outcome stands in the log
	}
	switch c := s.call; {
	case calling && (c == nil || !c.is(slot)):
		// A call of an earlier process, or of another replica: what became of it
		// is not known.
		s.call = nil
		return s.state.Fail(r.rules, now, engine.Failed{Why: "lost", Message: "the daemon ended while the judge was being called"})
	case calling && c.result != nil:
		return r.conclude(s, c.result, now)
	case calling && !c.running:
		c.running = true
		r.run(ctx, s, c, now)
		return nil
	case !calling && s.state.CallDue(now):
		return r.begin(ctx, s)
	}
	return nil
}

func (c *call) is(slot *engine.Slot) bool {
	return c.window == slot.Settled.Window && c.attempt == slot.Attempt && c.extra == slot.Extra
}

func (r *Runner) judgeName() string { return r.rules.Latest().Judge }

// run calls the judge. The call ends with its timeout even where the judge
// does not.
func (r *Runner) run(ctx context.Context, s *scope, c *call, now engine.Time) {
	in, positions := r.input(s.state, now)
	in.Facts = c.facts
	timeout := time.Duration(s.state.Slot.TimeoutMs) * time.Millisecond
	start := time.Now()
	ctx, c.cancel = context.WithCancel(ctx)
	r.calls.Go(func() {
		defer c.cancel()
		stopped := ctx.Done()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		answered := make(chan outcome, 1)
		go func() {
			o := outcome{scope: s, call: c}
			var bodies []engine.Record
			if bodies, o.err = r.store.Events(ctx, positions); o.err == nil {
				fill(in, bodies)
				o.reply, o.err = r.judgeFor(in)(ctx, in)
			}
			answered <- o
		}()
		o := outcome{scope: s, call: c}
		select {
		case o = <-answered:
			if ctx.Err() != nil {
				o.err = context.DeadlineExceeded
			}
		case <-ctx.Done():
			o.err = context.DeadlineExceeded
		}
		o.took = time.Since(start)
		select {
		case <-stopped: // no outcome of the judge's: the loop records the stop, or another replica takes over
			return
		default:
		}
		select {
		case r.outcomes <- o:
		case <-stopped:
		}
	})
}

// judgeFor is the configured judge, or a pure one for windows that an earlier
// judge left in the slot.
func (r *Runner) judgeFor(in *judge.Input) judge.Func {
	if r.judge != nil {
		return r.judge.Judge
	}
	policy := r.policy.Load()
	name, pure := policy.Judge, policy.PureJudge()
	return func(context.Context, *judge.Input) (judge.Reply, error) {
		if pure == nil {
			return judge.Reply{}, &judge.Error{Class: judge.Permanent, Message: "no judge named " + name + " is configured"}
		}
		w := &engine.Window{ID: in.Window.ID, Scope: in.Scope, Reason: in.Window.Reason, Waits: in.Window.Waits, Dropped: in.Window.Dropped, Gap: in.Window.Gap}
		for _, o := range in.Routes {
			w.Offered = append(w.Offered, o.Route)
		}
		return judge.Reply{Answer: pure(w), Judge: engine.JudgeName{Name: name}}, nil
	}
}

// input writes down what the judge sees, without the events' texts.
func (r *Runner) input(st *engine.State, now engine.Time) (*judge.Input, []engine.Position) {
	w, set, _ := st.Window(r.rules)
	in := &judge.Input{
		Scope: st.Scope, Guidance: set.Guidance, Predicates: set.Predicates, Now: now,
		Recent: st.Recent[max(0, len(st.Recent)-set.RecentCount):],
		Window: judge.Window{ID: w.ID, Reason: w.Reason, Trigger: w.Trigger, Waits: w.Waits, Dropped: w.Dropped, Gap: w.Gap, SettledAt: w.SettledAt},
	}
	for _, route := range w.Offered {
		in.Routes = append(in.Routes, judge.Offer{Route: route, Criterion: set.Criteria[route]})
	}
	positions := make([]engine.Position, len(w.Events))
	in.Window.Events = make([]engine.EventView, len(w.Events))
	for i := range w.Events {
		m := &w.Events[i]
		positions[i] = m.Position
		in.Window.Events[i] = engine.EventView{Name: m.Name, Kind: m.Kind, SeenAt: m.SeenAt, Position: m.Position}
	}
	return in, positions
}

func fill(in *judge.Input, bodies []engine.Record) {
	for i := range in.Window.Events {
		e := &in.Window.Events[i]
		for len(bodies) > 0 && bodies[0].Position != e.Position {
			bodies = bodies[1:]
		}
		if len(bodies) == 0 {
			return
		}
		body := bodies[0].Event
		e.ID, e.Text, e.Data = body.ID, body.Text, body.Data
	}
}

// breakOff ends the scope's call; what it brings is dropped.
func (s *scope) breakOff() {
	if s.call != nil && s.call.cancel != nil {
		s.call.cancel()
	}
	s.call = nil
}

// take keeps an outcome for the scope's next turn.
func (r *Runner) take(o outcome) {
	if o.scope.call != o.call {
		r.metrics.ignored.Inc()
		return
	}
	if o.gathered != nil {
		o.call.gathered = o.gathered
	} else {
		o.call.result = &o
	}
	r.look(o.scope)
}

// conclude makes the steps of an outcome. They are made again if the append
// fails, so nothing is counted before.
func (r *Runner) conclude(s *scope, o *outcome, now engine.Time) []engine.Step {
	name := r.judgeName()
	if o.err != nil {
		f := judge.Failure(o.err)
		f.TookMs = o.took.Milliseconds()
		r.observeCall(name, f.Why, o.took)
		return s.state.Fail(r.rules, now, f)
	}
	if o.reply.Judge.Name == "" {
		o.reply.Judge.Name = name
	}
	steps := s.state.Answer(r.rules, now, o.reply.Answer, o.reply.Judge)
	why := "answered"
	if len(steps) > 0 && steps[0].Kind == engine.StepFailed {
		why = steps[0].Failed.Why
	}
	r.observeCall(name, why, o.took)
	return steps
}

func (r *Runner) observeCall(name, outcome string, took time.Duration) {
	r.metrics.calls.WithLabelValues(name, outcome).Inc()
	r.metrics.callSeconds.WithLabelValues(name).Observe(took.Seconds())
}
