package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Why a message is not taken.
var (
	errInFlight = errors.New("a request with this id is already under way")
	errTooMany  = fmt.Errorf("%d messages are under way: wait for one of them to be answered", maxCalls)
	errClosed   = errors.New("the bridge is closing")
)

// calls are the messages that are under way. The zero value is ready.
type calls struct {
	mu      sync.Mutex
	closed  bool
	running int
	byID    map[string]*call // of requests, by their JSON-RPC id
	wg      sync.WaitGroup
}

// call is a request under way.
type call struct {
	m    *message
	stop context.CancelFunc
}

// run works on a message in a goroutine of its own, under a context that ends
// when the message is cancelled. Of requests it remembers the id while it does.
func (c *calls) run(ctx context.Context, m *message, work func(context.Context, *message)) error {
	ctx, stop := context.WithCancel(ctx)
	leave, err := c.enter(m, stop)
	if err != nil {
		stop()
		return err
	}
	go func() {
		defer leave()
		defer stop()
		work(ctx, m)
	}()
	return nil
}

// enter takes a place among the calls. leave, unless err is set, gives it back.
func (c *calls) enter(m *message, stop context.CancelFunc) (leave func(), err error) {
	id := string(m.id)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, errClosed
	case m.isRequest() && c.byID[id] != nil:
		return nil, errInFlight
	case c.running >= maxCalls:
		return nil, errTooMany
	}
	this := &call{m, stop}
	if m.isRequest() {
		if c.byID == nil {
			c.byID = make(map[string]*call)
		}
		c.byID[id] = this
	}
	c.running++
	c.wg.Add(1)
	return func() {
		c.mu.Lock()
		if c.byID[id] == this {
			delete(c.byID, id)
		}
		c.running--
		c.mu.Unlock()
		c.wg.Done()
	}, nil
}

// cancel ends the request with an id and returns it, nil when there is none.
// The id may be used again at once.
func (c *calls) cancel(id json.RawMessage) *message {
	c.mu.Lock()
	defer c.mu.Unlock()
	running := c.byID[string(id)]
	if running == nil {
		return nil
	}
	delete(c.byID, string(id))
	running.stop()
	return running.m
}

// close takes no more calls.
func (c *calls) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// drain waits until nothing is under way, or for a time. Nothing may be added
// meanwhile: whoever adds has ended, or close has been called.
func (c *calls) drain(most time.Duration) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.wg.Wait()
	}()
	await(done, most)
}
