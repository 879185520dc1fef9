package fields

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"attend/internal/field"
	"attend/internal/store"
)

// held is one Field in memory.
type held struct {
	s     *Service
	name  string
	usage usage // the registry's

	mu    sync.RWMutex // guards state
	state *field.State

	// The state is behind the store, or may be, while doubts is above settled.
	// Whoever doubts raises the one; whoever catches up moves the other to where
	// doubts stood before it asked the store.
	doubts  atomic.Int64
	settled atomic.Int64
	catch   chan struct{} // held by the one who catches up

	queue   queue
	warned  bool // that intents have no minimum; whoever drains the queue
	watches watches
}

func newHeld(s *Service, name string) *held {
	h := &held{s: s, name: name, state: field.NewState(), catch: make(chan struct{}, 1)}
	h.doubts.Store(1) // nothing has been read yet
	h.watches.init()
	return h
}

// doubt makes the Field be caught up before it is used again. Followers do it
// at once: a change whose answer was lost is pushed like any other.
func (h *held) doubt() {
	h.doubts.Add(1)
	h.watches.stir()
}

// current makes sure that the state holds all that the store had when current
// was called. Several calls at once ask the store once.
func (h *held) current(ctx context.Context) error {
	mine := h.doubts.Load()
	if h.s.opt.Shared {
		mine = h.doubts.Add(1)
	}
	if h.settled.Load() >= mine {
		return nil
	}
	select {
	case h.catch <- struct{}{}:
		defer func() { <-h.catch }()
	case <-ctx.Done():
		return fmt.Errorf("field %q: read its changes: %w", h.name, context.Cause(ctx))
	}
	if h.settled.Load() >= mine {
		return nil
	}
	upTo := h.doubts.Load()
	if err := h.catchUp(ctx); err != nil {
		return fmt.Errorf("field %q: read its changes: %w", h.name, err)
	}
	h.settled.Store(upTo)
	return nil
}

// catchUp applies what the store has beyond the state. Its caller holds catch.
func (h *held) catchUp(ctx context.Context) error {
	for {
		h.mu.RLock()
		after := h.state.Number()
		h.mu.RUnlock()
		page, err := h.s.store.FieldChanges(ctx, h.name, after, pageLimit)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return nil
		}
		changes := make([]committed, len(page))
		for i := range page {
			c, err := field.DecodeChange(page[i].Format, page[i].Body)
			if err != nil {
				return fmt.Errorf("change %d: %w", page[i].Number, err)
			}
			changes[i] = committed{page[i].Number, c}
		}
		if err := h.apply(changes); err != nil {
			return err
		}
	}
}

// committed is a change that the store has.
type committed struct {
	number int64
	change *field.Change
}

// apply brings changes that follow each other into the state. Those that it
// holds already are passed over: the one who wrote them and the one who read
// them meet here.
func (h *held) apply(changes []committed) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range changes {
		c := &changes[i]
		number := h.state.Number()
		if c.number <= number {
			continue
		}
		if c.number > number+1 {
			return fmt.Errorf("change %d is missing: %d follows %d", number+1, c.number, number)
		}
		if err := h.state.Apply(c.change); err != nil {
			return fmt.Errorf("change %d: %w", c.number, err)
		}
		h.watches.note(h.state, c.change)
	}
	return nil
}

// fieldAppend is a change on its way into the store.
func fieldAppend(name string, after int64, change *field.Change) (*store.FieldAppend, error) {
	body, err := change.Encode()
	if err != nil {
		return nil, fmt.Errorf("field %q: encode a change: %w", name, err)
	}
	return &store.FieldAppend{
		Name: name, After: after,
		Changes: []store.FieldChange{{Number: after + 1, Format: field.Format, Body: body}},
	}, nil
}
