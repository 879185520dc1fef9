package runner

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"attend/internal/engine"
	"attend/internal/store"
)

// actLimit is how many scopes one append takes at most, and lookLimit how many
// are looked at for it: most of those that an event came for want nothing yet.
const (
	actLimit  = 1000
	lookLimit = 64 * actLimit
)

// shedTrace is how many dropped events are told in a step of their own at once;
// fewer wait for the scope's next step, or for its state to be saved.
const shedTrace = 1000

// act appends what follows for every scope on the list and for every scope
// whose time has come. It reports whether there may be more to read or do.
func (r *Runner) act(ctx context.Context) (more bool, err error) {
	now := engine.Time(r.now())
	for len(r.order) < actLimit {
		s := r.mem.due(now)
		if s == nil {
			break
		}
		if !r.acts(s) {
			continue // its wake stays, for when the shard is owned
		}
		if s.state == nil {
			if _, err := r.load(ctx, s.name); err != nil {
				r.mem.wakeAt(s, now, true)
				return false, err
			}
		}
		r.look(s)
	}
	var batch []*scope
	var jobs []*job
	for len(jobs) < actLimit && len(r.order) > 0 && len(batch) < lookLimit {
		turn := r.turn(actLimit - len(jobs))
		if err := r.fillScopes(ctx, turn); err != nil {
			for _, s := range append(batch, turn...) {
				r.look(s)
			}
			return false, err
		}
		for _, s := range turn {
			if j := r.next(ctx, s, now); j != nil {
				jobs = append(jobs, j)
			}
			r.arm(s)
		}
		batch = append(batch, turn...)
	}
	if len(jobs) == 0 {
		return len(r.order) > 0, nil
	}
	if err := r.append(ctx, jobs); err != nil {
		for _, s := range batch {
			r.look(s)
		}
		return false, err
	}
	return true, nil
}

// turn takes the scopes whose turn it is off the list. Those that are not this
// runner's to act on are parked, and count for nothing; nor do those that have
// left memory since.
func (r *Runner) turn(limit int) []*scope {
	taken, batch := 0, r.order[:0]
	for ; taken < len(r.order) && len(batch) < limit; taken++ {
		s := r.order[taken]
		switch {
		case !s.taken:
		case r.acts(s):
			batch = append(batch, s)
		default:
			r.park(s)
		}
		s.taken = false
	}
	if r.order = r.order[taken:]; len(r.order) == 0 {
		r.order = nil // the list of a start is long
	}
	return batch
}

// job is what is appended for one scope.
type job struct {
	scope  *scope
	entry  store.Entry
	closed []engine.Pending // the windows that decisions and dead letters are about
}

// next decides what the scope wants. What it returns must be appended before
// anything else of the scope happens.
func (r *Runner) next(ctx context.Context, s *scope, now engine.Time) *job {
	st := s.state
	j := &job{scope: s}
	if p := st.Propose(r.rules, now); len(p.Steps) > 0 {
		j.entry.Steps, j.entry.Due, j.closed = p.Steps, p.Due, p.Closed
	} else {
		j.entry.Steps = r.judging(ctx, s, now)
		if st.Slot != nil {
			j.closed = []engine.Pending{{Settled: st.Slot.Settled, Members: st.Slot.Members}}
		}
	}
	j.entry.Steps = append(j.entry.Steps, r.delivering(ctx, s, now)...)
	if len(j.entry.Steps) > 0 || s.tell || s.dropped() >= shedTrace {
		j.entry.Steps = append(j.entry.Steps, s.untold()...)
	}
	if len(j.entry.Steps) == 0 {
		return nil
	}
	j.entry.Scope, j.entry.Fence = s.name, r.fenceOf(s)
	j.entry.After, j.entry.Applied = st.LastStep, engine.Position(r.applied.Load())
	return j
}

// arm sets the time at which the scope is looked at again.
func (r *Runner) arm(s *scope) {
	at, ok := s.windowsAt()
	if lane, has := r.lanesAt(s); has && (!ok || lane < at) {
		at, ok = lane, true
	}
	r.mem.wakeAt(s, at, ok)
}

// windowsAt is when the scope's windows must be looked at though no record
// comes. A running call brings its own outcome, and what is wanted at once is on
// its way into the log, and comes back as a record of the scope.
func (s *scope) windowsAt() (at engine.Time, ok bool) {
	slot, pending := s.state.Slot, len(s.state.Pending) > 0
	if s.call != nil && !pending {
		return s.call.held, s.call.held > 0
	}
	at, ok = s.state.WindowsAt()
	return at, ok && (slot == nil && !pending || slot != nil && slot.Phase == engine.PhaseBackoff)
}

// park notes when the scope must be looked at, without doing so: another
// replica owns it, or this one is not sure that it still does.
func (r *Runner) park(s *scope) { r.mem.park(s, s.later()) }

// later is when a scope must be looked at by whoever then has its state; 0 for
// never.
func (s *scope) later() engine.Time {
	at, ok := s.state.WakeAt()
	if slot := s.state.Slot; slot != nil && slot.Phase == engine.PhaseCalling {
		at = slot.Since // who takes the shard over has lost the call
	}
	if !ok {
		return 0
	}
	return max(at, 1)
}

// append writes the jobs in one call. A refused entry is decided again after
// the next read; nothing is written once the leases are not trusted any more.
func (r *Runner) append(ctx context.Context, jobs []*job) error {
	if err := r.compose(ctx, jobs); err != nil {
		return err
	}
	if err := r.composeUndelivered(ctx, jobs); err != nil {
		return err
	}
	entries := make([]store.Entry, len(jobs))
	for i, j := range jobs {
		entries[i] = j.entry
	}
	if !r.trusted() {
		for _, j := range jobs {
			r.look(j.scope)
		}
		return nil
	}
	receipts, err := r.store.Append(ctx, entries...)
	if err != nil {
		return fmt.Errorf("append steps: %w", err)
	}
	var lost []store.Fence
	for i, receipt := range receipts {
		switch err := receipt.Err; {
		case err == nil:
			if err := r.place(&receipts[i]); err != nil {
				return fmt.Errorf("append steps: %w", err)
			}
			r.tellDead(&jobs[i].entry)
		case errors.Is(err, store.ErrBehind), errors.Is(err, store.ErrConflict):
			r.metrics.behind.Inc()
			r.look(jobs[i].scope)
			r.log.Debug("a proposal came too late, it is made again", "scope", jobs[i].scope.name, "error", err)
		case errors.Is(err, store.ErrFenced) && r.opt.Leases != nil:
			r.look(jobs[i].scope)
			lost = append(lost, jobs[i].entry.Fence)
		default:
			return fmt.Errorf("append steps of %q: %w", jobs[i].scope.name, err)
		}
	}
	r.fenced(ctx, lost...)
	return nil
}

// compose fills decisions and dead letters with what people read: notice and
// events, from the events as they stand in the log.
func (r *Runner) compose(ctx context.Context, jobs []*job) error {
	var positions []engine.Position
	for _, j := range jobs {
		for _, c := range j.composed() {
			for i := range c.Members {
				positions = append(positions, c.Members[i].Position)
			}
		}
	}
	if len(positions) == 0 {
		return nil
	}
	recs, err := r.store.Events(ctx, positions)
	if err != nil {
		return fmt.Errorf("read the events of windows: %w", err)
	}
	at := make(map[engine.Position]int, len(recs))
	for i := range recs {
		at[recs[i].Position] = i
	}
	for _, j := range jobs {
		for i := range j.entry.Steps {
			j.fill(&j.entry.Steps[i], func(members engine.Members) []engine.Record {
				var bodies []engine.Record
				for m := range members {
					if i, ok := at[members[m].Position]; ok {
						bodies = append(bodies, recs[i])
					}
				}
				return bodies
			})
		}
	}
	return nil
}

func (j *job) fill(st *engine.Step, bodies func(engine.Members) []engine.Record) {
	c := find(j.closed, st.Window)
	if c == nil {
		return
	}
	switch st.Kind { //nolint:exhaustive // the others show no events
	case engine.StepDecision:
		st.Decision = engine.ComposeDecision(j.scope.name, settledIn(j.entry.Steps, c), c.Members, st.Verdict, bodies(c.Members))
	case engine.StepDeadLetter:
		if st.DeadLetter.Stage == engine.StageSink {
			return
		}
		engine.ComposeDeadLetter(st.DeadLetter, bodies(c.Members))
	}
}

// composed are the windows of the job that a decision or dead letter is about,
// in the order of those steps.
func (j *job) composed() []engine.Pending {
	var out []engine.Pending
	for i := range j.entry.Steps {
		st := &j.entry.Steps[i]
		if st.Kind != engine.StepDecision && st.Kind != engine.StepDeadLetter {
			continue
		}
		if c := find(j.closed, st.Window); c != nil {
			out = append(out, *c)
		}
	}
	return out
}

// find returns the last close of a window. A held window that is judged alone
// keeps its id: it closes twice, and the decision is about the second.
func find(closed []engine.Pending, window string) *engine.Pending {
	for i := range slices.Backward(closed) {
		if closed[i].Settled.Window == window {
			return &closed[i]
		}
	}
	return nil
}

// settledIn prefers the settled step of the same entry, which has settledAt.
func settledIn(steps []engine.Step, c *engine.Pending) *engine.Settled {
	for i := range slices.Backward(steps) {
		if steps[i].Settled != nil && steps[i].Window == c.Settled.Window {
			return steps[i].Settled
		}
	}
	return &c.Settled
}
