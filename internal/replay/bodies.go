package replay

import (
	"cmp"
	"slices"

	"attend/internal/engine"
)

// minBodies is how many events are kept before it is looked which of them no
// window can name any more.
const minBodies = 256

// keep remembers an event's body until no window can name it.
func (s *scope) keep(rec *engine.Record) {
	if len(s.bodies) >= max(s.full, minBodies) {
		i, _ := slices.BinarySearchFunc(s.bodies, s.oldest(), byPosition)
		s.bodies = slices.Clone(s.bodies[i:])
		s.full = 2 * len(s.bodies)
	}
	s.bodies = append(s.bodies, *rec)
}

// restore brings the bodies of a dead letter's events back.
func (s *scope) restore(events []engine.Record) {
	for i := range events {
		if at, found := slices.BinarySearchFunc(s.bodies, events[i].Position, byPosition); !found {
			s.bodies = slices.Insert(s.bodies, at, events[i])
		}
	}
}

// find returns the bodies of a window's events, by position.
func (s *scope) find(members engine.Members) []engine.Record {
	found := make([]engine.Record, 0, len(members))
	for i := range members {
		if at, ok := slices.BinarySearchFunc(s.bodies, members[i].Position, byPosition); ok {
			found = append(found, s.bodies[at])
		}
	}
	return found
}

// fill gives the fold the bodies that it looks at.
func (w *World) fill(s *scope, next *engine.Record) {
	missing := s.state.Missing(w.rules, next)
	if len(missing) == 0 {
		return
	}
	found := make([]engine.Record, 0, len(missing))
	for _, p := range missing {
		if at, ok := slices.BinarySearchFunc(s.bodies, p, byPosition); ok {
			found = append(found, s.bodies[at])
		}
	}
	s.state.Fill(missing, found)
}

// oldest is the position of the oldest event that a window names.
func (s *scope) oldest() engine.Position {
	oldest := engine.Position(1<<63 - 1)
	look := func(m engine.Members) {
		if len(m) > 0 {
			oldest = min(oldest, m[0].Position)
		}
	}
	st := s.state
	look(st.Open.Events)
	if st.Held != nil {
		look(st.Held.Members)
	}
	if st.Slot != nil {
		look(st.Slot.Members)
	}
	for i := range st.Pending {
		look(st.Pending[i].Members)
	}
	for i := range st.Requeued {
		look(st.Requeued[i].Members)
	}
	return oldest
}

func byPosition(rec engine.Record, p engine.Position) int { return cmp.Compare(rec.Position, p) }
