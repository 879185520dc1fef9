package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
	"attend/internal/store"
)

// Own implements store.Owner: it refuses. The store is shared, and each of its
// replicas owns the shards that Claim gives it.
func (s *Store) Own(ctx context.Context) (store.Fence, error) {
	const op = "own the store"
	if err := s.enter(ctx, op); err != nil {
		return store.Fence{}, err
	}
	return store.Fence{}, fmt.Errorf("%s: a store in Postgres has many owners, who share it by leases: take them with Claim: %w", op, errors.ErrUnsupported)
}

// shard is a shard as it stands while the head is held.
type shard struct {
	number int
	owner  string // "" for a free one
	token  int64
	alive  bool // the owner is
}

// Claim implements store.Leases.
func (s *Store) Claim(ctx context.Context, replica string, ttl time.Duration) (c store.Claimed, err error) {
	const op = "claim shards"
	if err := s.enter(ctx, op); err != nil {
		return c, err
	}
	switch {
	case replica == "" || len(replica) > maxKey:
		return c, fmt.Errorf("%s: %w: the replica's name has %d bytes: want 1 to %d", op, store.ErrInvalid, len(replica), maxKey)
	case ttl < time.Millisecond:
		return c, fmt.Errorf("%s: %w: the ttl is %s: want at least 1ms", op, store.ErrInvalid, ttl)
	}
	want := s.expect()
	err = s.holdingHead(ctx, func(tx pgx.Tx, end engine.Position, now int64, epoch string) error {
		if err := s.check(want, end, epoch); err != nil {
			return err
		}
		shards, replicas, err := s.beat(ctx, tx, replica, now, now+ttl.Milliseconds())
		if err != nil {
			return err
		}
		c = store.Claimed{Head: end, Replicas: replicas}
		give, take := share(shards, replica, replicas)
		if err := s.hand(ctx, tx, nil, give); err != nil {
			return err
		}
		if err := s.hand(ctx, tx, []byte(replica), take); err != nil {
			return err
		}
		c.Fences = holds(shards, replica, give, take)
		return nil
	})
	if err != nil {
		return store.Claimed{}, s.fail(ctx, op, err)
	}
	if s.tail.learn(c.Head) {
		s.follower.kick()
	}
	return c, nil
}

// Release implements store.Leases. It does so too where the log was replaced:
// a replica that ends for that is not waited for.
func (s *Store) Release(ctx context.Context, replica string) error {
	const op = "release shards"
	if err := s.enter(ctx, op); err != nil && !errors.Is(err, store.ErrReplaced) {
		return err
	}
	err := s.holdingHead(ctx, func(tx pgx.Tx, _ engine.Position, _ int64, _ string) error {
		out := new(pgx.Batch)
		out.Queue(s.names.sql("DELETE FROM @replicas WHERE name = $1"), []byte(replica))
		out.Queue(s.names.sql("UPDATE @shards SET owner = NULL WHERE owner = $1"), []byte(replica))
		return tx.SendBatch(ctx, out).Close()
	})
	return s.fail(ctx, op, err)
}

// holdingHead runs f in a transaction that holds the head: no append is
// half-way meanwhile. It is given the end of the log and the time by the log's
// clock, in Unix ms, and the log's epoch.
func (s *Store) holdingHead(ctx context.Context, f func(tx pgx.Tx, end engine.Position, now int64, epoch string) error) error {
	return pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		out := new(pgx.Batch)
		var end, now int64
		var epoch string
		out.Queue(s.names.sql(takeHead))
		out.Queue(s.names.sql(selectEnd), s.clock.stamp(), s.clock.real()).QueryRow(func(row pgx.Row) error { return row.Scan(&end, &now, &epoch) })
		if err := tx.SendBatch(ctx, out).Close(); err != nil {
			return fmt.Errorf("take the head: %w", err)
		}
		return f(tx, engine.Position(end), now, epoch)
	})
}

// beat notes that the replica is alive and that no other outlasts it, forgets
// those that are not alive, and reads how the shards stand, by number.
func (s *Store) beat(ctx context.Context, tx pgx.Tx, replica string, now, until int64) (shards []shard, replicas int, err error) {
	out := new(pgx.Batch)
	out.Queue(s.names.sql("DELETE FROM @replicas WHERE until <= $1 AND name <> $2"), now, []byte(replica))
	out.Queue(s.names.sql("UPDATE @replicas SET until = $1 WHERE until > $1"), until) // taken before the clock was set back
	out.Queue(s.names.sql("INSERT INTO @replicas (name, until) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET until = excluded.until"), []byte(replica), until)
	out.Queue(s.names.sql("SELECT count(*) FROM @replicas")).QueryRow(func(row pgx.Row) error { return row.Scan(&replicas) })
	var one shard
	var owner text
	each(out, s.names.sql("SELECT s.shard, s.owner, s.token, r.name IS NOT NULL FROM @shards s LEFT JOIN @replicas r ON r.name = s.owner ORDER BY s.shard"),
		nil, []any{&one.number, &owner, &one.token, &one.alive}, func() {
			one.owner = string(owner)
			shards = append(shards, one)
		})
	if err := tx.SendBatch(ctx, out).Close(); err != nil {
		return nil, 0, fmt.Errorf("read the leases: %w", err)
	}
	return shards, replicas, nil
}

// share decides what a replica gives back and what it takes, so that it holds
// its share: all by the number of replicas that are alive, rounded up.
func share(shards []shard, replica string, replicas int) (give, take []int) {
	fair := (len(shards) + replicas - 1) / replicas
	var mine, free []int
	for _, s := range shards {
		switch {
		case s.owner == replica:
			mine = append(mine, s.number)
		case !s.alive:
			free = append(free, s.number)
		}
	}
	if len(mine) > fair {
		return mine[fair:], nil
	}
	return nil, free[:min(len(free), fair-len(mine))]
}

// hand gives shards to an owner, nil for nobody. What is free waits for its
// next owner with the token that it has.
func (s *Store) hand(ctx context.Context, tx pgx.Tx, owner []byte, shards []int) error {
	if len(shards) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, s.names.sql("UPDATE @shards SET owner = $1::bytea, token = token + CASE WHEN $1::bytea IS NULL THEN 0 ELSE 1 END WHERE shard = ANY($2::smallint[])"), owner, shards)
	if err != nil {
		return fmt.Errorf("hand shards over: %w", err)
	}
	return nil
}

// holds lists the fences of what the replica holds afterwards.
func holds(shards []shard, replica string, give, take []int) []store.Fence {
	gone, new := set(give), set(take)
	var out []store.Fence
	for _, s := range shards {
		switch {
		case new[s.number]:
			out = append(out, store.Fence{Shard: s.number, Token: s.token + 1})
		case s.owner == replica && !gone[s.number]:
			out = append(out, store.Fence{Shard: s.number, Token: s.token})
		}
	}
	return out
}

func set(numbers []int) map[int]bool {
	out := make(map[int]bool, len(numbers))
	for _, n := range numbers {
		out[n] = true
	}
	return out
}
