package webhook

import (
	"context"
	"sync"
	"time"
)

// lane is what a request belongs to, so that those which hang are in nobody's
// way but each other's.
type lane int

const (
	laneSound   lane = iota
	laneFailed       // its last try has failed, or was slow
	laneConsent      // whether it agrees is being asked
)

// How much goes out at once. Of each a principal has a part, and no more: what
// its receivers do is its own trouble.
const (
	maxAtOnce = 8 // of one subscription

	allSound, partSound     = 512, 128
	allFailed, partFailed   = 64, 16
	allConsent, partConsent = 32, 4
	allHost, partHost       = 32, 16 // to one host, of the deliveries
)

// slowAnswer is how long a receiver may take until it counts as slow.
const slowAnswer = time.Second

// place names what is bounded: a lane or a host, the whole of it or a
// principal's part.
type place struct {
	lane      lane   // of a host laneSound, for both
	host      string // "" for the lane itself
	whole     bool   // not a principal's part
	principal string
}

type bound struct {
	place
	most int
}

// bounds are what a request needs a place of, in the order in which it waits. A
// principal's own come first, so that one which waits for them holds nothing
// that others wait for.
func bounds(of lane, principal, host string) []bound {
	all, part := allSound, partSound
	switch of {
	case laneSound:
	case laneFailed:
		all, part = allFailed, partFailed
	case laneConsent: // no host is asked by a principal more often than this
		return []bound{
			{place{lane: of, principal: principal}, partConsent},
			{place{lane: of, whole: true}, allConsent},
		}
	}
	return []bound{
		{place{host: host, principal: principal}, partHost},
		{place{lane: of, principal: principal}, part},
		{place{host: host, whole: true}, allHost},
		{place{lane: of, whole: true}, all},
	}
}

// lanes are what the requests of all subscriptions share.
type lanes struct {
	mu    sync.Mutex
	gates map[place]*gate
}

type gate struct {
	places chan struct{}
	users  int // that have a place or wait for one
}

func newLanes() *lanes { return &lanes{gates: make(map[place]*gate)} }

// enter waits for its places; leave gives them back, unless the error is the
// context's.
func (l *lanes) enter(ctx context.Context, of lane, principal, host string) (leave func(), err error) {
	var held []func()
	leave = func() {
		for _, give := range held {
			give()
		}
	}
	for _, b := range bounds(of, principal, host) {
		g := l.join(b)
		select {
		case g.places <- struct{}{}:
			held = append(held, func() {
				<-g.places
				l.part(b.place, g)
			})
		case <-ctx.Done():
			l.part(b.place, g)
			leave()
			return nil, context.Cause(ctx)
		}
	}
	return leave, nil
}

func (l *lanes) join(b bound) *gate {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.gates[b.place]
	if g == nil {
		g = &gate{places: make(chan struct{}, b.most)}
		l.gates[b.place] = g
	}
	g.users++
	return g
}

func (l *lanes) part(at place, g *gate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.users--; g.users == 0 {
		delete(l.gates, at)
	}
}
