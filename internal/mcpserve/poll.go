package mcpserve

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/feed"
)

// What one answer to events/poll holds.
const (
	defaultPollEvents = 100
	maxPollEvents     = 1000
	maxPollBytes      = 1 << 20
)

// pollEvents answers events/poll.
func (s *Server) pollEvents(ctx context.Context, params map[string]json.RawMessage, caller *Caller) (map[string]any, *jsonrpc.Error) {
	sub, bad := s.subscription(params, s.shapes.poll, caller)
	if bad != nil {
		return nil, bad
	}
	limit := defaultPollEvents
	if bad := member(params, "maxEvents", &limit); bad != nil {
		return nil, invalidParams(bad.path, bad.reason)
	}
	at, bad := s.begin(ctx, "events/poll", sub)
	if bad != nil {
		return nil, bad
	}
	page, err := s.opts.Reader.Page(ctx, at.after, sub.filter, min(limit, maxPollEvents), maxPollBytes)
	if err != nil {
		return nil, s.internal(ctx, "events/poll", err)
	}
	occurrences := make([]json.RawMessage, len(page.Items))
	for i := range page.Items {
		if occurrences[i], err = occurrence(sub.kind.name, &page.Items[i]); err != nil {
			return nil, s.internal(ctx, "events/poll", err)
		}
	}
	next := time.Duration(0)
	if !page.More {
		next = s.pace.next()
	}
	return map[string]any{
		"events":     occurrences,
		"cursor":     feed.Cursor{Epoch: at.head.Epoch, Position: page.Next}.Encode(),
		"truncated":  at.truncated || page.Truncated,
		"hasMore":    page.More,
		"nextPollMs": next.Milliseconds(),
	}, nil
}
