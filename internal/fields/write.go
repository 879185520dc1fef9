package fields

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"attend/internal/field"
	"attend/internal/store"
)

// decided is a write that would change the Field, and how.
type decided struct {
	*write
	*field.Decision
	number int64 // that the change is to take
}

// write decides a batch, appends it and applies it. Whatever becomes of the
// writes, each is answered once.
func (h *held) write(ctx context.Context, batch []*write) {
	for tries := 0; len(batch) > 0; {
		if err := h.current(ctx); err != nil {
			refuseAll(batch, fmt.Errorf("not written: %w", err))
			return
		}
		made, entries, rest := h.decide(batch)
		if len(made) == 0 {
			batch = rest
			continue
		}
		receipts, err := h.s.store.Append(ctx, entries...)
		if err != nil {
			h.doubt()
			for i := range made {
				made[i].answer(nil, h.unknown(made[i].op, err))
			}
			batch = rest
			continue
		}
		again, why := h.settle(made, receipts)
		if len(again) < len(made) {
			tries = 0
		} else if tries++; tries == maxRetries {
			refuseAll(again, fmt.Errorf("field %q: other writers were faster %d times: not written, send it again: %w", h.name, tries, why))
			again = nil
		}
		batch = append(again, rest...)
	}
}

func refuseAll(batch []*write, err error) {
	for _, w := range batch {
		w.answer(nil, err)
	}
}

// decide asks the rules about each write of a batch, and answers those that
// are refused or change nothing. For the others it makes the entries, which
// follow each other on the Field. What would make the append too large, or the
// others wait too long for it, is left for the next.
func (h *held) decide(batch []*write) (made []decided, entries []store.Entry, rest []*write) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	now := h.s.store.Now().UnixMilli()
	after := h.state.Number()
	joined := h.joined()
	for i, w := range batch {
		if joined.full() {
			return made, entries, batch[i:]
		}
		d, err := h.state.Decide(w.op, w.params, h.s.opt.Settings, field.Draw{Now: now, ID: w.id, Pending: len(made)})
		if err != nil {
			w.answer(nil, err)
			continue
		}
		h.warn(w.op)
		if d.Change == nil {
			w.answer(d.Result, nil)
			continue
		}
		change, err := fieldAppend(h.name, after, d.Change)
		if err != nil {
			w.answer(nil, err)
			continue
		}
		after++
		entries = append(entries, store.Entry{Events: joined.events(h.state, d.Change), Field: change})
		made = append(made, decided{w, d, after})
	}
	return made, entries, nil
}

// warn tells the operator once that intents say nothing here, by the first write
// that passes: others rely on them.
func (h *held) warn(op field.Op) {
	if op != field.OpWrite || h.s.opt.Settings.MinIntent != 0 || h.warned {
		return
	}
	h.warned = true
	h.s.log.Warn("entries need no intent here: field.minIntentLength is 0", slog.String("field", h.name))
}

// settle applies what was committed and answers it. It returns the writes that
// are to be decided again, with the reason.
func (h *held) settle(made []decided, receipts []store.Receipt) (again []*write, why error) {
	done := make([]committed, 0, len(made))
	for i := range made {
		if receipts[i].Err == nil {
			done = append(done, committed{made[i].number, made[i].Change})
		}
	}
	if err := h.apply(done); err != nil {
		// It is committed all the same. The next operation reads the store.
		h.s.log.Error("a committed change was not applied", slog.String("field", h.name), slog.Any("error", err))
		h.doubt()
	}
	for i := range made {
		d, err := &made[i], receipts[i].Err
		switch {
		case err == nil:
			d.answer(d.Result, nil)
		case errors.Is(err, store.ErrConflict):
			again, why = append(again, d.write), err
		case errors.Is(err, store.ErrUnavailable):
			h.doubt()
			d.answer(nil, h.unknown(d.op, err))
		default:
			d.answer(nil, fmt.Errorf("field %q: %s: %w", h.name, d.op, err))
		}
	}
	if len(again) > 0 {
		h.doubt()
	}
	h.watches.stir()
	return again, why
}
