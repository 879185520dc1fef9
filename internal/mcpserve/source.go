package mcpserve

import (
	"context"
	"encoding/json"
)

// source is where the occurrences of a subscription come from: a place among
// them that moves with what it has given. It has no queue, so a subscriber that
// is slow costs nobody else anything.
type source interface {
	// cursor is the place as a client keeps it: whatever came up to here is
	// given or does not match.
	cursor() string
	// late tells that the place it began at is later than what was asked for.
	late() bool
	// page gives a poll what has come already: at most limit occurrences.
	page(ctx context.Context, limit int) (*page, error)
	// wait is for streams and webhooks, as is give. It returns as soon as there may be something to give, and else with the
	// context's error or the store's.
	wait(ctx context.Context) error
	// give sends what wait has found, or nothing when it has found nothing.
	give(ctx context.Context, to taker) error
	// close lets go of what it holds.
	close()
}

// taker is what a source gives to, occurrence by occurrence: a stream, or a page
// for a webhook.
type taker interface {
	// event takes an occurrence, with the place after it.
	event(cursor string, occurrence json.RawMessage) error
	// active is told the place where the source goes on, after a gap where it is
	// truncated.
	active(truncated bool) error
	// flush ends what is taken at once.
	flush() error
}

// page is what a poll takes from a source.
type page struct {
	occurrences []json.RawMessage
	truncated   bool // something before it can no longer be given
	more        bool // there is more at once
}
