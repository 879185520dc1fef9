package memory

import (
	"context"
	"fmt"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

var _ store.Leases = (*Store)(nil)

// leases are the shards as replicas hold them. Several runners of one process
// share a store by them.
type leases struct {
	shards [engine.Shards]lease
	alive  map[string]time.Time // until when a replica counts as alive
}

type lease struct {
	token      int64  // of the newest owner; 0 until there was one
	owner      string // "" when it was given back
	until      time.Time
	checkpoint engine.Position
}

// inForce is the fence that a shard's writer must have; the zero Fence is
// nobody's.
func (s *Store) inForce(shard int) store.Fence {
	switch {
	case shard < 0:
		return s.fence
	case shard >= engine.Shards || s.leases.shards[shard].token == 0:
		return store.Fence{}
	}
	return store.Fence{Shard: shard, Token: s.leases.shards[shard].token}
}

// checkpointOf is where a shard's checkpoint is kept.
func (s *Store) checkpointOf(shard int) *engine.Position {
	if shard < 0 || shard >= engine.Shards {
		return &s.checkpoint
	}
	return &s.leases.shards[shard].checkpoint
}

// Claim implements store.Leases. It ends the right of one owner for all.
func (s *Store) Claim(ctx context.Context, replica string, ttl time.Duration) (store.Claimed, error) {
	if replica == "" || ttl <= 0 {
		return store.Claimed{}, store.Describe("claim shards", fmt.Errorf("%w: a replica has a name, and its leases last: %q, %s", store.ErrInvalid, replica, ttl))
	}
	if err := s.lock(ctx, "claim shards"); err != nil {
		return store.Claimed{}, err
	}
	defer s.mu.Unlock()
	now := s.clock.Time()
	s.leases.note(replica, now, now.Add(ttl))
	if s.fence.Token > 0 {
		s.fence.Token++ // nobody has this one
	}
	alive := len(s.leases.alive)
	share := (engine.Shards + alive - 1) / alive
	c := store.Claimed{Head: s.log.head(), Replicas: alive}
	held := s.leases.keep(replica, share, now.Add(ttl))
	for i := range s.leases.shards {
		l := &s.leases.shards[i]
		if held < share && l.owner != replica && (l.owner == "" || !l.until.After(now)) {
			*l = lease{token: l.token + 1, owner: replica, until: now.Add(ttl), checkpoint: l.checkpoint}
			held++
		}
		if l.owner == replica {
			c.Fences = append(c.Fences, store.Fence{Shard: i, Token: l.token})
		}
	}
	return c, nil
}

// note writes down who is alive, and that no lease outlasts this claim's.
func (l *leases) note(replica string, now, until time.Time) {
	if l.alive == nil {
		l.alive = make(map[string]time.Time)
	}
	l.alive[replica] = until
	for name, others := range l.alive { //arch:sorted the order changes nothing
		switch {
		case !others.After(now):
			delete(l.alive, name)
		case others.After(until):
			l.alive[name] = until
		}
	}
	for i := range l.shards {
		if s := &l.shards[i]; s.until.After(until) {
			s.until = until
		}
	}
}

// keep renews a replica's leases up to its share, and gives the others back.
// It returns how many it keeps.
func (l *leases) keep(replica string, share int, until time.Time) (held int) {
	for i := range l.shards {
		switch s := &l.shards[i]; {
		case s.owner != replica:
		case held == share:
			s.owner = ""
		default:
			s.until = until
			held++
		}
	}
	return held
}

// Release implements store.Leases.
func (s *Store) Release(ctx context.Context, replica string) error {
	if err := s.lock(ctx, "release shards"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	delete(s.leases.alive, replica)
	s.leases.keep(replica, 0, time.Time{})
	return nil
}

// end gives every shard's right to nobody, for one owner of all to take. It is
// refused while a replica is alive.
func (l *leases) end(now time.Time) error {
	for _, until := range l.alive { //arch:sorted any one counts
		if until.After(now) {
			return fmt.Errorf("%w: replicas hold its shards by leases", store.ErrLocked)
		}
	}
	for i := range l.shards {
		if s := &l.shards[i]; s.token > 0 {
			s.token, s.owner = s.token+1, ""
		}
	}
	return nil
}
