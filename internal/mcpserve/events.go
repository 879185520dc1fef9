package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/engine"
	"attend/internal/feed"
)

const (
	defaultPollEvents = 100
	maxPollEvents     = 1000
	maxPollBytes      = 1 << 20
	pollEvery         = 2000 // ms, suggested to clients that have caught up
)

// serveEvents answers the methods of the Events extension.
func (s *Server) serveEvents(ctx context.Context, w http.ResponseWriter, req *jsonrpc.Request, modern bool) {
	result, bad := s.eventsMethod(ctx, req)
	s.metrics.request(req.Method, bad == nil)
	if ctx.Err() != nil {
		return // nobody reads the answer
	}
	if bad != nil {
		s.fail(w, req.ID, bad, modern)
		return
	}
	s.succeed(w, req.ID, result, modern)
}

func (s *Server) eventsMethod(ctx context.Context, req *jsonrpc.Request) (map[string]any, *jsonrpc.Error) {
	caller := s.opts.Caller(ctx)
	if !caller.may(RightRead, "") {
		return nil, forbidden("right", "events need the right %q", RightRead)
	}
	params, bad := paramsOf(req)
	if bad != nil {
		return nil, bad
	}
	switch req.Method {
	case "events/list":
		return s.listEvents(params)
	case "events/poll":
		return s.pollEvents(ctx, params, &caller)
	case "events/stream":
		return nil, s.unsupported(params, "push")
	case "events/subscribe", "events/unsubscribe":
		return nil, s.unsupported(params, "webhook")
	default:
		return nil, unknownMethod(req.Method)
	}
}

func paramsOf(req *jsonrpc.Request) (map[string]json.RawMessage, *jsonrpc.Error) {
	var params map[string]json.RawMessage
	if len(req.Params) == 0 {
		return params, nil
	}
	if err := json.Unmarshal(req.Params, &params); err != nil {
		return nil, invalidParams("", "params must be an object")
	}
	return params, nil
}

// listEvents answers events/list. All types fit on one page, so no cursor has
// ever been given out.
func (s *Server) listEvents(params map[string]json.RawMessage) (map[string]any, *jsonrpc.Error) {
	if cursor, ok := params["cursor"]; ok && string(cursor) != "null" {
		return nil, invalidParams("/cursor", "unknown; the list has one page, so leave it out")
	}
	views := make([]map[string]any, len(s.types))
	for i, t := range s.types {
		views[i] = t.view()
	}
	return map[string]any{"events": views}, nil
}

// unsupported answers for a mode of delivery that is not offered.
func (s *Server) unsupported(params map[string]json.RawMessage, mode string) *jsonrpc.Error {
	if _, bad := s.named(params); bad != nil {
		return bad
	}
	return rpcError(codeUnsupported, map[string]any{"feature": "delivery", "value": mode},
		"delivery by %s is not offered: use events/poll, or the tool attend_wait", mode)
}

// named finds the event type that the parameters name.
func (s *Server) named(params map[string]json.RawMessage) (*eventType, *jsonrpc.Error) {
	var name string
	if raw, ok := params["name"]; !ok || json.Unmarshal(raw, &name) != nil {
		return nil, invalidParams("/name", "is required: the name of an event type, see events/list")
	}
	for _, t := range s.types {
		if t.name == name {
			return t, nil
		}
	}
	return nil, rpcError(codeNotFound, map[string]any{"kind": "event", "name": name}, "there is no event type %q: see events/list", name)
}

// pollArguments are those of events/poll, read and checked.
type pollArguments struct {
	kind   *eventType
	filter feed.Filter
	cursor *string
	maxAge *int64 // ms
	limit  int
}

func (s *Server) pollArguments(params map[string]json.RawMessage, caller *Caller) (*pollArguments, *jsonrpc.Error) {
	kind, unknown := s.named(params)
	if unknown != nil {
		return nil, unknown
	}
	if bad := s.poll.check(params); bad != nil {
		return nil, invalidParams(bad.path, bad.reason)
	}
	a := &pollArguments{kind: kind, limit: defaultPollEvents}
	for _, bad := range []*fault{
		member(params, "cursor", &a.cursor),
		member(params, "maxAgeMs", &a.maxAge),
		member(params, "maxEvents", &a.limit),
	} {
		if bad != nil {
			return nil, invalidParams(bad.path, bad.reason)
		}
	}
	a.limit = min(a.limit, maxPollEvents)
	filter, bad := kind.filter(params["arguments"], caller)
	if bad != nil {
		return nil, invalidParams("/arguments"+bad.path, bad.reason)
	}
	if scope, found := hidden(filter.Scopes, caller); found {
		return nil, notYours(scope, "read")
	}
	a.filter = filter
	return a, nil
}

// pollEvents answers events/poll.
func (s *Server) pollEvents(ctx context.Context, params map[string]json.RawMessage, caller *Caller) (map[string]any, *jsonrpc.Error) {
	a, bad := s.pollArguments(params, caller)
	if bad != nil {
		return nil, bad
	}
	head, err := s.opts.Reader.Head(ctx)
	if err != nil {
		return nil, s.internal(ctx, "events/poll", err)
	}
	page := feed.Page{Next: head.Position}
	if a.cursor != nil {
		cursor, err := feed.DecodeCursor(*a.cursor)
		if err != nil {
			return nil, invalidParams("/cursor", cursorReason(err))
		}
		after, stale := cursor.From(head)
		if page, err = s.page(ctx, after, a); err != nil {
			return nil, s.internal(ctx, "events/poll", err)
		}
		page.Truncated = page.Truncated || stale
	}
	occurrences := make([]map[string]any, len(page.Items))
	for i := range page.Items {
		occurrences[i] = occurrence(a.kind.name, &page.Items[i])
	}
	next := pollEvery
	if page.More {
		next = 0
	}
	return map[string]any{
		"events":     occurrences,
		"cursor":     feed.Cursor{Epoch: head.Epoch, Position: page.Next}.Encode(),
		"truncated":  page.Truncated,
		"hasMore":    page.More,
		"nextPollMs": next,
	}, nil
}

// cursorReason says what is wrong with a cursor, next to its path.
func cursorReason(err error) string { return strings.TrimPrefix(err.Error(), "cursor: ") }

// page reads what was asked for, from the later of the cursor and the oldest
// age that is wanted.
func (s *Server) page(ctx context.Context, after engine.Position, a *pollArguments) (feed.Page, error) {
	skipped := false
	if a.maxAge != nil {
		since := engine.Time(s.opts.Now().UnixMilli() - *a.maxAge)
		young, err := s.opts.Reader.Since(ctx, after, since)
		if err != nil {
			return feed.Page{}, err
		}
		skipped, after = young > after, young
	}
	page, err := s.opts.Reader.Page(ctx, after, a.filter, a.limit, maxPollBytes)
	page.Truncated = page.Truncated || skipped
	return page, err
}

// occurrence is an item as an event of the extension.
func occurrence(name string, it *feed.Item) map[string]any {
	var data any
	if it.Decision != nil {
		data = withoutData(it.Decision)
	} else {
		data = letterWithoutData(it.DeadLetter)
	}
	return map[string]any{
		"eventId":   it.ID(),
		"name":      name,
		"timestamp": timestamp(it.At()),
		"data":      data,
	}
}

// timestamp writes an instant as ISO 8601, in UTC, to the millisecond.
func timestamp(t engine.Time) string {
	return time.UnixMilli(int64(t)).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// internal reports trouble of ours: to the operator in full, to the caller
// that it was not their fault.
func (s *Server) internal(ctx context.Context, what string, err error) *jsonrpc.Error {
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
		s.log.Error("MCP request failed", "what", what, "err", err)
	}
	return rpcError(jsonrpc.CodeInternalError, nil, "the log could not be read: try again")
}
