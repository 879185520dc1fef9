// Package sink hands decisions and dead letters to programs of the operator's
// own: a receiver over HTTP, or a command. What is handed over is one JSON
// object, as it stands in the log; its id is the same each time, so that the
// other side can tell what it has.
//
// A sink answers in one of three ways: it has taken it; try again; never try
// again. The runner keeps the order, the ladder and the time.
package sink

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Message is what a sink is given.
type Message struct {
	ID   string // of the decision or dead letter: the same each time
	Body []byte // JSON
}

// Sink takes messages. Each is a pointer, so that it can be told from another
// by ==. Deliver returns nil once the other side has taken the message, and
// returns when the context has ended. Its errors are *Error, and hold neither
// secret, nor URL, nor message.
type Sink interface {
	Deliver(ctx context.Context, m *Message) error
}

// Error is a delivery that failed.
type Error struct {
	Message   string
	Never     bool          // the other side can never take it
	After     time.Duration // it asks for so much time; 0 for none
	interrupt error         // of the context
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the context's error where its end is why.
func (e *Error) Unwrap() error { return e.interrupt }

// Permanent reports whether trying again will not help.
func (e *Error) Permanent() bool { return e.Never }

// RetryAfter is the time that the other side asked for, 0 for none.
func (e *Error) RetryAfter() time.Duration { return e.After }

// Within gives each delivery to a sink a time of its own, shorter than that of
// the attempt.
func Within(limit time.Duration, s Sink) Sink { return &within{limit, s} }

type within struct {
	limit time.Duration
	sink  Sink
}

func (w *within) Deliver(ctx context.Context, m *Message) error {
	inner, cancel := context.WithTimeout(ctx, w.limit)
	defer cancel()
	err := w.sink.Deliver(inner, m)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && inner.Err() != nil {
		return &Error{Message: fmt.Sprintf("no answer within the sink's timeoutMs (%d)", w.limit.Milliseconds()), interrupt: context.DeadlineExceeded}
	}
	return err
}
