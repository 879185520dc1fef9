package store

import (
	"sync"
	"time"

	"attend/internal/engine"
)

// Clock gives a store's stamps: the wall clock, except that it never falls and
// never stands still. When the wall clock is set back, or stands before what
// the log already holds, the clock goes on at the pace of the monotonic clock;
// else windows would wait for as long as the clock was set back. When the wall
// clock is ahead (after a suspend too), the clock follows it.
type Clock struct {
	now func() time.Time

	mu     sync.Mutex
	anchor time.Time     // a reading of now
	at     time.Duration // what the clock showed then, since the Unix epoch
}

// NewClock returns a clock that starts at or after floor. A nil now is
// time.Now.
func NewClock(now func() time.Time, floor engine.Time) *Clock {
	if now == nil {
		now = time.Now
	}
	t := now()
	return &Clock{now: now, anchor: t, at: max(time.Duration(t.UnixNano()), time.Duration(floor)*time.Millisecond)}
}

// Raise sets the clock forward to a floor, if it stands before it.
func (c *Clock) Raise(floor engine.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = max(c.at, time.Duration(floor)*time.Millisecond)
}

// Time returns the clock's time.
func (c *Clock) Time() time.Time { return time.Unix(0, int64(c.read())) }

// Stamp returns the clock's time in Unix milliseconds.
func (c *Clock) Stamp() engine.Time { return engine.Time(c.read().Milliseconds()) }

func (c *Clock) read() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.now()
	shown := c.at + max(t.Sub(c.anchor), 0) // by the monotonic clock where there is one
	c.at, c.anchor = max(shown, time.Duration(t.UnixNano())), t
	return c.at
}
