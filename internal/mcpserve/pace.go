package mcpserve

import (
	"sync"
	"time"
)

// How often clients that have caught up are asked to poll: as often as is of
// use while there are few of them, and so seldom that all of them together make
// no more than pollsASecond when there are many.
const (
	pollEvery    = 2 * time.Second
	pollSeldom   = time.Minute
	pollsASecond = 200
)

// pace suggests when to poll again. It counts the polls of one interval, which
// is about the number of clients that poll, and sets the next interval by it.
type pace struct {
	now func() time.Time

	mu    sync.Mutex
	every time.Duration
	since time.Time // when this interval began
	polls int       // in it
}

func newPace(now func() time.Time) *pace { return &pace{now: now, every: pollEvery, since: now()} }

// next counts a poll and returns the time until the same client's next.
func (p *pace) next() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.polls++
	if now := p.now(); now.Sub(p.since) >= p.every {
		clients := float64(p.polls) * p.every.Seconds() / now.Sub(p.since).Seconds() // it may be long over
		wanted := time.Duration(clients / pollsASecond * float64(time.Second))
		p.every = min(max(wanted, pollEvery), pollSeldom)
		p.since, p.polls = now, 0
	}
	return p.every
}
