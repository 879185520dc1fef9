package runner

// DefaultMaxCalls is how many judge calls run at once.
const DefaultMaxCalls = 64

// places bound how many judge calls run at once. A window waits for one before
// its call stands in the log and before anything is fetched for it, so that
// waiting takes no rung of its ladder and none of its timeout. The loop alone
// touches them.
type places struct {
	free int
	line []*scope // whose windows wait for a place, first come first
}

// seat reports whether the scope's call has a place. One that has none stands
// in line for it, and the scope is looked at when its turn comes.
func (r *Runner) seat(s *scope) bool {
	switch c := s.call; {
	case c.seated:
	case c.waiting:
	case r.places.free > 0:
		r.places.free--
		c.seated = true
	default:
		c.waiting = true
		r.places.line = append(r.places.line, s)
	}
	return s.call.seated
}

// unseat gives a call's place to the first in line.
func (r *Runner) unseat(c *call) {
	if !c.seated {
		return
	}
	c.seated = false
	for len(r.places.line) > 0 {
		s := r.places.line[0]
		r.places.line[0] = nil
		r.places.line = r.places.line[1:]
		if s.call != nil && s.call.waiting { // else its window waits no more
			s.call.waiting, s.call.seated = false, true
			r.look(s)
			return
		}
	}
	r.places.line = nil
	r.places.free++
}
