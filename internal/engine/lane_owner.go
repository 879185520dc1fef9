package engine

// What the owner of a scope does for its lanes. As with windows it reads the
// state and appends steps, and the state moves when they come back.

// leastPause is the shortest time, in milliseconds, before a dead letter is
// tried again: there is no last attempt, so the pause must not be none.
const leastPause = 1000

// First is the parcel that is next to be delivered or on its way; ok is false
// when the lane is empty.
func (s *State) First(name LaneName) (p Parcel, ok bool) {
	l := s.Lane(name)
	if l == nil {
		return Parcel{}, false
	}
	return l.Queue[0], true
}

// SendDue reports whether the first of a lane wants an attempt now.
func (s *State) SendDue(name LaneName, now Time) bool {
	l := s.Lane(name)
	return l != nil && (l.Phase == LaneWaits || l.Phase == LaneBackoff && l.Failed.RetryAt <= now)
}

// LaneAt is the instant at which the owner must look at a lane again though no
// record came; ok is false when only a record can bring something new.
func (s *State) LaneAt(name LaneName) (at Time, ok bool) {
	l := s.Lane(name)
	if l == nil {
		return 0, false
	}
	switch l.Phase {
	case LaneSends:
		return l.Until, true
	case LaneBackoff:
		return l.Failed.RetryAt, true
	case LaneWaits, LaneGivenUp:
	}
	return s.Time, true
}

// SinkFor is the sink that the first of a lane goes to under the policy in
// force, or, where that has none for it, the one that it was meant for. "" when
// there is none. The lane must not be empty.
func (s *State) SinkFor(r *Rules, name LaneName) string {
	p, policy := &s.Lane(name).Queue[0], r.Latest()
	sink := policy.Letters
	if name == LaneOutbox {
		sink = policy.Sinks[p.Route]
	}
	if sink == "" {
		return p.Sink
	}
	return sink
}

// StartDelivery is the step to append, under the fence of a token, just before a
// sink is called.
func (s *State) StartDelivery(r *Rules, name LaneName, token int64) Step {
	l, policy := s.Lane(name), r.Latest()
	return laneStep(StepDelivery, &l.Queue[0], &Delivery{
		Lane: name, Sink: s.SinkFor(r, name), Attempt: l.Attempt + 1,
		Policy: policy.Number, TimeoutMs: policy.For(s.Scope).DeliveryTimeoutMs, Owner: token,
	})
}

// Delivered is the step to append when the running attempt has arrived.
func (s *State) Delivered(name LaneName, tookMs int64) []Step {
	l := s.Lane(name)
	if l == nil || l.Phase != LaneSends {
		return nil
	}
	return []Step{laneStep(StepDelivered, &l.Queue[0], &Delivery{Lane: name, Sink: l.Sink, Attempt: l.Attempt, TookMs: tookMs})}
}

// Undelivered returns the steps to append when the running attempt has not
// arrived: the failure, with the time of the next try, and the dead letter when
// there is none. f gives Why, Message, Permanent, Uncounted, RetryAfterMs and
// TookMs; the rest is filled in here.
//
// A dead letter is tried again for ever, however it was refused, with the
// longest rung between tries at most; only where the policy in force has no
// handler any more is it left to the log.
func (s *State) Undelivered(r *Rules, now Time, name LaneName, f Failed) []Step {
	l := s.Lane(name)
	if l == nil || l.Phase != LaneSends {
		return nil
	}
	p := &l.Queue[0]
	set := r.Numbered(l.Policy).For(s.Scope)
	f.Attempt, f.RetryAt = l.Attempt, 0
	f.wait(set, p.ID, now)
	d := &Delivery{Lane: name, Sink: l.Sink, Attempt: l.Attempt, Failed: &f}
	step := laneStep(StepUndelivered, p, d)
	switch {
	case f.Uncounted, name == LaneLetters && r.Latest().Letters == "":
	case name == LaneOutbox && (f.Permanent || l.Attempt > len(set.RetryBackoffMs)):
		return []Step{step, s.undeliverable(now, f)}
	case f.Why == "lost":
		f.RetryAt = max(now, f.NotBefore, 1) // 0 stands for no next attempt
	case name == LaneLetters:
		f.RetryAt = max(now+max(backoff(set, p.ID, l.Attempt), leastPause), f.NotBefore)
	default:
		f.RetryAt = max(now+backoff(set, p.ID, l.Attempt), f.NotBefore, 1)
	}
	return []Step{step}
}

// GiveUp is the step that ends the first of the outbox as a dead letter, where
// its last failure stands in the log without it.
func (s *State) GiveUp(now Time) []Step {
	if s.Outbox == nil || s.Outbox.Phase != LaneGivenUp {
		return nil
	}
	return []Step{s.undeliverable(now, *s.Outbox.Failed)}
}

// undeliverable is the dead letter of the first of the outbox, still without
// the decision itself.
func (s *State) undeliverable(now Time, f Failed) Step {
	p := &s.Outbox.Queue[0]
	id := DeadLetterID(p.ID, StageSink, p.Letters+1)
	return Step{Kind: StepDeadLetter, Window: p.ID, ID: id, DeadLetter: &DeadLetter{
		ID: id, Kind: "deadLetter", Stage: StageSink, Scope: s.Scope, WindowID: p.ID,
		Message: f.Message, Permanent: f.Permanent, Attempts: f.Attempt, At: now, Number: p.Letters + 1, Events: []EventView{},
	}}
}

// ComposeUndelivered fills a dead letter of stage sink in with its decision.
func ComposeUndelivered(d *DeadLetter, decision *Decision) {
	d.Decision = decision
	if decision != nil {
		d.Events, d.Cut = decision.Events, decision.Cut
	}
}

func laneStep(kind StepKind, p *Parcel, d *Delivery) Step {
	d.ID = p.ID
	window := p.Window
	if window == "" {
		window = p.ID
	}
	return Step{Kind: kind, Window: window, Delivery: d}
}
