package fields

import (
	"context"
	"encoding/json"
	"fmt"

	"attend/internal/field"
)

// read answers an operation that changes nothing. What takes long it does beside
// the Field, which writes meanwhile, and few such at once: a small read is never
// kept waiting by large ones.
func (h *held) read(ctx context.Context, op field.Op, params json.RawMessage) (any, error) {
	q, err := field.ParseQuery(op, params, h.s.opt.Settings)
	if err != nil {
		return nil, err
	}
	if err := h.current(ctx); err != nil {
		return nil, err
	}
	if op == field.OpRead {
		return h.page(ctx, q)
	}
	h.mu.RLock()
	found := h.state.Gather(q, h.s.opt.Settings)
	h.mu.RUnlock()
	if !found.Small() {
		leave, err := h.s.enter(ctx)
		if err != nil {
			return nil, fmt.Errorf("field %q: %s: %w", h.name, op, err)
		}
		defer leave()
	}
	if !found.Compare(func() bool { return ctx.Err() != nil }) {
		return nil, fmt.Errorf("field %q: %s: %w", h.name, op, context.Cause(ctx))
	}
	found.Fit(field.MaxAnswer)
	return found.Result(), nil
}

// page answers a read, a step at a time. The first needs no place.
func (h *held) page(ctx context.Context, q *field.Query) (any, error) {
	reading := field.NewReading(q)
	step := func() (done bool, err error) {
		h.mu.RLock()
		defer h.mu.RUnlock()
		return reading.Step(h.state)
	}
	done, err := step()
	if !done && err == nil {
		var leave func()
		if leave, err = h.s.enter(ctx); err != nil {
			return nil, fmt.Errorf("field %q: read: %w", h.name, err)
		}
		defer leave()
	}
	for !done && err == nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("field %q: read: %w", h.name, context.Cause(ctx))
		}
		done, err = step()
	}
	if err != nil {
		return nil, err
	}
	return reading.Page(), nil
}

// enter takes a place among those who work on something large; leave gives it
// back.
func (s *Service) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.places <- struct{}{}:
		return func() { <-s.places }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
