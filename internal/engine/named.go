package engine

import (
	"math"
	"slices"
)

// Named returns the positions, rising and at or before one, of the events that
// somebody may still read: those of windows that are open, held, judged,
// requeued or unwritten.
//
// A window that only collects consequences and contexts loses those that are
// too old to the next event or flush call, before anything settles. So what is
// too old at an instant before which the scope has no record that it has not
// applied is read by nobody.
func (s *State) Named(r *Rules, upto Position, at Time) []Position {
	var named []Position
	add := func(m Members) {
		for i := range m {
			if m[i].Position <= upto {
				named = append(named, m[i].Position)
			}
		}
	}
	open := s.Open
	mayHold := s.Held != nil || s.Slot != nil && !s.Slot.NoWait || len(s.Pending) > 0 // nothing is shed beside a held window
	if _, due := open.earliest(); !due && !mayHold {
		open.shedAge(at, s.settingsOf(r), new(ShedRun))
	}
	add(open.Events)
	if s.Held != nil {
		add(s.Held.Members)
	}
	if s.Slot != nil {
		add(s.Slot.Members)
	}
	for i := range s.Pending {
		add(s.Pending[i].Members)
		if h := s.Pending[i].heldBefore; h != nil {
			add(h.Members)
		}
	}
	for i := range s.Requeued {
		add(s.Requeued[i].Members)
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// Forgettable reports whether nothing of the scope matters any more at an
// instant: nothing is open, held, judged, requeued or unwritten, no loss is
// still to be told with the next window, and no id is remembered. What is gone
// with it are the last verdicts.
func (s *State) Forgettable(at Time) bool {
	if !s.Idle() || s.Open.Dropped > 0 || s.Open.Gap {
		return false
	}
	for i := range s.Seen.ids {
		if s.Seen.ids[i].forgetAt > at {
			return false
		}
	}
	return true
}

// letGo lets go of bodies that no window names, and of ids whose time is over,
// so that a row which is written at a later record never refers to blocks that
// held them.
func (s *State) letGo() {
	if s.bodies != nil {
		s.dropBodies()
	}
	if len(s.Seen.ids) > 0 && s.Seen.ids[0].forgetAt <= s.Time {
		s.Seen.forget(s.Time, math.MaxInt, s.oldestLive())
	}
}
