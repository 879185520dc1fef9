package postgres

import (
	"sync"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// setBack is how far the database's clock must fall behind the estimate to
// count as set back. What is less is the drift of two clocks.
const setBack = time.Second

// clock estimates the database's clock, which gives the stamps, from what the
// database last told. The estimate is never ahead of it but by drift: it leaves
// out the way of the answer. It never falls.
//
// When the database's clock is set back (or another server with a clock that
// is behind takes over), the estimate goes on at the pace of the monotonic
// clock, and so do the stamps; else windows would wait for as long.
type clock struct {
	fixed *store.Clock // in place of the database's, in tests; else nil

	mu     sync.Mutex
	at     time.Duration // what the database told, since the Unix epoch
	anchor time.Time     // when that was heard
	shown  time.Duration // the greatest that was given
}

func newClock() *clock { return &clock{anchor: time.Now()} }

// observe takes in what the database's clock showed a moment ago.
func (c *clock) observe(told time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.at+now.Sub(c.anchor)-told < setBack {
		c.at, c.anchor = told, now
	}
}

func (c *clock) observeStamp(t engine.Time) { c.observe(time.Duration(t) * time.Millisecond) }

// raise sets it to a stamp at least.
func (c *clock) raise(t engine.Time) {
	if c.fixed != nil {
		c.fixed.Raise(t)
		return
	}
	c.observeStamp(t)
}

func (c *clock) read() time.Time {
	if c.fixed != nil {
		return c.fixed.Time()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = max(c.shown, c.at+time.Since(c.anchor))
	return time.Unix(0, int64(c.shown))
}

// stamp is the estimate in Unix ms.
func (c *clock) stamp() int64 { return c.read().UnixMilli() }

// real reports whether the database's clock counts.
func (c *clock) real() bool { return c.fixed == nil }
