package fields

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"attend/internal/field"
)

// Mark is a reader's place in a Field: what it was given last. It means the
// same after a restart.
type Mark struct {
	Number   int64   // the change by which the result came to be what it is, as far as is known
	Identity [8]byte // of the result; zero for none
}

// Snapshot is the result of a subscription at one moment.
type Snapshot struct {
	Mark   Mark
	Result any   // ready for JSON, at most 256 KiB of it; shared, not to be changed
	At     int64 // when the mark's change was made, in Unix milliseconds; 0 before any
}

// watch looks at one question for all who ask it.
type watch struct {
	h     *held
	op    field.Op
	query *field.Query
	wide  bool   // looks at every topic
	topic string // else at this one
	users int    // the watches' mu guards it

	turn chan struct{} // held by the one who evaluates
	paid time.Time     // up to when re-evaluations are paid for; whoever has the turn

	mu      sync.Mutex
	seen    *evaluation // nil before the first
	isStale bool
	looking bool          // an evaluation is under way
	stirred chan struct{} // closed when it turns stale
}

// evaluation is what a watch saw.
type evaluation struct {
	snapshot Snapshot // without Result
	number   int64    // the state's
	result   func() json.RawMessage
}

func newWatch(h *held, op field.Op, q *field.Query) *watch {
	narrow := q.HasTopic && (q.OnlyTopic || h.s.opt.Settings.Mode == field.Reference)
	return &watch{
		h: h, op: op, query: q, wide: !narrow, topic: q.Topic,
		isStale: true, turn: make(chan struct{}, 1), stirred: make(chan struct{}),
	}
}

// stale says that a change may concern the watch.
func (w *watch) stale() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.isStale {
		w.isStale = true
		close(w.stirred)
		w.stirred = make(chan struct{})
	}
}

// stir is closed as soon as the watch is stale after it has been looked at.
func (w *watch) stir() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stirred
}

// checked is the number of the last change that the watch takes into account.
func (w *watch) checked() int64 {
	w.h.watches.mu.Lock()
	upTo := w.h.watches.upTo
	w.h.watches.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.seen == nil:
		return 0
	case w.isStale, w.looking:
		return w.seen.number
	default:
		return max(upTo, w.seen.number)
	}
}

// look returns what the watch sees, and evaluates it when it is stale. Where
// it is paced, it may evaluate once in PushEvery over time, and in quiet one
// evaluation is saved up: a change that turned out to be none for the reader
// does not make the next one wait. Where neither is left, look evaluates nothing
// and says how long to wait.
func (w *watch) look(ctx context.Context, paced bool) (seen *evaluation, wait time.Duration, err error) {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, 0, context.Cause(ctx)
	}
	w.mu.Lock()
	seen, isStale := w.seen, w.isStale
	w.mu.Unlock()
	if !isStale {
		return seen, 0, nil
	}
	every := w.h.s.opt.PushEvery
	if wait := time.Until(w.paid.Add(-every)); paced && wait > 0 {
		return nil, wait, nil
	}
	if err := w.h.current(ctx); err != nil {
		return nil, 0, err
	}
	leave, err := w.h.s.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if paced && seen != nil {
		if now := time.Now(); w.paid.Before(now) {
			w.paid = now
		}
		w.paid = w.paid.Add(every)
	}
	// What changes from here on makes it stale again.
	w.mu.Lock()
	w.isStale, w.looking = false, true
	w.mu.Unlock()
	now := w.evaluate(func() bool { return ctx.Err() != nil })
	if now == nil { // whoever comes next begins anew
		w.mu.Lock()
		w.isStale, w.looking = true, false
		w.mu.Unlock()
		return nil, 0, context.Cause(ctx)
	}
	w.h.s.metrics.evaluations.Inc()
	if seen != nil && seen.snapshot.Mark.Identity == now.snapshot.Mark.Identity {
		now.snapshot.Mark, now.snapshot.At = seen.snapshot.Mark, seen.snapshot.At
	}
	w.mu.Lock()
	w.seen, w.looking = now, false
	w.mu.Unlock()
	return now, 0, nil
}

// snapshotOf completes a snapshot with its result.
func (e *evaluation) snapshotOf() Snapshot {
	s := e.snapshot
	s.Result = e.result()
	return s
}
