package runner

import (
	"context"
	"time"

	"attend/internal/engine"
)

// Deliverer hands what a policy has a sink for to that sink. Deliver returns
// nil once the sink has taken it, and returns soon after the context has ended.
// It may be called again for the same parcel, never for two of one scope's lane
// at once. An error that has the methods of refusal says more of itself, and an
// *[UnreadError] that the sink was not called.
type Deliverer interface {
	Deliver(ctx context.Context, p *Parcel) error
}

// refusal is what an error may say of a failed delivery.
type refusal interface {
	Permanent() bool           // the sink can never take it
	RetryAfter() time.Duration // the sink asks for so much time; 0 for none
}

// Parcel is a decision or a dead letter for a sink, as it stands in the log.
type Parcel struct {
	Sink    string
	ID      string // of the decision or dead letter: the same each time
	Scope   string
	Attempt int // 1 is the first

	Decision   *engine.Decision   // exactly one of the two
	DeadLetter *engine.DeadLetter //
}

// stopGrace is how long a delivery that is broken off may take to end.
const stopGrace = 3 * time.Second

// delivery is an attempt of this process. Its start stands in the log before it
// runs, and it has a place before that.
type delivery struct {
	scope   *scope
	id      string
	sink    string
	slow    bool // the last one of its scope had no answer in its time
	placed  bool
	gone    bool // it is nobody's any more, and needs no place
	attempt int
	owner   int64     // the token of the fence under which its start is written
	sent    time.Time // before its start was appended
	running bool
	cancel  context.CancelFunc // of what runs
	result  *arrival           // what the loop was told
	stopped *arrival           // how it ended when it was broken off; to be read once all have ended
}

// arrival is how a delivery ended.
type arrival struct {
	delivery *delivery
	err      error
	took     time.Duration
}

// sends are the deliveries of this process, by scope, each in the order of
// engine.LaneNames, and who waits for a place.
type sends struct {
	of    map[*scope]*[2]*delivery
	sinks map[string]*sinkLine
	ended chan *arrival
}

func (s *sends) init() {
	s.of, s.sinks = make(map[*scope]*[2]*delivery), make(map[string]*sinkLine)
	s.ended = make(chan *arrival)
}

// busy reports whether the scope has a delivery, or waits for a place.
func (s *sends) busy(sc *scope) bool { return s.of[sc] != nil }

// at is the scope's delivery of a lane, nil for none.
func (s *sends) at(sc *scope, lane int) *delivery {
	if of := s.of[sc]; of != nil {
		return of[lane]
	}
	return nil
}

func (s *sends) set(sc *scope, lane int, d *delivery) {
	of := s.of[sc]
	if of == nil {
		of = new([2]*delivery)
		s.of[sc] = of
	}
	if of[lane] = d; *of == [2]*delivery{} {
		delete(s.of, sc)
	}
}

// delivering moves the scope's lanes on: it starts attempts, runs those whose
// start stands in the log, and turns outcomes into steps.
func (r *Runner) delivering(ctx context.Context, s *scope, now engine.Time) (steps []engine.Step) {
	if r.opt.Deliver == nil {
		return nil
	}
	for lane, name := range engine.LaneNames() {
		if s.state.Lane(name) != nil || r.sends.at(s, lane) != nil {
			steps = append(steps, r.deliverFirst(ctx, s, lane, name, now)...)
		}
	}
	return steps
}

// deliverFirst does what the first of a lane wants.
func (r *Runner) deliverFirst(ctx context.Context, s *scope, lane int, name engine.LaneName, now engine.Time) []engine.Step {
	l := s.state.Lane(name)
	sending := l != nil && l.Phase == engine.LaneSends
	d := r.current(s, lane, l)
	switch {
	case sending && d == nil:
		// Of an earlier process, or of another replica. It may still be on its way.
		if now < l.Until {
			return nil
		}
		return s.state.Undelivered(r.rules, now, name, engine.Failed{Why: "lost", Message: "the daemon ended while the sink was being called"})
	case sending:
		if !d.running {
			r.send(ctx, s, name, d, l.Until-now)
		}
		if d.result == nil {
			return nil
		}
		return r.arrived(s, name, d.result, now)
	case s.state.SendDue(name, now):
		return r.startDelivery(s, lane, name, d)
	case name == engine.LaneOutbox:
		return s.state.GiveUp(now)
	}
	return nil
}

// current is this process's attempt at the first of a lane, nil when there is
// none. One that the log has gone past is let go, and so is one whose start the
// log has from another owner: two that prepare the same start are not two that
// make it.
func (r *Runner) current(s *scope, lane int, l *engine.Lane) *delivery {
	d := r.sends.at(s, lane)
	switch {
	case d == nil:
		return nil
	case l == nil || l.Queue[0].ID != d.id:
	case l.Phase != engine.LaneSends && !d.running:
		return d
	case l.Phase == engine.LaneSends && l.Attempt == d.attempt && l.Owner == d.owner:
		return d
	}
	r.letGoDelivery(s, lane)
	return nil
}

// startDelivery makes the step that stands in the log before the attempt, once
// there is a place for it.
func (r *Runner) startDelivery(s *scope, lane int, name engine.LaneName, d *delivery) []engine.Step {
	token := r.fenceOf(s).Token
	step := s.state.StartDelivery(r.rules, name, token)
	if d != nil && d.sink != step.Delivery.Sink {
		r.letGoDelivery(s, lane)
		d = nil
	}
	if d == nil {
		d = &delivery{scope: s, id: step.Delivery.ID, sink: step.Delivery.Sink}
		r.sends.set(s, lane, d)
		d.slow = r.sends.hung(d) || hung(s.state.Lane(name).Failed)
		r.sends.line(d, r.sinkPlaces(d.sink))
	}
	if !d.placed {
		return nil
	}
	d.attempt, d.owner, d.sent = step.Delivery.Attempt, token, time.Now()
	return []engine.Step{step}
}

// letGoDelivery breaks off the scope's delivery of a lane, if one runs; what it
// brings is dropped.
func (r *Runner) letGoDelivery(s *scope, lane int) {
	d := r.sends.at(s, lane)
	if d == nil {
		return
	}
	if d.cancel != nil {
		d.cancel()
	}
	r.sends.set(s, lane, nil)
	if next := r.sends.leave(d, r.sinkPlaces(d.sink)); next != nil {
		r.look(next.scope)
	}
}

// lanesAt is when the scope's lanes must be looked at though no record comes.
// What runs here brings its own outcome, what waits for a place is told, and
// what is wanted at once is on its way into the log.
func (r *Runner) lanesAt(s *scope) (at engine.Time, ok bool) {
	if r.opt.Deliver == nil {
		return 0, false
	}
	for lane, name := range engine.LaneNames() {
		l := s.state.Lane(name)
		if l == nil || r.sends.at(s, lane) != nil || l.Phase != engine.LaneSends && l.Phase != engine.LaneBackoff {
			continue
		}
		if next, _ := s.state.LaneAt(name); !ok || next < at {
			at, ok = next, true
		}
	}
	return at, ok
}

// takeArrival keeps the outcome of a delivery for its scope's next turn.
func (r *Runner) takeArrival(a *arrival) {
	if a.delivery.gone {
		return
	}
	a.delivery.result = a
	r.sends.learn(a)
	r.look(a.delivery.scope)
}
