package mcpserve

import (
	"context"
	"encoding/json"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// What one answer to events/poll holds.
const (
	defaultPollEvents = 100
	maxPollEvents     = 1000
	maxPollBytes      = 1 << 20
)

// pollEvents answers events/poll.
func (s *Server) pollEvents(ctx context.Context, params map[string]json.RawMessage, caller *Caller) (map[string]any, *jsonrpc.Error) {
	sub, bad := s.subscription("events/poll", params, s.shapes.poll, caller)
	if bad != nil {
		return nil, bad
	}
	limit := defaultPollEvents
	if bad := member(params, "maxEvents", &limit); bad != nil {
		return nil, invalidParams(bad.path, bad.reason)
	}
	from, bad := sub.open(ctx)
	if bad != nil {
		return nil, bad
	}
	defer from.close()
	page, err := from.page(ctx, limit)
	if err != nil {
		return nil, s.internal(ctx, "events/poll", err)
	}
	next := time.Duration(0)
	if !page.more {
		next = s.pace.next()
	}
	return map[string]any{
		"events":     page.occurrences,
		"cursor":     from.cursor(),
		"truncated":  from.late() || page.truncated,
		"hasMore":    page.more,
		"nextPollMs": next.Milliseconds(),
	}, nil
}
