package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"attend/internal/engine"
)

// send calls the sink. The attempt is over for everyone at the instant that its
// start names, and the sink's context has ended by then. Where that has passed
// already, as when the store was slow, the sink is not called: what came of the
// attempt is known at once.
func (r *Runner) send(ctx context.Context, s *scope, name engine.LaneName, d *delivery, left engine.Time) {
	l := s.state.Lane(name)
	whole := time.Duration(l.Until-l.Since) * time.Millisecond
	limit := min(whole-time.Since(d.sent), time.Duration(left)*time.Millisecond)
	late := fmt.Errorf("no answer within deliveryTimeoutMs (%d): %w", whole.Milliseconds(), context.DeadlineExceeded)
	d.running = true
	if limit <= 0 {
		d.result = &arrival{delivery: d, err: late}
		return
	}
	at, begun := l.Queue[0].Position, time.Now()
	p := &Parcel{Sink: d.sink, ID: d.id, Scope: s.name, Attempt: d.attempt}
	ctx, d.cancel = context.WithCancel(ctx)
	r.calls.Go(func() {
		defer d.cancel()
		parent := ctx
		ctx, cancel := context.WithTimeout(parent, limit)
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			err := r.handOver(ctx, name, at, p)
			if unread(err) { // the next attempt follows at once
				_ = sleep(ctx, pauseOf(p, limit)) // the attempt may end first
			}
			ended <- err
		}()
		a := &arrival{delivery: d}
		select {
		case a.err = <-ended:
		case <-ctx.Done():
			if a.err = endOf(ctx, ended); errors.Is(a.err, errStillRuns) && parent.Err() != nil {
				return // nobody knows; whoever comes next waits until its time is over
			}
		}
		a.took = time.Since(begun)
		if a.err != nil && !unread(a.err) && ctx.Err() != nil && parent.Err() == nil {
			a.err = late
		}
		d.stopped = a
		if parent.Err() != nil { // the loop records the stop, or another replica takes over
			return
		}
		select {
		case r.sends.ended <- a:
		case <-parent.Done():
		}
	})
}

// errStillRuns is of a sink that does not end with its context.
var errStillRuns = errors.New("the sink did not end with its time")

// endOf waits until a sink whose context has ended has ended too.
func endOf(ctx context.Context, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return errStillRuns
	}
}

// handOver reads what is to be delivered, and calls the sink.
func (r *Runner) handOver(ctx context.Context, name engine.LaneName, at engine.Position, p *Parcel) error {
	st, err := r.carrier(ctx, at)
	switch {
	case err != nil:
		return &UnreadError{err}
	case name == engine.LaneLetters:
		p.DeadLetter = st.DeadLetter
	default:
		p.Decision = decisionIn(st)
	}
	if p.Decision == nil && p.DeadLetter == nil {
		return &goneError{p.ID}
	}
	return r.opt.Deliver.Deliver(ctx, p)
}

// carrier reads the step at a position; it is empty where nothing stands there
// any more.
func (r *Runner) carrier(ctx context.Context, at engine.Position) (*engine.Step, error) {
	recs, err := r.store.Read(ctx, at-1, 1)
	if err != nil {
		return nil, fmt.Errorf("read position %d: %w", at, err)
	}
	if len(recs) == 0 || recs[0].Position != at || recs[0].Step == nil {
		return new(engine.Step), nil
	}
	return recs[0].Step, nil
}

// decisionIn is the decision that a step carries: its own, or that of a dead
// letter.
func decisionIn(st *engine.Step) *engine.Decision {
	if st.DeadLetter != nil {
		return st.DeadLetter.Decision
	}
	return st.Decision
}

// UnreadError is of a store that did not give what was to be delivered. The
// sink was not called, and the attempt does not count.
type UnreadError struct{ Err error }

// Error implements error.
func (e *UnreadError) Error() string { return e.Err.Error() }

// Unwrap returns the store's error.
func (e *UnreadError) Unwrap() error { return e.Err }

func unread(err error) bool { return errors.As(err, new(*UnreadError)) }

// unreadPause is the time between attempts that do not count since the store
// cannot be read.
const unreadPause = time.Second

// pauseOf ends well within the attempt, and is lengthened by the derived jitter:
// deliveries that met one outage do not come back together.
func pauseOf(p *Parcel, limit time.Duration) time.Duration {
	return time.Duration(float64(min(unreadPause, limit/2)) * (1 + engine.Jitter(p.ID, p.Attempt)/4))
}

// goneError is of what the log does not hold any more.
type goneError struct{ id string }

func (e *goneError) Error() string { return "the log does not hold " + e.id + " any more" }

// Permanent and RetryAfter make it a refusal.
func (e *goneError) Permanent() bool { return true }

// RetryAfter is 0.
func (e *goneError) RetryAfter() time.Duration { return 0 }

// arrived makes the steps of an outcome. They are made again if the append
// fails.
func (r *Runner) arrived(s *scope, name engine.LaneName, a *arrival, now engine.Time) []engine.Step {
	if a.err == nil {
		return s.state.Delivered(name, a.took.Milliseconds())
	}
	return s.state.Undelivered(r.rules, now, name, failureOf(a))
}

func failureOf(a *arrival) engine.Failed {
	f := engine.Failed{
		Why: "error", Message: engine.Shorten(engine.EscapeLine(a.err.Error()), 1<<10), TookMs: a.took.Milliseconds(),
	}
	var says refusal
	switch {
	case unread(a.err):
		f.Uncounted = true
	case errors.Is(a.err, context.DeadlineExceeded):
		f.Why = "timeout"
	case errors.As(a.err, &says):
		f.RetryAfterMs = says.RetryAfter().Milliseconds()
		if f.Permanent = says.Permanent(); f.Permanent {
			f.Why = "permanent"
		}
	}
	return f
}

// breakOffDeliveries ends the deliveries of scopes that are another's now. What
// they bring is dropped, and who takes over waits until their time is over.
func (r *Runner) breakOffDeliveries(s *scope) {
	if of := r.sends.of[s]; of != nil {
		for lane := range of {
			r.letGoDelivery(s, lane)
		}
	}
}

// stopDeliveries records how deliveries ended that a graceful stop has broken
// off: those that did not arrive do not count. Every one has ended by now, but
// for those of sinks that do not end; of them nobody says anything.
func (r *Runner) stopDeliveries(ctx context.Context) error {
	now := engine.Time(r.now())
	var jobs []*job
	for _, s := range r.sends.scopes() {
		j := &job{scope: s}
		for lane, name := range engine.LaneNames() {
			d := r.sends.at(s, lane)
			if d == nil || r.current(s, lane, s.state.Lane(name)) != d || s.state.Lane(name).Phase != engine.LaneSends {
				continue
			}
			switch a := d.stopped; {
			case !d.running:
				j.entry.Steps = append(j.entry.Steps, s.state.Undelivered(r.rules, now, name, stoppedDelivery())...)
			case d.result != nil:
				j.entry.Steps = append(j.entry.Steps, r.arrived(s, name, d.result, now)...)
			case a == nil:
			case a.err == nil:
				j.entry.Steps = append(j.entry.Steps, r.arrived(s, name, a, now)...)
			default:
				j.entry.Steps = append(j.entry.Steps, s.state.Undelivered(r.rules, now, name, stoppedDelivery())...)
			}
		}
		if len(j.entry.Steps) == 0 || !r.acts(s) {
			continue
		}
		j.entry.Scope, j.entry.Fence = s.name, r.fenceOf(s)
		j.entry.After, j.entry.Applied = s.state.LastStep, engine.Position(r.applied.Load())
		jobs = append(jobs, j)
	}
	if len(jobs) == 0 {
		return nil
	}
	return r.append(ctx, jobs)
}

func stoppedDelivery() engine.Failed {
	return engine.Failed{Why: "stopped", Message: "the daemon was stopped", Uncounted: true}
}

// scopes lists those that have deliveries, by name.
func (s *sends) scopes() []*scope {
	var out []*scope
	for sc := range s.of {
		out = append(out, sc)
	}
	slices.SortFunc(out, func(a, b *scope) int { return cmp.Compare(a.name, b.name) })
	return out
}

// composeUndelivered fills dead letters of stage sink in with their decisions.
func (r *Runner) composeUndelivered(ctx context.Context, jobs []*job) error {
	for _, j := range jobs {
		for i := range j.entry.Steps {
			d := j.entry.Steps[i].DeadLetter
			if d == nil || d.Stage != engine.StageSink {
				continue
			}
			first, ok := j.scope.state.First(engine.LaneOutbox)
			if !ok {
				continue
			}
			st, err := r.carrier(ctx, first.Position)
			if err != nil {
				return err
			}
			engine.ComposeUndelivered(d, decisionIn(st))
		}
	}
	return nil
}
