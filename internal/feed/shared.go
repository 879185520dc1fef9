package feed

import (
	"context"
	"errors"
	"slices"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// # Consumers of replicas
//
// Two calls of one consumer may be answered by two replicas, and the one may
// write its row over the other's. What must hold is that nothing is lost: a
// position that stands in a row is never ahead of what was acknowledged.
//
// It holds because every answer begins at a position that was acknowledged, and
// its ack names the place where it ends: whoever sends that ack back has been
// shown, or has acknowledged before, all that lies before it. So any ack that
// was given out moves the consumer, whatever row stands there by now. A row that
// is written late, by a replica that hung, can only bring the consumer back: it
// is shown again what it has acknowledged, and never less.

// awaitFor waits for something to hand out. Where replicas share the consumers
// it looks at the row again before it does: what another replica has handed out
// meanwhile, and nobody has acknowledged, is given again; what was acknowledged
// there is passed over, and the wait goes on.
func (c *Consumers) awaitFor(ctx context.Context, row *consumerRow, want *Want, epoch string) (again Answer, upTo engine.Position, timedOut bool, err error) {
	left := *want
	for end := time.Now().Add(want.Timeout); ; left.Timeout = time.Until(end) {
		upTo, timedOut, err = c.await(ctx, c.hint(row, want), &left)
		if err != nil {
			return Answer{}, upTo, false, err
		}
		c.remember(row.Name, want, upTo)
		if timedOut || !c.opts.Shared {
			return Answer{}, upTo, timedOut, nil
		}
		changed, err := c.refresh(ctx, row)
		if err != nil || !changed {
			return Answer{}, upTo, false, err
		}
		if again, err = c.redeliver(ctx, row, want, epoch); err != nil || len(again.Items) > 0 {
			return again, upTo, false, err
		}
	}
}

// refresh reads the row again, and reports whether another replica has handed
// out or acknowledged something. A consumer that was deleted meanwhile is left
// as it was: it comes back.
func (c *Consumers) refresh(ctx context.Context, row *consumerRow) (changed bool, err error) {
	b, err := c.store.Row(ctx, store.SpaceConsumer, row.Name)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, store.Describe("read the consumer", err)
	}
	fresh, err := decodeRow(b)
	if err != nil || fresh.Dropped != 0 || fresh.Position == row.Position && fresh.Pending == nil {
		return false, err
	}
	*row = fresh
	return true, nil
}

// moveTo moves the consumer to the end of an answer that it has acknowledged.
// What was handed out behind it is still to be acknowledged.
func (row *consumerRow) moveTo(p engine.Position) {
	row.Position, row.Truncated = p, false
	if row.Pending == nil {
		return
	}
	row.Pending.Items = slices.DeleteFunc(row.Pending.Items, func(item engine.Position) bool { return item <= p })
	if len(row.Pending.Items) == 0 {
		row.Pending = nil
	}
}
