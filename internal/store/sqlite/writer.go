package sqlite

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"attend/internal/engine"
	"attend/internal/store"
)

// writer is the one goroutine that writes: it takes what is waiting, gives
// positions and a stamp, and commits it as a group. It waits for no company:
// while one group is being committed, the next one gathers.
type writer struct {
	queue *queue
	tail  *tail
	clock *store.Clock
	log   *slog.Logger
	open  func(context.Context) (*session, error)
	holds func() error    // fails once the lock or the database is no longer the store's
	grew  chan<- struct{} // told of each commit, for the checkpoints

	session   *session // nil after a failure
	fence     store.Fence
	kept      atomic.Pointer[store.Kept] // the marks; others read it too
	importing bool
	numbered  recent[engine.Position] // the last numbered step of a scope
	fields    recent[*fieldHead]      // by name
	failing   bool                    // the last write failed, and somebody was told
	done      chan struct{}
}

// run works until the queue is closed and empty.
func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	for {
		g, t := w.queue.take()
		switch {
		case g != nil:
			w.write(ctx, g)
		case t != nil:
			w.perform(ctx, t)
		default:
			return
		}
	}
}

// write commits a group, and answers each of its entries.
func (w *writer) write(ctx context.Context, g *group) {
	b, err := w.seal(ctx, g)
	if err == nil && len(b.entries) > 0 {
		err = w.session.transaction(ctx, func() error { return w.insert(ctx, b) })
	}
	if err != nil {
		err = w.failed(ctx, err)
		for _, p := range b.entries {
			p.settle(store.Receipt{Err: store.Describe("append", err)})
		}
		return
	}
	if len(b.entries) == 0 {
		return
	}
	w.succeeded()
	if len(b.records) > 0 {
		w.tail.add(newRun(b.stamp, b.records, b.bytes))
	}
	for _, p := range b.entries {
		p.settle(store.Receipt{First: p.receipt.First, Last: p.receipt.Last, Stamp: b.stamp})
	}
}

// seal makes every comparison, answers what is refused, and gives positions
// and one stamp to the rest. With an error nothing was decided about the
// entries of the batch.
func (w *writer) seal(ctx context.Context, g *group) (*batch, error) {
	b := &batch{entries: make([]*pending, 0, len(g.entries)), records: make([]engine.Record, 0, g.records)}
	if err := w.ready(ctx); err != nil {
		b.entries = g.entries
		return b, err
	}
	position, stamp := w.tail.end()
	b.stamp = max(stamp, w.clock.Stamp())
	for i, p := range g.entries {
		err := p.call.ended()
		if err == nil {
			err = w.admit(ctx, p, b.stamp)
		}
		var broken *brokenError
		if errors.As(err, &broken) {
			b.entries = append(b.entries, g.entries[i:]...)
			return b, err
		}
		if err != nil {
			p.settle(store.Receipt{Err: store.Describe("append", err)})
			continue
		}
		position = b.add(p, position)
		w.note(p)
	}
	return b, nil
}

// insert writes a batch inside a transaction.
func (w *writer) insert(ctx context.Context, b *batch) error {
	if err := w.session.events.insert(ctx, len(b.events), b.eventRow); err != nil {
		return fmt.Errorf("insert events: %w", err)
	}
	if err := w.session.steps.insert(ctx, len(b.steps), b.stepRow); err != nil {
		return fmt.Errorf("insert steps: %w", err)
	}
	for _, p := range b.entries {
		if err := w.session.putRows(ctx, p.Puts); err != nil {
			return err
		}
	}
	return w.session.insertChanges(ctx, b)
}

// perform runs a task. An error of the store's own leaves the session as it is.
func (w *writer) perform(ctx context.Context, t *task) {
	defer close(t.done)
	if t.err = t.ended(); t.err != nil {
		return
	}
	err := w.ready(ctx)
	if err == nil {
		err = t.run(ctx, w.session)
	}
	switch {
	case err == nil:
		w.succeeded()
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrNotEmpty), errors.Is(err, errPinned):
	default:
		err = w.failed(ctx, err)
	}
	t.err = err
}

// ready connects again after a failure, and takes up the log where it ends now.
// It fails while the store is not the daemon's to write.
func (w *writer) ready(ctx context.Context) error {
	if err := w.holds(); err != nil {
		return err
	}
	if w.session != nil {
		return nil
	}
	s, err := w.open(ctx)
	if err != nil {
		return err
	}
	position, stamp, err := readEnd(ctx, s.conn)
	if err != nil {
		s.close()
		return err
	}
	kept, err := readKept(ctx, s.conn)
	if err != nil {
		s.close()
		return err
	}
	w.session = s
	w.kept.Store(&kept)
	w.tail.restart(position, stamp)
	w.tail.cut(kept.Events)
	return nil
}

// failed gives the session up: nothing is known of what it was writing. It
// connects again at once, so that readers see a commit that was made and not
// answered; when even that fails, the next group tries.
func (w *writer) failed(ctx context.Context, err error) error {
	if w.session != nil {
		w.session.close()
		w.session = nil
	}
	w.numbered.reset()
	w.fields.reset()
	if !w.failing {
		w.failing = true
		w.log.Error("the store cannot write; every write is tried anew", "error", err)
	}
	_ = w.ready(ctx)
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

func (w *writer) succeeded() {
	if w.failing {
		w.failing = false
		w.log.Info("the store writes again")
	}
	select {
	case w.grew <- struct{}{}:
	default: // the checkpoints know already
	}
}
