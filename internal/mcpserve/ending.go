package mcpserve

import (
	"context"
	"sync"
)

// ending ends contexts when the daemon begins to stop, for those who wait by a
// context alone. However many they are it takes one goroutine, and none while
// there is nobody. Its zero value waits for ever.
type ending struct {
	stopping <-chan struct{}

	mu      sync.Mutex
	users   int
	stopped context.Context //nolint:containedctx // it ends with the daemon, not with a call
	quit    context.CancelFunc
}

// enter returns a context that ends when the daemon begins to stop; leave must
// be called.
func (e *ending) enter() (stopped context.Context, leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.users++; e.users == 1 {
		e.stopped, e.quit = context.WithCancel(context.Background())
		go end(e.stopped, e.quit, e.stopping)
	}
	return e.stopped, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.users--; e.users == 0 {
			e.quit()
		}
	}
}

func end(ctx context.Context, cancel context.CancelFunc, stopping <-chan struct{}) {
	select {
	case <-stopping:
		cancel()
	case <-ctx.Done():
	}
}
