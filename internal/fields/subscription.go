package fields

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"time"

	"attend/internal/field"
)

// Subscription asks one question of a Field again and again: attune or reckon
// with the same parameters. One goroutine at a time may call Next. It must be
// closed.
type Subscription struct {
	watch *watch
	key   string
	epoch string    // of the log
	given time.Time // when Next last returned something
	once  sync.Once
}

// Subscribe begins to watch what an attune or reckon answers. The parameters
// are the operation's, and for reckon conflictsOnly, true unless said
// otherwise; with a topic, only_topic is true unless said otherwise.
//
// Errors are those of Do.
func (s *Service) Subscribe(ctx context.Context, op field.Op, name string, params json.RawMessage) (*Subscription, error) {
	if op != field.OpAttune && op != field.OpReckon {
		return nil, fmt.Errorf("subscribe: %w %q: attune and reckon can be subscribed to", ErrUnknownOperation, op)
	}
	name, err := checkRequest(name, op, params)
	if err != nil {
		return nil, err
	}
	q, err := field.ParsePush(op, params, s.opt.Settings)
	if err != nil {
		return nil, err
	}
	args, err := canonical(params)
	if err != nil {
		return nil, err
	}
	head, err := s.store.Head(ctx)
	if err != nil {
		return nil, fmt.Errorf("subscribe to field %q: %w", name, err)
	}
	h, err := s.hold(name)
	if err != nil {
		return nil, err
	}
	if err := h.current(ctx); err != nil {
		s.release(h)
		return nil, err
	}
	key := string(op) + string(args)
	w, err := h.join(key, func() *watch { return newWatch(h, op, q) })
	if err != nil {
		s.release(h)
		return nil, err
	}
	s.metrics.subscriptions.Inc()
	return &Subscription{watch: w, key: key, epoch: head.Epoch}, nil
}

// canonical writes parameters with sorted keys and without space, so that equal
// ones are known to be. Numbers stay as they were written.
func canonical(b []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	return b, nil
}

// Close ends the subscription. It may be called again.
func (sub *Subscription) Close() {
	sub.once.Do(func() {
		h := sub.watch.h
		h.leave(sub.key, sub.watch)
		h.s.metrics.subscriptions.Dec()
		h.s.release(h)
	})
}

// Look returns the current result. It does not count as a push.
//
// Errors: ErrStopping, the store's, or the context's.
func (sub *Subscription) Look(ctx context.Context) (Snapshot, error) {
	h := sub.watch.h
	if err := h.current(ctx); err != nil {
		return Snapshot{}, err
	}
	h.watches.spread()
	seen, _, err := sub.watch.look(ctx, false)
	if err != nil {
		return Snapshot{}, err
	}
	return seen.snapshotOf(), nil
}

// Next returns the current result as soon as it is another than the one of a
// mark; that of the zero Mark is none. Two results are at least PushEvery apart,
// and of what happened in between the last counts: a result that has come back
// to what the reader has is not given. When the result is worked out anew says
// watch.look.
//
// Errors: ErrStopping, the store's, or the context's.
func (sub *Subscription) Next(ctx context.Context, since Mark) (Snapshot, error) {
	w := sub.watch
	w.h.watches.spread()
	wait := time.Duration(0)
	if !sub.given.IsZero() {
		wait = time.Until(sub.given.Add(w.h.s.opt.PushEvery))
	}
	for {
		if err := w.pause(ctx, wait); err != nil {
			return Snapshot{}, err
		}
		stirred := w.stir()
		seen, more, err := w.look(ctx, true)
		if err != nil {
			return Snapshot{}, err
		}
		if wait = more; wait > 0 {
			continue
		}
		if seen.snapshot.Mark.Identity != since.Identity {
			sub.given = time.Now()
			w.h.s.metrics.pushes.Inc()
			return seen.snapshotOf(), nil
		}
		select {
		case <-stirred:
		case <-ctx.Done():
			return Snapshot{}, context.Cause(ctx)
		case <-w.h.s.stopping:
			return Snapshot{}, ErrStopping
		}
	}
}

// pause waits until a push may be looked for.
func (w *watch) pause(ctx context.Context, wait time.Duration) error {
	var over <-chan time.Time
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		over = t.C
	} else {
		closed := make(chan time.Time)
		close(closed)
		over = closed
	}
	select {
	case <-w.h.s.stopping:
		return ErrStopping
	default:
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.h.s.stopping:
		return ErrStopping
	}
}

// Checked is the number of the last change that has been looked at for this
// question. It moves on where nothing has changed for the reader, too; what the
// reader has is told by its mark's identity alone.
func (sub *Subscription) Checked() int64 { return sub.watch.checked() }

// EventID is the id of the push of a result (docs/field.md, "Told of changes").
// It is the same for equal subscriptions.
func (sub *Subscription) EventID(m Mark) string {
	return EventID(sub.epoch, sub.watch.h.name, sub.watch.op, json.RawMessage(sub.key[len(sub.watch.op):]), m.Number)
}

// EventID derives the id of a push from the log's epoch, the Field, the
// operation and its canonical parameters, and the number of a change. The epoch
// keeps a store that was replaced from giving old ids to new results.
func EventID(epoch, name string, op field.Op, params json.RawMessage, number int64) string {
	return derive("push", epoch, name, string(op), string(params), strconv.FormatInt(number, 10))
}
