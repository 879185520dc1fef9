package mcpserve

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/engine"
)

// subscription is what a client follows: events of one type, from some place.
type subscription struct {
	method  string // that asked for it
	kind    *eventType
	caller  *Caller
	members map[string]json.RawMessage // of the arguments, which fit the type's schema
	cursor  *string                    // nil starts now
	maxAge  *int64                     // ms
	live    bool                       // a stream: it says where it begins before it reads
}

// subscription reads and checks the parameters that poll and stream share.
func (s *Server) subscription(method string, params map[string]json.RawMessage, shape *shape, caller *Caller) (*subscription, *jsonrpc.Error) {
	kind, unknown := s.named(params)
	if unknown != nil {
		return nil, unknown
	}
	if bad := shape.check(params); bad != nil {
		if bad.path == "/arguments" {
			return nil, kind.refuse(bad, params["arguments"])
		}
		return nil, invalidParams(bad.path, bad.reason)
	}
	sub := &subscription{method: method, kind: kind, caller: caller}
	for _, bad := range []*fault{
		member(params, "cursor", &sub.cursor),
		member(params, "maxAgeMs", &sub.maxAge),
	} {
		if bad != nil {
			return nil, invalidParams(bad.path, bad.reason)
		}
	}
	if bad := member(params, "arguments", &sub.members); bad != nil {
		return nil, invalidParams(bad.path, bad.reason)
	}
	if bad := twice(params["arguments"]); bad != nil {
		return nil, kind.refuse(&fault{"/arguments", bad.reason}, params["arguments"])
	}
	if bad := kind.arguments.check(sub.members); bad != nil {
		return nil, kind.refuse(&fault{"/arguments" + bad.path, bad.reason}, params["arguments"])
	}
	return sub, nil
}

// open finds the place where it begins.
func (sub *subscription) open(ctx context.Context) (source, *jsonrpc.Error) {
	return sub.kind.open(ctx, sub)
}

// since is the oldest instant that is wanted. maxAge is given.
func (sub *subscription) since(now time.Time) engine.Time {
	return engine.Time(now.UnixMilli() - *sub.maxAge)
}

// cursorReason says what is wrong with a cursor, next to its path.
func cursorReason(err error) string { return strings.TrimPrefix(err.Error(), "cursor: ") }
