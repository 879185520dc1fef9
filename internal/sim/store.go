package sim

import (
	"context"
	"fmt"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// Names of the operations that have a gate.
const (
	opAppend     = "Append"
	opHead       = "Head"
	opRead       = "Read"
	opWait       = "Wait"
	opEvents     = "Events"
	opSteps      = "Steps"
	opSaveStates = "SaveStates"
	opLoadState  = "LoadState"
	opLiveStates = "LiveStates"
	opScopeNames = "ScopeNames"
	opCheckpoint = "Checkpoint"
	opOwn        = "Own"
	opClaim      = "Claim"
	opRelease    = "Release"
	opJudge      = "judge"
	opCarry      = "Carry" // a read of the one step that carries what is delivered
	opDeliver    = "deliver"
)

// gated is the store as one life of a daemon sees it: each call waits at a
// gate, and may fail.
type gated struct {
	store.Store
	life *life
}

// through makes a call of one result as its fate has it.
func through[T any](s *gated, g *gate, work func() (T, error)) (T, error) {
	var none T
	g.life = s.life
	switch f := s.life.world.park(g); f {
	case goes:
		return work()
	case failsAfter, diesAfter:
		if _, err := work(); err != nil {
			return none, err
		}
		if f == diesAfter {
			return none, store.Describe(g.op, store.ErrClosed)
		}
		return none, fmt.Errorf("%s: %w: its answer was lost", g.op, store.ErrUnavailable)
	case failsBefore:
		return none, fmt.Errorf("%s: %w: it was not done", g.op, store.ErrUnavailable)
	case dies:
		return none, store.Describe(g.op, store.ErrClosed)
	case ended:
	}
	return none, store.Describe(g.op, context.Canceled)
}

// Append implements store.Log, and notes who wrote.
func (s *gated) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	return through(s, &gate{op: opAppend}, func() ([]store.Receipt, error) {
		receipts, err := s.Store.Append(ctx, entries...)
		if err == nil {
			s.life.world.log.wrote(entries, receipts)
		}
		return receipts, err
	})
}

// Head implements store.Log.
func (s *gated) Head(ctx context.Context) (store.Head, error) {
	return through(s, &gate{op: opHead}, func() (store.Head, error) { return s.Store.Head(ctx) })
}

// Read implements store.Log.
func (s *gated) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	if limit == 1 {
		return through(s, &gate{op: opCarry, key: fmt.Sprint(after), done: ctx.Done()}, func() ([]engine.Record, error) { return s.Store.Read(ctx, after, limit) })
	}
	return through(s, &gate{op: opRead}, func() ([]engine.Record, error) { return s.Store.Read(ctx, after, limit) })
}

// Wait implements store.Log.
func (s *gated) Wait(ctx context.Context, after engine.Position) error {
	_, err := through(s, &gate{op: opWait, after: after, done: ctx.Done()}, func() (struct{}, error) { return struct{}{}, nil })
	return err
}

// Events implements store.Log.
func (s *gated) Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error) {
	return through(s, &gate{op: opEvents, key: fmt.Sprint(positions)}, func() ([]engine.Record, error) { return s.Store.Events(ctx, positions) })
}

// Steps implements store.Log.
func (s *gated) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	return through(s, &gate{op: opSteps}, func() ([]engine.Record, error) { return s.Store.Steps(ctx, q) })
}

// SaveStates implements store.States, and has what was written checked.
func (s *gated) SaveStates(ctx context.Context, fence store.Fence, rows []store.StateRow, checkpoint engine.Position) error {
	_, err := through(s, &gate{op: opSaveStates, safe: len(rows) == 0}, func() (struct{}, error) {
		err := s.Store.SaveStates(ctx, fence, rows, checkpoint)
		if err == nil {
			s.life.world.log.saved(fence, rows, checkpoint)
		}
		return struct{}{}, err
	})
	return err
}

// LoadState implements store.States.
func (s *gated) LoadState(ctx context.Context, scope string) (store.StateRow, error) {
	return through(s, &gate{op: opLoadState}, func() (store.StateRow, error) { return s.Store.LoadState(ctx, scope) })
}

// LiveStates implements store.States.
func (s *gated) LiveStates(ctx context.Context, after string, limit int) ([]store.StateRow, error) {
	return through(s, &gate{op: opLiveStates}, func() ([]store.StateRow, error) { return s.Store.LiveStates(ctx, after, limit) })
}

// ScopeNames implements store.States.
func (s *gated) ScopeNames(ctx context.Context, after string, limit int) ([]string, error) {
	return through(s, &gate{op: opScopeNames}, func() ([]string, error) { return s.Store.ScopeNames(ctx, after, limit) })
}

// Checkpoint implements store.States. Of replicas' shards, which are read one
// after the other, one stands for all.
func (s *gated) Checkpoint(ctx context.Context, fence store.Fence) (engine.Position, error) {
	if fence.Shard > 0 {
		return s.Store.Checkpoint(ctx, fence)
	}
	return through(s, &gate{op: opCheckpoint}, func() (engine.Position, error) { return s.Store.Checkpoint(ctx, fence) })
}

// Own implements store.Owner, and notes who owns the store from now on.
func (s *gated) Own(ctx context.Context) (store.Fence, error) {
	return through(s, &gate{op: opOwn}, func() (store.Fence, error) {
		fence, err := s.Store.Own(ctx)
		if err == nil {
			s.life.world.log.owned(s.life.number, fence)
		}
		return fence, err
	})
}

// Claim implements store.Leases, and notes who owns what from now on.
func (s *gated) Claim(ctx context.Context, replica string, ttl time.Duration) (store.Claimed, error) {
	return through(s, &gate{op: opClaim, done: ctx.Done()}, func() (store.Claimed, error) {
		c, err := s.life.world.store.Claim(ctx, replica, ttl)
		if err == nil {
			s.life.world.log.owned(s.life.number, c.Fences...)
		}
		return c, err
	})
}

// Release implements store.Leases.
func (s *gated) Release(ctx context.Context, replica string) error {
	_, err := through(s, &gate{op: opRelease}, func() (struct{}, error) {
		return struct{}{}, s.life.world.store.Release(ctx, replica)
	})
	return err
}

// Now implements store.Store. Timers that the runner starts after it have an
// instant of their own.
func (s *gated) Now() time.Time {
	w := s.life.world
	w.mu.Lock()
	quick := w.asking || s.life.dead
	w.mu.Unlock()
	if !quick {
		time.Sleep(time.Until(w.instant(time.Now())))
	}
	return s.Store.Now()
}
