package replay

import "attend/internal/engine"

// deliver does what is due for the scope's lanes at this instant: a sink takes
// what it is given as Options.Sinks says, or at once.
func (w *World) deliver(s *scope) []engine.Step {
	var steps []engine.Step
	for i, name := range engine.LaneNames() {
		l := s.state.Lane(name)
		switch {
		case l != nil && l.Phase == engine.LaneSends:
			steps = append(steps, w.delivered(s, i, name, l.Until)...)
		case s.state.SendDue(name, w.now):
			steps = append(steps, s.state.StartDelivery(w.rules, name, 0))
		case name == engine.LaneOutbox:
			steps = append(steps, s.state.GiveUp(w.now)...)
		}
	}
	return steps
}

// delivered is what has become of a running delivery by now. One of an owner
// that is gone is over when its time is.
func (w *World) delivered(s *scope, i int, name engine.LaneName, until engine.Time) []engine.Step {
	c := s.sends[i]
	switch {
	case c != nil && c.at <= w.now && c.at < until:
		s.sends[i] = nil
		if f := c.answer.failure(); f != nil {
			return s.state.Undelivered(w.rules, w.now, name, *f)
		}
		return s.state.Delivered(name, c.answer.AfterMs)
	case until > w.now:
		return nil
	case c == nil:
		return s.state.Undelivered(w.rules, w.now, name, engine.Failed{Why: "lost", Message: "the daemon ended while the sink was being called"})
	}
	s.sends[i] = nil
	return s.state.Undelivered(w.rules, w.now, name, engine.Failed{Why: "timeout", Message: "the sink did not answer in time"})
}

// startDeliveries calls sinks whose start has just been appended.
func (w *World) startDeliveries(s *scope, steps []engine.Step) {
	for i := range steps {
		if steps[i].Kind != engine.StepDelivery {
			continue
		}
		a, _ := w.opt.Sinks.next(s.name)
		for lane, name := range engine.LaneNames() {
			if name == steps[i].Delivery.Lane {
				s.sends[lane] = &call{at: w.now + engine.Time(a.AfterMs), answer: a}
			}
		}
	}
}

// lanesAt is when the owner must look at the scope's lanes though nothing comes.
func (s *scope) lanesAt() (at engine.Time, ok bool) {
	for i, name := range engine.LaneNames() {
		lane, has := s.state.LaneAt(name)
		if c := s.sends[i]; has && c != nil {
			lane = min(lane, c.at)
		}
		if has && (!ok || lane < at) {
			at, ok = lane, true
		}
	}
	return at, ok
}

// stopDeliveries breaks deliveries off, so that they do not count as attempts.
func (w *World) stopDeliveries(s *scope) {
	for i, name := range engine.LaneNames() {
		if s.sends[i] != nil {
			s.sends[i] = nil
			w.steps(s, s.state.Undelivered(w.rules, w.now, name, engine.Failed{Why: "stopped", Message: "the daemon was stopped", Uncounted: true}), nil)
		}
	}
}
