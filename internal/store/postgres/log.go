package postgres

import (
	"context"
	"fmt"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// Append implements store.Log.
func (s *Store) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	start := time.Now()
	if err := s.enter(ctx, "append"); err != nil {
		return nil, err
	}
	c := newCall(ctx.Err, entries)
	if len(c.entries) == 0 {
		return c.receipts, nil
	}
	if !s.writer.queue.push(c) {
		return nil, store.Describe("append", store.ErrClosed)
	}
	select {
	case <-c.done:
		s.metrics.Appended(time.Since(start))
		return c.receipts, c.failure()
	case <-ctx.Done():
		return nil, store.Describe("append", ctx.Err())
	}
}

// Head implements store.Log. It asks the database, since another replica may
// have written: a cursor that one replica gave out is never ahead of another's
// head.
func (s *Store) Head(ctx context.Context) (store.Head, error) {
	const op = "read head"
	if err := s.enter(ctx, op); err != nil {
		return store.Head{}, err
	}
	position, stamp, err := s.follower.end(ctx)
	if err != nil {
		return store.Head{}, s.fail(ctx, op, err)
	}
	return store.Head{Position: position, Stamp: stamp, Epoch: s.epoch}, nil
}

// Read implements store.Log. It goes as far as this replica knows the log to
// go: whoever needs what another one has just written asks for the head first.
func (s *Store) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	const op = "read log"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("%s: limit is %d: want at least 1", op, limit)
	}
	if records, ok := s.tail.read(after, limit); ok {
		return records, nil
	}
	known, _ := s.tail.end()
	records, err := s.read(ctx, after, known, limit)
	return records, s.fail(ctx, op, err)
}

// Wait implements store.Log.
func (s *Store) Wait(ctx context.Context, after engine.Position) error {
	const op = "wait for the log"
	for {
		if err := s.enter(ctx, op); err != nil {
			return err
		}
		end, changed, closed := s.tail.watch()
		if closed {
			return store.Describe(op, store.ErrClosed)
		}
		if end > after {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return store.Describe(op, ctx.Err())
		}
	}
}

// Events implements store.Log.
func (s *Store) Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error) {
	const op = "read events"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	found := make(map[engine.Position]engine.Record, len(positions))
	if err := s.pick(ctx, s.tail.pick(positions, found), found); err != nil {
		return nil, s.fail(ctx, op, err)
	}
	return store.Arrange(positions, found), nil
}

// Steps implements store.Log.
func (s *Store) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	const op = "read steps"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	if records, ok := s.tail.steps(&q); ok {
		return records, nil
	}
	records, err := s.selectSteps(ctx, &q)
	return records, s.fail(ctx, op, err)
}
