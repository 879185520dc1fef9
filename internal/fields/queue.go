package fields

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"attend/internal/field"
)

// write is an operation that may change a Field, on its way.
type write struct {
	op     field.Op
	params json.RawMessage
	id     string // drawn once, however often the operation is decided
	done   chan answer
}

// answer is what the caller gets.
type answer struct {
	result any
	err    error
}

func (w *write) answer(result any, err error) { w.done <- answer{result, err} }

// queue holds the writes of one Field that wait for their turn. There is a
// goroutine that takes them only while there are some.
type queue struct {
	mu       sync.Mutex
	waiting  []*write
	draining bool
}

// submit puts an operation in the queue and waits for its answer.
func (h *held) submit(ctx context.Context, op field.Op, params json.RawMessage) (any, error) {
	// The first to come pays for the loading, and can leave it.
	if h.settled.Load() == 0 {
		if err := h.current(ctx); err != nil {
			return nil, fmt.Errorf("not written: %w", err)
		}
	}
	w := &write{op: op, params: params, id: h.s.opt.NewID(), done: make(chan answer, 1)}
	if err := h.enqueue(w); err != nil {
		return nil, err
	}
	select {
	case a := <-w.done:
		return a.result, a.err
	case <-ctx.Done():
	}
	if h.queue.withdraw(w) {
		return nil, fmt.Errorf("field %q: %s: not written: %w", h.name, op, context.Cause(ctx))
	}
	select {
	case a := <-w.done: // at this very moment
		return a.result, a.err
	default:
		return nil, h.unknown(op, context.Cause(ctx))
	}
}

// unknown is the error for an operation of which nobody knows whether it has
// been written.
func (h *held) unknown(op field.Op, err error) error {
	return fmt.Errorf("field %q: %s: %w: %w", h.name, op, ErrUnknownOutcome, err)
}

func (h *held) enqueue(w *write) error {
	q := &h.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= maxWaiting {
		return fmt.Errorf("field %q: %s: %w", h.name, w.op, ErrBusy)
	}
	if !q.draining {
		if !h.s.begin(h) {
			return ErrStopping
		}
		q.draining = true
		go h.drain()
	}
	q.waiting = append(q.waiting, w)
	return nil
}

// begin counts a piece of work on a Field that outlives its caller; end must
// follow. It reports false when the service has stopped.
func (s *Service) begin(h *held) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	h.usage.users++
	s.work.Add(1)
	return true
}

func (s *Service) end(h *held) {
	s.release(h)
	s.work.Done()
}

// withdraw takes a write back, unless it has been taken.
func (q *queue) withdraw(w *write) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.waiting {
		if q.waiting[i] == w {
			q.waiting = append(q.waiting[:i], q.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// take returns the next writes that can be decided together: a run of those
// that look at nothing in the Field, or one other. None means that there is
// nothing to do, and the goroutine is to end.
func (q *queue) take() []*write {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, bytes := 0, 0
	for n < len(q.waiting) && n < maxBatch {
		w := q.waiting[n]
		bytes += len(w.params)
		if n > 0 && (!w.op.Independent() || bytes > batchBytes) {
			break
		}
		n++
		if !w.op.Independent() {
			break
		}
	}
	if n == 0 {
		q.draining = false
		return nil
	}
	batch := make([]*write, n)
	copy(batch, q.waiting)
	q.waiting = append(q.waiting[:0], q.waiting[n:]...)
	clear(q.waiting[len(q.waiting):cap(q.waiting)])
	return batch
}

// drain carries out what waits until nothing does.
func (h *held) drain() {
	defer h.s.end(h)
	for batch := h.queue.take(); batch != nil; batch = h.queue.take() {
		select {
		case <-h.s.stopping:
			for _, w := range batch {
				w.answer(nil, ErrStopping)
			}
		default:
			ctx, cancel := context.WithTimeout(context.Background(), commitTime)
			h.write(ctx, batch)
			cancel()
		}
	}
}
