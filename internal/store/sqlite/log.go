package sqlite

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
	if err := s.enter("append"); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, store.Describe("append", err)
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

// Head implements store.Log.
func (s *Store) Head(ctx context.Context) (store.Head, error) {
	if err := s.look(ctx, "read head"); err != nil {
		return store.Head{}, err
	}
	position, stamp := s.tail.end()
	return store.Head{Position: position, Stamp: stamp, Epoch: s.epoch}, nil
}

// look refuses what is answered from memory when the store is closed or the
// context has ended.
func (s *Store) look(ctx context.Context, op string) error {
	if err := s.enter(op); err != nil {
		return err
	}
	return store.Describe(op, ctx.Err())
}

// Read implements store.Log.
func (s *Store) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	const op = "read log"
	if err := s.look(ctx, op); err != nil {
		return nil, err
	}
	if limit < 1 {
		return nil, fmt.Errorf("%s: limit is %d: want at least 1", op, limit)
	}
	if records, ok := s.tail.read(after, limit); ok {
		return records, nil
	}
	head, _ := s.tail.end()
	records, err := s.read(ctx, after, head, limit)
	return records, s.fail(ctx, op, err)
}

// Wait implements store.Log.
func (s *Store) Wait(ctx context.Context, after engine.Position) error {
	const op = "wait for the log"
	for {
		if err := s.look(ctx, op); err != nil {
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
	if err := s.look(ctx, op); err != nil {
		return nil, err
	}
	found := make(map[engine.Position]engine.Record, len(positions))
	older := s.tail.pick(positions, found)
	if err := s.pick(ctx, older, found); err != nil {
		return nil, s.fail(ctx, op, err)
	}
	return store.Arrange(positions, found), nil
}

// Steps implements store.Log.
func (s *Store) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	const op = "read steps"
	if err := s.look(ctx, op); err != nil {
		return nil, err
	}
	if records, ok := s.tail.steps(&q); ok {
		return records, nil
	}
	records, err := s.selectSteps(ctx, &q)
	return records, s.fail(ctx, op, err)
}
