package webhook

import (
	"attend/internal/engine"
)

// When a subscription is suspended (events contract, 6).
const (
	suspendMinutes = 60
	suspendTries   = 100
	suspendPercent = 95
)

// health counts the tries of the last hour by the minute.
type health struct {
	minutes [suspendMinutes]struct {
		minute       int64
		tries, fails int
	}
}

// note counts a try.
func (h *health) note(now engine.Time, ok bool) {
	minute := int64(now) / 60_000
	m := &h.minutes[minute%suspendMinutes]
	if m.minute != minute {
		m.minute, m.tries, m.fails = minute, 0, 0
	}
	m.tries++
	if !ok {
		m.fails++
	}
}

// hopeless tells whether nearly all tries of the last hour have failed.
func (h *health) hopeless(now engine.Time) bool {
	oldest := int64(now)/60_000 - suspendMinutes
	tries, fails := 0, 0
	for i := range h.minutes {
		if m := &h.minutes[i]; m.minute > oldest {
			tries += m.tries
			fails += m.fails
		}
	}
	return tries >= suspendTries && fails*100 > tries*suspendPercent
}
