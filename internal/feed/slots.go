package feed

import (
	"context"
	"encoding/json"

	"attend/internal/engine"
)

// slot lets one call of a consumer run at a time, the newest.
type slot struct {
	turn   chan struct{}            // holds a token while a call runs
	cancel *context.CancelCauseFunc // of the newest call
	calls  int                      // that run or wait for their turn
}

// enter takes the consumer's turn and ends the older call that has it. The
// context returned ends with errSuperseded when a newer call enters, and with
// errClosing on Close. leave must always be called. A call without a name
// has no turn to take.
func (c *Consumers) enter(parent context.Context, name string) (ctx context.Context, leave func(), err error) {
	ctx, cancel := context.WithCancelCause(parent)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		cancel(errClosing)
		return ctx, func() {}, errClosing
	}
	if name == "" {
		c.unnamed[&cancel] = struct{}{}
		c.mu.Unlock()
		return ctx, func() { c.leaveUnnamed(&cancel) }, nil
	}
	s := c.slots[name]
	if s == nil {
		s = &slot{turn: make(chan struct{}, 1)}
		c.slots[name] = s
	}
	if s.cancel != nil {
		(*s.cancel)(errSuperseded)
	}
	s.cancel = &cancel
	s.calls++
	c.mu.Unlock()

	running := false
	leave = func() {
		cancel(nil)
		if running {
			<-s.turn
		}
		c.leaveSlot(name, s, &cancel)
	}
	select {
	case s.turn <- struct{}{}:
		running = true
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return ctx, leave, context.Cause(ctx)
	}
	return ctx, leave, nil
}

// enterIdle takes the turn of a consumer that nobody calls at the moment.
func (c *Consumers) enterIdle(name string) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.slots[name] != nil {
		return nil, false
	}
	s := &slot{turn: make(chan struct{}, 1), calls: 1}
	s.turn <- struct{}{}
	c.slots[name] = s
	return func() {
		<-s.turn
		c.leaveSlot(name, s, nil)
	}, true
}

func (c *Consumers) leaveUnnamed(cancel *context.CancelCauseFunc) {
	(*cancel)(nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.unnamed, cancel)
}

func (c *Consumers) leaveSlot(name string, s *slot, cancel *context.CancelCauseFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.calls--
	if s.cancel == cancel {
		s.cancel = nil
	}
	if s.calls == 0 {
		delete(c.slots, name)
	}
}

// Close ends every wait with an empty answer; later calls get one at once.
func (c *Consumers) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, s := range c.slots {
		if s.cancel != nil {
			(*s.cancel)(errClosing)
		}
	}
	for cancel := range c.unnamed {
		(*cancel)(errClosing)
	}
}

// hint is where the consumer's next wait may start to look.
func (c *Consumers) hint(row *consumerRow, want *Want) engine.Position {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.checked[row.Name]; h.filter == want.key() {
		return max(h.upTo, row.Position)
	}
	return row.Position
}

func (c *Consumers) remember(name string, want *Want, upTo engine.Position) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checked[name] = checked{filter: want.key(), upTo: upTo}
}

func (c *Consumers) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.checked, name)
}

// key tells apart wants that are answered differently.
func (w *Want) key() string {
	f := w.Filter
	f.Visible = nil // the same for all calls of a consumer, who has one owner
	b, err := json.Marshal(f)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
