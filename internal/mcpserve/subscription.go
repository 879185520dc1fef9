package mcpserve

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
)

// subscription is what a client follows: events of one type, from some place.
type subscription struct {
	kind   *eventType
	filter feed.Filter
	cursor *string // nil starts now
	maxAge *int64  // ms
}

// subscription reads and checks the parameters that poll and stream share.
func (s *Server) subscription(params map[string]json.RawMessage, shape *shape, caller *Caller) (*subscription, *jsonrpc.Error) {
	kind, unknown := s.named(params)
	if unknown != nil {
		return nil, unknown
	}
	if bad := shape.check(params); bad != nil {
		return nil, invalidParams(bad.path, bad.reason)
	}
	sub := &subscription{kind: kind}
	for _, bad := range []*fault{
		member(params, "cursor", &sub.cursor),
		member(params, "maxAgeMs", &sub.maxAge),
	} {
		if bad != nil {
			return nil, invalidParams(bad.path, bad.reason)
		}
	}
	filter, bad := kind.filter(params["arguments"], caller)
	if bad != nil {
		return nil, invalidParams("/arguments"+bad.path, bad.reason)
	}
	if scope, found := hidden(filter.Scopes, caller); found {
		return nil, notYours(scope, "read")
	}
	sub.filter = filter
	return sub, nil
}

// start is where a subscription begins.
type start struct {
	head      store.Head
	after     engine.Position
	truncated bool // it is later than the cursor asked for
}

// begin finds the place: that of the cursor, or of the oldest age that is
// wanted if that is later. Whether the records there are still kept, reading
// them shows.
func (s *Server) begin(ctx context.Context, what string, sub *subscription) (*start, *jsonrpc.Error) {
	head, err := s.opts.Reader.Head(ctx)
	if err != nil {
		return nil, s.internal(ctx, what, err)
	}
	at := &start{head: head, after: head.Position}
	if sub.cursor == nil {
		return at, nil
	}
	cursor, err := feed.DecodeCursor(*sub.cursor)
	if err != nil {
		return nil, invalidParams("/cursor", cursorReason(err))
	}
	at.after, at.truncated = cursor.From(head)
	if sub.maxAge != nil {
		since := engine.Time(s.opts.Now().UnixMilli() - *sub.maxAge)
		young, err := s.opts.Reader.Since(ctx, at.after, since)
		if err != nil {
			return nil, s.internal(ctx, what, err)
		}
		at.truncated = at.truncated || young > at.after
		at.after = young
	}
	return at, nil
}

// cursorReason says what is wrong with a cursor, next to its path.
func cursorReason(err error) string { return strings.TrimPrefix(err.Error(), "cursor: ") }
