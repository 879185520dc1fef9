package webhook

import (
	"context"
	"encoding/json"
)

// Feeds open what subscriptions are about. The protocol's package has them.
type Feeds interface {
	// Open finds what comes after a cursor, with the rights that the principal
	// has by now.
	//
	// Errors: *Ended, wrapped, where there is nothing more to come for it; the
	// context's; the store's, after which it is worth trying again.
	Open(ctx context.Context, key Key, cursor string) (Feed, error)
}

// Feed gives occurrences in order. One goroutine at a time uses it.
type Feed interface {
	// Next returns what has come, as soon as something has, or once in a while
	// how far it has looked in vain. Errors are those of Open.
	Next(ctx context.Context) (Page, error)
	// Latest tells that an occurrence makes those before it pointless: each is a
	// whole state.
	Latest() bool
	Close()
}

// Page is what a Feed gives at once.
type Page struct {
	// Gap tells that something before the occurrences can no longer be given; it
	// goes on at GapCursor.
	Gap         bool
	GapCursor   string
	Occurrences []Occurrence
	Cursor      string // up to which all is given or does not match
}

// Occurrence is one event of the extension.
type Occurrence struct {
	ID     string
	Body   json.RawMessage // a JSON object without its cursor; not to be changed
	Cursor string          // behind it
}

// Ended tells why a subscription has nothing more to come: an error of the
// protocol, as it goes to the receiver.
type Ended struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error implements error.
func (e *Ended) Error() string { return e.Message }
