package memory

import (
	"context"
	"fmt"
	"slices"

	"attend/internal/engine"
	"attend/internal/store"
)

var (
	_ store.Compactor   = (*Store)(nil)
	_ store.Snapshotter = (*Store)(nil)
)

// checkFence refuses a right that is not the one in force.
func (s *Store) checkFence(fence store.Fence) error {
	if now := s.inForce(fence.Shard); fence != now || fence == (store.Fence{}) {
		return fmt.Errorf("%w: token %d of shard %d, in force is %d", store.ErrFenced, fence.Token, fence.Shard, now.Token)
	}
	return nil
}

// lowest is the lowest checkpoint: the one for all, or that of a shard.
func (s *Store) lowest(shard int) engine.Position {
	if shard < 0 {
		return s.checkpoint
	}
	low := s.leases.shards[0].checkpoint
	for i := range s.leases.shards {
		low = min(low, s.leases.shards[i].checkpoint)
	}
	return low
}

// Kept implements store.Compactor.
func (s *Store) Kept(ctx context.Context) (store.Kept, error) {
	if err := s.lock(ctx, "read the marks"); err != nil {
		return store.Kept{}, err
	}
	defer s.mu.Unlock()
	return s.log.kept(), nil
}

// Compact implements store.Compactor.
func (s *Store) Compact(ctx context.Context, fence store.Fence, c store.Compaction) (store.Compacted, error) {
	const op = "compact the log"
	if err := s.lock(ctx, op); err != nil {
		return store.Compacted{}, err
	}
	defer s.mu.Unlock()
	if err := s.checkFence(fence); err != nil {
		return store.Compacted{}, store.Describe(op, err)
	}
	if err := c.Check(min(s.lowest(fence.Shard), s.log.head())); err != nil {
		return store.Compacted{}, store.Describe(op, err)
	}
	return s.log.compact(&c), nil
}

// Aside implements store.Compactor.
func (s *Store) Aside(ctx context.Context, after engine.Position, limit int) ([]engine.Position, error) {
	if err := s.lock(ctx, "list the side table"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []engine.Position
	for _, r := range s.log.aside[search(s.log.aside, after):] {
		if len(out) >= limit {
			break
		}
		out = append(out, r.Position)
	}
	return out, nil
}

// DropStates implements store.Compactor.
func (s *Store) DropStates(ctx context.Context, fence store.Fence, rows []store.StateAt) (int, error) {
	const op = "drop states"
	if err := s.lock(ctx, op); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	if err := s.checkFence(fence); err != nil {
		return 0, store.Describe(op, err)
	}
	dropped := 0
	for _, at := range rows {
		if fence.Shard >= 0 && engine.Shard(at.Scope) != fence.Shard {
			return dropped, store.Describe(op, fmt.Errorf("%w: scope %q is of shard %d, the fence of %d", store.ErrFenced, at.Scope, engine.Shard(at.Scope), fence.Shard))
		}
		if s.states.drop(at) {
			dropped++
		}
	}
	return dropped, nil
}

// drop deletes a row that has not changed.
func (s *states) drop(at store.StateAt) bool {
	st := s.rows[at.Scope]
	if st == nil || st.row.Position != at.Position {
		return false
	}
	delete(s.rows, at.Scope)
	_ = s.after("") // in order from here on
	if i, found := slices.BinarySearch(s.names, at.Scope); found {
		s.names = slices.Delete(s.names, i, i+1)
	}
	return true
}
