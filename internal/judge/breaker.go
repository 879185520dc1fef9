package judge

import (
	"net/http"
	"time"
)

// How a breaker opens and closes.
const (
	openAfter  = 5                // transient failures in a row
	firstPause = 10 * time.Second // from the opening to the probe
	maxPause   = 5 * time.Minute  // the longest, after probes that failed, or as the judge asks
	maxBehind  = 5 * time.Second  // how long a call is held that comes while the probe is out
	minBehind  = time.Second
)

// breaker keeps calls from a judge that is down. It opens after failures in a
// row, and when the judge itself asks for a pause; when the pause is over one
// call is let through as a probe, and what comes of it closes the breaker or
// opens it for twice as long. It has no clock and no lock: both are its owner's.
type breaker struct {
	failures int           // in a row, while closed
	open     bool          // no call passes but probes
	until    time.Time     // when the next probe may pass
	span     time.Duration // from the opening to until
	pause    time.Duration // of the last opening that the judge did not ask for
	probing  bool          // a probe is out
	openings int           // a call that began before the last one tells nothing new
}

// pass is the leave to make a call. It is given back with done.
type pass struct {
	openings int
	probe    bool
}

// check tells why a call may not be made now, "" when it may, and how long it
// has to wait.
func (b *breaker) check(now time.Time) (why string, wait time.Duration) {
	switch {
	case !b.open:
		return "", 0
	case now.Before(b.until):
		return whyBreaker, b.until.Sub(now)
	case b.probing:
		return whyProbe, min(max(b.span, minBehind), maxBehind)
	default:
		return "", 0
	}
}

// enter gives leave to make a call that check allows.
func (b *breaker) enter() pass {
	b.probing = b.open
	return pass{openings: b.openings, probe: b.open}
}

// finding is what a call tells about the judge.
type finding int

const (
	tellsNothing finding = iota // it was called off, or not made
	answers                     // it answered, if only to refuse
	fails                       // no usable sign of life
)

// done takes back the leave. asked is the pause that the judge asked for.
func (b *breaker) done(p pass, now time.Time, found finding, asked time.Duration) {
	current := p.openings == b.openings
	if current && p.probe {
		b.probing = false
	}
	switch {
	case found == fails && asked > 0:
		b.openFor(now, min(asked, maxPause))
	case !current || found == tellsNothing:
	case found == answers:
		b.failures, b.open, b.pause = 0, false, 0
	default:
		b.failures++
		if p.probe || b.failures >= openAfter {
			b.pause = min(max(2*b.pause, firstPause), maxPause)
			b.openFor(now, b.pause)
		}
	}
}

// openFor opens the breaker, or keeps it open for longer.
func (b *breaker) openFor(now time.Time, span time.Duration) {
	until := now.Add(span)
	if b.open && b.until.After(until) {
		return // a pause that was asked for before lasts longer
	}
	b.open, b.until, b.span = true, until, span
	b.failures, b.probing = 0, false
	b.openings++
}

// learn is what an outcome tells about the judge. Refusals and answers that
// cannot be taken come from a judge that is there; a call that nobody waits for
// any more tells nothing.
func learn(err *Error, calledOff bool) (found finding, asked time.Duration) {
	switch {
	case err == nil:
		return answers, 0
	case err.Class == Held || calledOff:
		return tellsNothing, 0
	case err.Class != Transient:
		return answers, 0
	case err.Status == http.StatusTooManyRequests || err.Status == http.StatusServiceUnavailable:
		return fails, err.RetryAfter
	default:
		return fails, 0
	}
}
