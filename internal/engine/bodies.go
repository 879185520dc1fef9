package engine

import "slices"

// A pure judge and an override may look at what the events of a window say. The
// state then keeps the bodies of the events that a live window names: open,
// held, judged, in line to be, or unwritten. Rows do not hold them. Whoever has
// loaded a state, or meets a policy that needs them for the first time, reads
// them from the log: Missing tells which, Fill takes them. So a decision
// follows from the log alone, whatever was in memory.

// NeedsBodies reports whether a policy known looks at what events say.
func (r *Rules) NeedsBodies() bool { return r.bodies }

// Missing returns the positions, rising, of the events whose bodies the rules
// may look at and that the state does not have: those of its windows, and those
// that the record to be applied next brings back (nil for none: what the clock
// alone does, and answers). They must be filled before that.
func (s *State) Missing(r *Rules, next *Record) []Position {
	if !r.bodies {
		return nil
	}
	var missing []Position
	if s.bodies == nil {
		s.eachLive(func(m Members) { missing = m.appendTo(missing) })
	}
	if next != nil && next.Step != nil {
		if st := next.Step.Settled; st != nil {
			missing = append(missing, st.Events...)
		}
		if q := next.Step.Requeue; q != nil {
			missing = q.Members.appendTo(missing)
		}
	}
	missing = slices.DeleteFunc(missing, func(p Position) bool {
		_, ok := s.bodies[p]
		return ok
	})
	slices.Sort(missing)
	return slices.Compact(missing)
}

// Fill takes the bodies that were missing. What is not among found is in the
// log no more, and is not asked for again.
func (s *State) Fill(missing []Position, found []Record) {
	if len(missing) == 0 {
		return
	}
	if s.bodies == nil {
		s.bodies = make(map[Position]*Event, len(missing))
	}
	for _, p := range missing {
		s.bodies[p] = nil
	}
	for i := range found {
		s.bodies[found[i].Position] = found[i].Event
	}
}

// keep remembers the body of an accepted event.
func (s *State) keep(r *Rules, rec *Record) {
	if !r.bodies {
		return
	}
	if s.bodies == nil {
		s.bodies = make(map[Position]*Event)
	}
	s.bodies[rec.Position] = rec.Event
}

// slackBodies is how many bodies may wait to be let go, beside half as many as
// are live: a window that sheds at each arrival is not gone through each time.
const slackBodies = 16

// dropBodies lets go of bodies that no live window names. It is called when a
// record has been applied: what is closed on a copy, to see what the clock
// brings, must find them.
func (s *State) dropBodies() {
	live := 0
	s.eachLive(func(m Members) { live += len(m) })
	switch {
	case live == 0:
		s.bodies = nil
	case len(s.bodies) <= live+live/2+slackBodies:
	default:
		named := make(map[Position]*Event, live)
		s.eachLive(func(m Members) {
			for i := range m {
				if body, ok := s.bodies[m[i].Position]; ok {
					named[m[i].Position] = body
				}
			}
		})
		s.bodies = named
	}
}

// eachLive visits the events of every live window. One may be visited twice.
func (s *State) eachLive(visit func(Members)) {
	visit(s.Open.Events)
	if s.Held != nil {
		visit(s.Held.Members)
	}
	if s.Slot != nil {
		visit(s.Slot.Members)
	}
	for i := range s.Pending {
		visit(s.Pending[i].Members)
	}
	for i := range s.Requeued {
		visit(s.Requeued[i].Members)
	}
}

func (m Members) appendTo(positions []Position) []Position {
	for i := range m {
		positions = append(positions, m[i].Position)
	}
	return positions
}

// Positions are those of the window's events.
func (w *Window) Positions() []Position { return w.Events.appendTo(nil) }

// Fill gives a window the bodies of its events, as they stand in the log.
func (w *Window) Fill(found []Record) {
	w.bodies = make(map[Position]*Event, len(found))
	for i := range found {
		w.bodies[found[i].Position] = found[i].Event
	}
}
