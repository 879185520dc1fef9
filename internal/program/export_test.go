package program

import "time"

// WithGrace returns the command with another time between the request to end
// and the end.
func (s Spec) WithGrace(d time.Duration) Spec {
	s.grace = d
	return s
}
