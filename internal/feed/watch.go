package feed

import (
	"context"
	"sync"

	"attend/internal/engine"
	"attend/internal/store"
)

// watch follows the log once for everyone who waits. The log grows with every
// event, the feed a hundred to a thousand times more rarely: one goroutine
// looks at each growth, and wakes the readers when a decision or dead letter
// is in it. It runs only while somebody waits.
type watch struct {
	log store.Log

	mu      sync.Mutex
	readers int
	stop    context.CancelFunc
	growth  *growth
}

// growth is one growth of the feed to come.
type growth struct {
	done chan struct{} // closed when it has come, or never will
	err  error         // why it never will; to be read once done is closed
}

// enter announces a reader that is about to wait; leave must be called.
func (w *watch) enter() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readers++
	w.start()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.readers--
		if w.readers == 0 && w.stop != nil {
			w.stop()
			w.stop = nil
		}
	}
}

// start runs the follower unless it runs. The caller holds mu.
func (w *watch) start() {
	if w.growth == nil {
		w.growth = &growth{done: make(chan struct{})}
	}
	if w.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go w.run(ctx)
}

// next returns the next growth of the feed.
func (w *watch) next() *growth {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start()
	return w.growth
}

func (w *watch) run(ctx context.Context) {
	err := w.follow(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return // nobody waits any longer, or a later run has taken over
	}
	w.stop = nil
	w.wake(store.Describe("follow the log", err))
}

// follow wakes the readers whenever the feed has grown, until the context ends
// or the log fails.
func (w *watch) follow(ctx context.Context) error {
	head, err := w.log.Head(ctx)
	if err != nil {
		return err
	}
	// What came between a reader's look and this head is not watched for, so
	// the first thing to do is to let everyone look again.
	w.broadcast()
	seen := head.Position
	kinds := []engine.StepKind{engine.StepDecision, engine.StepDeadLetter}
	for {
		if err := w.log.Wait(ctx, seen); err != nil {
			return err
		}
		head, err := w.log.Head(ctx)
		if err != nil {
			return err
		}
		grown, err := w.log.Steps(ctx, store.StepQuery{After: seen, Kinds: kinds, Limit: 1})
		if err != nil {
			return err
		}
		seen = head.Position
		if len(grown) > 0 {
			w.broadcast()
		}
	}
}

func (w *watch) broadcast() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wake(nil)
}

// wake lets everyone look again, or tells them why there is no use. The
// caller holds mu.
func (w *watch) wake(err error) {
	w.growth.err = err
	close(w.growth.done)
	w.growth = &growth{done: make(chan struct{})}
}
