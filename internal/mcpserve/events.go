package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/engine"
	"attend/internal/store"
)

// serveEvents answers the methods of the Events extension but events/stream.
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
		return s.listEvents(params, &caller)
	case "events/poll":
		return s.pollEvents(ctx, params, &caller)
	case "events/subscribe":
		return s.subscribeEvents(ctx, params, &caller)
	case "events/unsubscribe":
		return s.unsubscribeEvents(ctx, params, &caller)
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
func (s *Server) listEvents(params map[string]json.RawMessage, caller *Caller) (map[string]any, *jsonrpc.Error) {
	if cursor, ok := params["cursor"]; ok && string(cursor) != "null" {
		return nil, invalidParams("/cursor", "unknown; the list has one page, so leave it out")
	}
	views := make([]map[string]any, len(s.types))
	for i, t := range s.types {
		views[i] = t.view(s.opts.Webhooks != nil && caller.Name != "")
	}
	return map[string]any{"events": views}, nil
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

// event is an occurrence of an event type, but for its data.
type event struct {
	EventID   string `json:"eventId"`
	Name      string `json:"name"`
	Timestamp string `json:"timestamp"`
}

// with writes the whole. The data is JSON already, and not read again.
func (e event) with(data json.RawMessage) (json.RawMessage, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return slices.Concat(b[:len(b)-1], []byte(`,"data":`), data, []byte(`}`)), nil
}

// timestamp writes an instant as ISO 8601, in UTC, to the millisecond.
func timestamp(t engine.Time) string {
	return time.UnixMilli(int64(t)).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// internal reports trouble of ours: to the operator in full, to the caller
// that it was not their fault. A store that is away is reported once in a while.
func (s *Server) internal(ctx context.Context, what string, err error) *jsonrpc.Error {
	if ctx.Err() == nil && !errors.Is(err, context.Canceled) && (!errors.Is(err, store.ErrUnavailable) || s.troubles.now()) {
		s.log.Error("MCP request failed", "what", what, "err", err)
	}
	return rpcError(jsonrpc.CodeInternalError, nil, "the log could not be read: try again")
}
