package source

import (
	"context"
	"errors"
	"fmt"

	"attend/internal/store"
)

// Kinds of trouble, as the state and the metric attend_source_errors_total name
// them. The first five are those of the seed's onError.
const (
	kindStream     = "stream"     // the server told of trouble of its own, or ended the stream
	kindMalformed  = "malformed"  // something that cannot be an event: skipped
	kindOverflow   = "overflow"   // notifications came faster than they could be stored
	kindIdle       = "idle"       // nothing was heard of a stream, not even a heartbeat
	kindUnrouted   = "unrouted"   // a notification of a stream that nobody here opened
	kindConnection = "connection" // the server cannot be reached, or has gone
	kindTimeout    = "timeout"    // a request was not answered in time
	kindLimited    = "limited"    // the server has reached a limit of its own
	kindRefused    = "refused"    // the server refused the subscription: it has ended
	kindFull       = "full"       // a scope takes no events for now
	kindStore      = "store"      // the store did not take what had come
)

// kinds lists them all.
func kinds() []string {
	return []string{
		kindStream, kindMalformed, kindOverflow, kindIdle, kindUnrouted, kindConnection,
		kindTimeout, kindLimited, kindRefused, kindFull, kindStore,
	}
}

// remedy is what is done about a fault.
type remedy int

const (
	reopen  remedy = iota // after one second, from the committed cursor
	backOff               // through retryBackoffMs, from the committed cursor
	end                   // the subscription is over
)

// fault is why a subscription was broken off.
type fault struct {
	kind   string
	remedy remedy
	ours   bool // the server is not to blame: what had come could not be stored
	cause  error
}

// Error implements error.
func (f *fault) Error() string { return f.cause.Error() }

// Unwrap returns the cause.
func (f *fault) Unwrap() error { return f.cause }

// breaks makes a fault after which the stream is opened again.
func breaks(kind, format string, args ...any) *fault {
	return &fault{kind: kind, remedy: reopen, cause: fmt.Errorf(format, args...)}
}

// ofServer classes an error of a session by the seed's table. Doing is the
// method that was asked for.
func ofServer(doing string, err error) *fault {
	wrapped := fmt.Errorf("%s: %w", doing, err)
	answer, answered := errors.AsType[*ServerError](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &fault{kind: kindTimeout, remedy: backOff, cause: fmt.Errorf("%s: no answer within %s", doing, requestTimeout)}
	case !answered:
		return &fault{kind: kindConnection, remedy: backOff, cause: wrapped}
	case answer.Code == codeResourceExhausted:
		return &fault{kind: kindLimited, remedy: backOff, cause: wrapped}
	default:
		return &fault{kind: kindRefused, remedy: end, cause: wrapped}
	}
}

// ofIntake classes an error of the commit. One that wraps store.ErrFenced is no
// fault: another daemon has taken the source over.
func ofIntake(err error) error {
	switch {
	case errors.Is(err, store.ErrFenced):
		return err
	case errors.Is(err, ErrFull):
		return &fault{kind: kindFull, remedy: backOff, ours: true, cause: err}
	default:
		return &fault{kind: kindStore, remedy: backOff, ours: true, cause: err}
	}
}
