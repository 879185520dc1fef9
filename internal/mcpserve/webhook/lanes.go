package webhook

import (
	"context"
	"sync"
)

// How much goes out at once. A subscription whose last try failed uses a lane
// of its own kind, so that those which hang are in nobody's way but each
// other's; what a host gets at once is bounded too, however many subscriptions
// lead to it.
const (
	maxAtOnce  = 8 // of one subscription
	laneSound  = 256
	laneFailed = 64
	laneHost   = 32
)

// lanes are what the tries of all subscriptions share.
type lanes struct {
	sound, failed chan struct{}

	mu    sync.Mutex
	hosts map[string]*hostLane
}

type hostLane struct {
	places chan struct{}
	users  int // that have a place or wait for one
}

func newLanes() *lanes {
	return &lanes{
		sound: make(chan struct{}, laneSound), failed: make(chan struct{}, laneFailed),
		hosts: make(map[string]*hostLane),
	}
}

// enter waits for a place; leave gives it back, unless the error is the
// context's. Whoever waits for its host's place takes none of the others'.
func (l *lanes) enter(ctx context.Context, host string, failing bool) (leave func(), err error) {
	lane := l.join(host)
	all := l.sound
	if failing {
		all = l.failed
	}
	select {
	case lane.places <- struct{}{}:
	case <-ctx.Done():
		l.part(host, lane)
		return nil, context.Cause(ctx)
	}
	select {
	case all <- struct{}{}:
	case <-ctx.Done():
		<-lane.places
		l.part(host, lane)
		return nil, context.Cause(ctx)
	}
	return func() {
		<-all
		<-lane.places
		l.part(host, lane)
	}, nil
}

func (l *lanes) join(host string) *hostLane {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := l.hosts[host]
	if lane == nil {
		lane = &hostLane{places: make(chan struct{}, laneHost)}
		l.hosts[host] = lane
	}
	lane.users++
	return lane
}

func (l *lanes) part(host string, lane *hostLane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lane.users--; lane.users == 0 {
		delete(l.hosts, host)
	}
}
