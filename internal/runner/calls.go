package runner

import (
	"context"
	"slices"
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
	waiting  bool        // it stands in line for a place
	seated   bool        // it has one
	asks     *Asks       // who is asked; nil while it has no place
	held     engine.Time // nobody can be asked before; 0 where that is not known
	told     bool        // a trace tells that it is held
	gathered *Gathered   // what the hooks brought; nil while it is out
	begun    bool        // its start is on its way into the log
	running  bool
	cancel   context.CancelFunc // of what runs
	result   *outcome
}

// outcome is what a call brought: a reply or a failure, or, before it starts,
// what was fetched for it.
type outcome struct {
	scope    *scope
	call     *call
	gathered *Gathered
	reply    judge.Reply
	err      error
	calls    []engine.Exchange
	took     time.Duration
}

// judging moves the window in the scope's judge slot on: it starts a call,
// runs one whose start stands in the log, and turns outcomes into steps.
func (r *Runner) judging(ctx context.Context, s *scope, now engine.Time) []engine.Step {
	slot := s.state.Slot
	if slot == nil {
		r.endCall(s)
		return nil
	}
	calling := slot.Phase == engine.PhaseCalling
	if s.call != nil && s.call.running && !calling {
		r.endCall(s) // its outcome stands in the log
	}
	switch c := s.call; {
	case calling && (c == nil || !c.begun || !c.is(slot)):
		// A call of an earlier process, or of another replica: what became of it
		// is not known.
		r.endCall(s)
		return s.state.Fail(r.rules, now, engine.Failed{Why: "lost", Message: "the daemon ended while the judge was being called"})
	case calling && c.result != nil:
		return r.conclude(s, c.result, now)
	case calling && !c.running:
		c.running = true
		r.run(ctx, s, c, now)
		return nil
	case !calling && s.state.CallDue(now):
		return r.begin(ctx, s, now)
	}
	return nil
}

func (c *call) is(slot *engine.Slot) bool {
	return c.window == slot.Settled.Window && c.attempt == slot.Attempt && c.extra == slot.Extra
}

// endCall ends the scope's call, if there is one; what it brings is dropped.
func (r *Runner) endCall(s *scope) {
	c := s.call
	if c == nil {
		return
	}
	if c.cancel != nil {
		c.cancel()
	}
	s.call = nil
	r.unseat(c)
}

func (r *Runner) judgeName() string { return r.rules.Latest().Judge }

// lastWord is how long a judge whose time is over may take to say what it has
// exchanged by then.
const lastWord = 20 * time.Millisecond

// run calls the judge. The call ends with its timeout even where the judge
// does not.
func (r *Runner) run(ctx context.Context, s *scope, c *call, now engine.Time) {
	w, in := r.input(s.state, now)
	in.Facts, in.Images = c.gathered.Facts, c.gathered.Images
	in.Predicates = slices.Concat(in.Predicates, c.gathered.Predicates)
	c.asks = r.asks.Load() // it may be another since the hooks were asked
	ask := r.judgeFor(c.asks, s.state.Slot.Policy, w)
	timeout := time.Duration(s.state.Slot.TimeoutMs) * time.Millisecond
	start := time.Now()
	ctx, c.cancel = context.WithCancel(ctx)
	cancel := c.cancel
	r.calls.Go(func() {
		defer cancel()
		stopped := ctx.Done()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		answered := make(chan outcome, 1)
		r.strays.Go(func() {
			o := outcome{scope: s, call: c}
			var bodies []engine.Record
			if bodies, o.err = r.store.Events(ctx, w.Positions()); o.err == nil {
				w.Fill(bodies)
				show(in, w)
				o.reply, o.err = ask(ctx, in)
			}
			o.took = time.Since(start)
			answered <- o
		})
		o := outcome{scope: s, call: c, took: timeout}
		select {
		case o = <-answered:
		case <-ctx.Done():
			late := time.NewTimer(lastWord)
			defer late.Stop()
			select {
			case o = <-answered:
			case <-late.C:
			case <-stopped:
			}
		}
		o.calls = exchanged(o.reply, o.err)
		if ctx.Err() != nil {
			o.err = context.DeadlineExceeded
		}
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

// judgeFor is the judge of the policy that the call stands in the log with: a
// pure one for windows that an earlier judge left in the slot.
func (r *Runner) judgeFor(asks *Asks, number uint32, w *engine.Window) judge.Func {
	policy := r.rules.Numbered(number)
	name, pure := policy.Judge, policy.PureJudge()
	switch {
	case pure != nil:
		return func(context.Context, *judge.Input) (judge.Reply, error) {
			return judge.Reply{Answer: pure(w), Judge: engine.JudgeName{Name: name}}, nil
		}
	case asks.Judge != nil:
		return asks.Judge.Judge
	}
	return func(context.Context, *judge.Input) (judge.Reply, error) {
		return judge.Reply{}, &judge.Error{Class: judge.Permanent, Message: "no judge named " + name + " is configured"}
	}
}

// input writes down what the judge sees, without what the events say.
func (r *Runner) input(st *engine.State, now engine.Time) (*engine.Window, *judge.Input) {
	w, set, _ := st.Window(r.rules)
	w.Now = now
	in := &judge.Input{
		Scope: st.Scope, Guidance: set.Guidance, Predicates: set.Predicates, Recent: w.Recent, Now: now,
		Window: judge.Window{ID: w.ID, Reason: w.Reason, Trigger: w.Trigger, Waits: w.Waits, Dropped: w.Dropped, Gap: w.Gap, SettledAt: w.SettledAt},
	}
	for _, route := range w.Offered {
		in.Routes = append(in.Routes, judge.Offer{Route: route, Criterion: set.Criteria[route]})
	}
	return w, in
}

// show writes down the events of a window, with what they say where it is known.
func show(in *judge.Input, w *engine.Window) {
	in.Window.Events = make([]engine.EventView, len(w.Events))
	for i := range w.Events {
		m := &w.Events[i]
		v := engine.EventView{Name: m.Name, Kind: m.Kind, SeenAt: m.SeenAt, Position: m.Position}
		if body := w.Body(i); body != nil {
			v.ID, v.Text, v.Data = body.ID, body.Text, body.Data
		}
		in.Window.Events[i] = v
	}
}

// take keeps an outcome for the scope's next turn.
func (r *Runner) take(o outcome) {
	if o.scope.call != o.call {
		r.metrics.ignored.Inc()
		return
	}
	if o.gathered != nil {
		o.call.gathered = o.gathered
		for i := range o.gathered.Failed {
			logHook(r.log, &o.gathered.Failed[i], o.scope.name, o.call.window)
		}
	} else {
		o.call.result = &o
		r.unseat(o.call)
	}
	r.look(o.scope)
}

// conclude makes the steps of an outcome. They are made again if the append
// fails, so nothing is counted before they stand in the log.
func (r *Runner) conclude(s *scope, o *outcome, now engine.Time) []engine.Step {
	if s.state.Slot == nil {
		return nil // the window has an end already
	}
	name := r.rules.Numbered(s.state.Slot.Policy).Judge
	if o.err != nil {
		f := judge.Failure(o.err)
		f.TookMs = o.took.Milliseconds()
		f.Calls = r.exchanges(o, name, f.Why)
		return s.state.Fail(r.rules, now, f)
	}
	by := o.reply.Judge
	if by.Name == "" {
		by.Name = name
	}
	steps := s.state.Answer(r.rules, now, o.reply.Answer, by)
	for i := range steps {
		if f := steps[i].Failed; f != nil {
			f.TookMs = o.took.Milliseconds()
			f.Calls = r.exchanges(o, by.Name, f.Why)
		}
		if v := steps[i].Verdict; v != nil {
			v.Calls = append(r.exchanges(o, by.Name, "answered"), v.Calls...) // an override may have told something
		}
	}
	return steps
}
