package sim

import (
	"context"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
)

// The sinks of a world. One of the routes goes to each, and dead letters have
// their own.
const (
	sinkA       = "a"
	sinkB       = "b"
	sinkLetters = "letters"
)

// sinks draws who takes what. Deliveries that start together do not end
// together, nor with a call of the judge: their times differ by scope, and from
// the judge's.
func (p *Plan) sinks(d *draws, policy *engine.Policy) {
	if d.chance(500) {
		policy.Sinks = map[engine.Route]string{engine.Interrupt: sinkA, engine.Queue: sinkB, engine.Note: sinkA}
		if d.chance(500) {
			policy.Sinks[engine.Ask] = sinkB
		}
	}
	if d.chance(400) {
		policy.Letters = sinkLetters
	}
	timeout := pick(d, int64(1000), 50, 400) + 7
	policy.Default.DeliveryTimeoutMs = timeout
	for i := range policy.Scopes {
		policy.Scopes[i].Settings.DeliveryTimeoutMs = timeout + int64(i)
	}
}

// handing is a delivery on its way to a sink.
type handing struct {
	letter bool
	takes  bool // the sink takes it, whatever it answers
	err    error
}

// porter are the sinks of one life.
type porter struct{ life *life }

// no is what a sink says that does not take something.
type no struct {
	permanent bool
	after     time.Duration
}

func (e no) Error() string             { return "refused on purpose" }
func (e no) Permanent() bool           { return e.permanent }
func (e no) RetryAfter() time.Duration { return e.after }

// Deliver implements runner.Deliverer. What becomes of it, and when, the world
// has drawn.
func (p *porter) Deliver(ctx context.Context, parcel *runner.Parcel) error {
	w := p.life.world
	lane := engine.LaneOutbox
	if parcel.DeadLetter != nil {
		lane = engine.LaneLetters
	}
	h := &handing{letter: parcel.DeadLetter != nil}
	until, _ := ctx.Deadline()
	if !w.enter(p.life, lane, parcel, until) {
		return errReset
	}
	f := w.park(&gate{life: p.life, op: opDeliver, key: string(lane) + parcel.ID, done: ctx.Done(), sink: h})
	switch f {
	case goes:
		w.exit(lane, parcel, h.takes)
		return h.err
	case ended:
		w.exit(lane, parcel, false)
		return ctx.Err()
	default: // it was killed: nobody knows for how long the sink is at it
		return errReset
	}
}

// enter notes that a sink is called. It is not, where the caller is dead.
func (w *World) enter(l *life, lane engine.LaneName, p *runner.Parcel, until time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !l.dead {
		w.log.handed(lane, p, until)
	}
	return !l.dead
}

// exit notes that a sink is done. Many are, when a daemon stops.
func (w *World) exit(lane engine.LaneName, p *runner.Parcel, takes bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log.leaves(lane, p, takes)
}

// hand draws what a sink answers, and when.
func (w *World) hand(g *gate, d *draws, name string) {
	h := g.sink
	h.takes = true
	took := pick(d, 0, 0, time.Millisecond, 5*time.Millisecond, 50*time.Millisecond, 300*time.Millisecond)
	bad := d.below(1000)
	after := pick(d, 0, 50*time.Millisecond, time.Second)
	if h.letter { // its time never ends: two timers of one scope would, together
		took = min(took, 5*time.Millisecond)
	}
	if bad < 400 && w.faulty(name) {
		g.name = name
		switch {
		case bad < 60 && !h.letter: // never, or far too late
			took = pick(d, 3*time.Second, 20*time.Second)
		case bad < 140: // it has taken it, and the answer is lost
			h.err = errReset
		case bad < 340:
			h.takes, h.err = false, no{after: after}
		default:
			h.takes, h.err = false, no{permanent: true}
		}
	}
	g.due = g.due.Add(took)
}

// inside is a delivery that a sink is at.
type inside struct {
	id    string
	until time.Time // of its caller's clock
	jumps int       // of the wall clock, when its start was written
}

// handed: the start of a delivery stands in the log before the sink is called,
// it is about the first of the lane, and nobody else is at it: not until the
// time of the attempt before is over, unless the clock was set in the meantime.
func (l *ledger) handed(lane engine.LaneName, p *runner.Parcel, until time.Time) {
	l.totals.Deliveries++
	key := p.Scope + " " + string(lane)
	if other, ok := l.inside[key]; ok && time.Now().Before(other.until) && other.jumps == l.jumps {
		l.add("two", "%s of %s is delivered while %s is on its way until %v", p.ID, key, other.id, other.until)
	}
	l.inside[key] = inside{p.ID, until, l.started[key]}
	s := l.scopes[p.Scope]
	if s == nil || s.state.Lane(lane) == nil {
		l.add("deliver", "%s of %s is delivered, and its lane is empty", p.ID, key)
		return
	}
	first, _ := s.state.First(lane)
	if on := s.state.Lane(lane); first.ID != p.ID || on.Phase != engine.LaneSends || on.Attempt != p.Attempt {
		l.add("deliver", "attempt %d of %s of %s is made, and the log tells of attempt %d of %s (phase %d)", p.Attempt, p.ID, key, on.Attempt, first.ID, on.Phase)
	}
	shown := ""
	if p.Decision != nil {
		shown = p.Decision.ID
	} else {
		shown = p.DeadLetter.ID
	}
	if shown != p.ID {
		l.add("deliver", "%s is delivered under the id %s", shown, p.ID)
	}
}

// leaves notes that a sink is done with something, and whether it has taken it.
func (l *ledger) leaves(lane engine.LaneName, p *runner.Parcel, takes bool) {
	delete(l.inside, p.Scope+" "+string(lane))
	if takes {
		l.took[p.ID] = true
	}
}

// delivery holds a step about a lane against what sinks have seen. The order,
// and how often it is tried, are the fold's: apply has it checked that each step
// is one that it waits for.
func (l *ledger) delivery(r *engine.Record) {
	st := r.Step
	switch {
	case st.Kind == engine.StepDelivery:
		l.started[r.Scope+" "+string(st.Delivery.Lane)] = l.jumps
	case st.Kind == engine.StepDelivered && !l.took[st.Delivery.ID]:
		l.add("deliver", "position %d: %s is delivered, and no sink has taken it", r.Position, st.Delivery.ID)
	case st.Kind == engine.StepUndelivered && !st.Delivery.Failed.Uncounted && st.Delivery.Attempt > 1+l.rungs && st.Delivery.Lane == engine.LaneOutbox:
		l.add("deliver", "position %d: attempt %d of %s, at most %d are allowed", r.Position, st.Delivery.Attempt, st.Delivery.ID, 1+l.rungs)
	case st.DeadLetter != nil:
		d := st.DeadLetter
		l.undelivered[d.WindowID]++
		if id := engine.DeadLetterID(d.WindowID, engine.StageSink, l.undelivered[d.WindowID]); d.ID != id || st.ID != id || d.Decision == nil || d.Decision.ID != d.WindowID {
			l.add("identity", "position %d: dead letter %s of decision %s, its id is %s", r.Position, st.ID, d.WindowID, id)
		}
		l.letters = append(l.letters, d)
		l.letterAt[d.ID] = r.Position
		l.totals.Undelivered++
	}
}

// aboutLane reports whether a step is about a lane, and not about a window.
func aboutLane(st *engine.Step) bool {
	return st.Delivery != nil || st.DeadLetter != nil && st.DeadLetter.Stage == engine.StageSink ||
		st.Requeue != nil && st.Requeue.Stage == engine.StageSink
}

// requeueOf asks for a dead letter again.
func (l *ledger) requeueOf(d *engine.DeadLetter) *engine.Requeue {
	q := &engine.Requeue{DeadLetter: d.ID, Number: d.Number}
	if d.Stage == engine.StageSink {
		q.Stage, q.Position, q.Route = d.Stage, l.letterAt[d.ID], d.Decision.Route
	} else {
		q.Settled, q.Members = *d.Settled, d.Members
	}
	return q
}

// arrived: at the end each decision whose route had a sink has been taken by it,
// or is a dead letter.
func (l *ledger) arrived() {
	for _, w := range l.inOrder {
		if w.final == nil || w.final.Step.Kind != engine.StepDecision {
			continue
		}
		id := w.settled.Window
		if l.rules.At(w.final.Stamp).Sinks[w.final.Step.Route] != "" && !l.took[id] && l.undelivered[id] == 0 {
			l.add("deliver", "decision %s of scope %q was taken by no sink, and is no dead letter", id, w.scope)
		}
	}
}
