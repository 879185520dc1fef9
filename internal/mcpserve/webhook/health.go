package webhook

import (
	"time"

	"attend/internal/engine"
)

// When a subscription is suspended (events contract, 6).
const (
	suspendMinutes = 60
	suspendTries   = 100
	suspendPercent = 95
	// suspendAfter is how long no try may have gone well: many events in a few
	// seconds are a blip yet.
	suspendAfter = 30 * time.Minute
)

// health counts the tries of the last hour by the minute. It begins anew with a
// worker and when a subscription revives.
type health struct {
	failing engine.Time // since when none has gone well; 0 after one that has
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
	switch {
	case ok:
		h.failing = 0
		return
	case h.failing == 0:
		h.failing = now
	}
	m.fails++
}

// hopeless tells whether nearly all tries of the last hour have failed, and all
// for long enough.
func (h *health) hopeless(now engine.Time) bool {
	if h.failing == 0 || now-h.failing < engine.Time(suspendAfter.Milliseconds()) {
		return false
	}
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
