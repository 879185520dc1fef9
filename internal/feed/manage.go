package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"attend/internal/engine"
	"attend/internal/store"
)

func (c *Consumers) rows(ctx context.Context) ([]consumerRow, error) {
	puts, err := c.store.Rows(ctx, store.SpaceConsumer)
	if err != nil {
		return nil, store.Describe("read the consumers", err)
	}
	rows := make([]consumerRow, len(puts))
	for i := range puts {
		if rows[i], err = decodeRow(puts[i].Value); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// List returns the consumers by name.
func (c *Consumers) List(ctx context.Context) ([]Consumer, error) {
	head, err := c.reader.Head(ctx)
	if err != nil {
		return nil, err
	}
	rows, err := c.rows(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Consumer, 0, len(rows))
	for i := range rows {
		if rows[i].Dropped == 0 {
			list = append(list, rows[i].view(head.Position))
		}
	}
	slices.SortFunc(list, func(a, b Consumer) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// Delete forgets a consumer and ends its waiting call with an empty answer.
// ErrNoConsumer if there is none. Under the same name it starts anew.
func (c *Consumers) Delete(ctx context.Context, name string) error {
	ctx, leave, err := c.enter(ctx, name)
	defer leave()
	if err != nil {
		return err
	}
	b, err := c.store.Row(ctx, store.SpaceConsumer, name)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("%w: %q", ErrNoConsumer, name)
	}
	if err != nil {
		return store.Describe("read the consumer", err)
	}
	if row, err := decodeRow(b); err != nil {
		return err
	} else if row.Dropped != 0 {
		return fmt.Errorf("%w: %q was dropped, for nothing had been heard of it", ErrNoConsumer, name)
	}
	c.forget(name)
	return c.append(ctx, store.Entry{Puts: []store.Put{{Space: store.SpaceConsumer, Key: name}}})
}

// Expire drops the consumers that have not been heard for the time they are
// kept, and returns their names. Call it now and then; hourly will do.
func (c *Consumers) Expire(ctx context.Context) ([]string, error) {
	rows, err := c.rows(ctx)
	if err != nil {
		return nil, err
	}
	var dropped []string
	for i := range rows {
		gone, err := c.expire(ctx, rows[i].Name)
		if err != nil {
			return dropped, err
		}
		if gone {
			dropped = append(dropped, rows[i].Name)
		}
	}
	return dropped, nil
}

// expire drops one consumer if it is time and nobody waits for it.
func (c *Consumers) expire(ctx context.Context, name string) (bool, error) {
	leave, ok := c.enterIdle(name)
	if !ok {
		return false, nil
	}
	defer leave()
	b, err := c.store.Row(ctx, store.SpaceConsumer, name)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, store.Describe("read the consumer", err)
	}
	row, err := decodeRow(b)
	if err != nil {
		return false, err
	}
	now := engine.Time(c.store.Now().UnixMilli())
	if row.Dropped != 0 {
		if now < row.Dropped+engine.Time(rememberDropped.Milliseconds()) {
			return false, nil
		}
		return false, c.append(ctx, store.Entry{Puts: []store.Put{{Space: store.SpaceConsumer, Key: name}}})
	}
	if now < row.LastHeard+engine.Time(c.opts.Keep.Milliseconds()) {
		return false, nil
	}
	c.forget(name)
	left := consumerRow{Name: row.Name, Owner: row.Owner, Created: row.Created, LastHeard: row.LastHeard, Dropped: now}
	return true, c.save(ctx, &left)
}
