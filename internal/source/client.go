package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Error codes of the Events extension and of its clients, as the seed's table
// names them ("MCP Events sources", "Errors").
const (
	codeNotFound          = -32023
	codeForbidden         = -32024
	codeResourceExhausted = -32025
	codeUnsupported       = -32026
	codeCallbackEndpoint  = -32027
	codeMethodNotFound    = -32601
)

// Ways in which a server delivers an event type.
const deliveryPush = "push"

// ErrClosed is the error of a session that is over: its server has gone, does
// not know it any longer, or its program has ended. It is wrapped with what is
// known of why.
var ErrClosed = errors.New("the connection is closed")

// ServerError is a server's answer that is an error.
type ServerError struct {
	Code    int64
	Message string // the server's words: a worker redacts and cuts them where it shows them
}

// Error names the code as the extension does.
func (e *ServerError) Error() string {
	name := map[int64]string{
		codeNotFound: "NotFound", codeForbidden: "Forbidden", codeResourceExhausted: "ResourceExhausted",
		codeUnsupported: "Unsupported", codeCallbackEndpoint: "CallbackEndpointError", codeMethodNotFound: "method not found",
	}[e.Code]
	if name == "" {
		return fmt.Sprintf("error %d: %s", e.Code, e.Message)
	}
	return fmt.Sprintf("%s (%d): %s", name, e.Code, e.Message)
}

// isCode reports whether an error is a server's, with a code.
func isCode(err error, code int64) bool {
	answer, ok := errors.AsType[*ServerError](err)
	return ok && answer.Code == code
}

// Dialer opens sessions with one server. Sources that have the same Dialer
// share its session.
type Dialer interface {
	// Dial returns a new session. Unrouted is called for each notification that
	// belongs to no stream which the session has opened.
	Dial(ctx context.Context, unrouted func()) (Session, error)
	// Redact takes out of a text what nobody is to read: a token, a query. What
	// a server says may repeat them.
	Redact(text string) string
}

// Session is a connection with a server of MCP Events. Its methods are for
// concurrent use, but for Close, which is called once.
//
// Errors of its methods: *[ServerError] is an answer; one that wraps [ErrClosed]
// says that the session is over; the context's is returned as it is; any other
// means that the request did not come through.
type Session interface {
	// Find looks an event type up in events/list. The zero EventType is one that
	// is not listed.
	Find(ctx context.Context, name string) (EventType, error)
	// Poll asks for one page. An error that wraps [ErrPage] says that it holds
	// too much.
	Poll(ctx context.Context, r Request) (Page, error)
	// Stream opens a stream and returns when it is over: nil when the server
	// answered it. Hear is given what belongs to the stream, in order, one at a
	// time; it must not wait. It is not called after Stream has returned.
	Stream(ctx context.Context, r Request, hear func(Notification)) error
	// Close ends the session and what is under way in it.
	Close()
}

// EventType is an entry of events/list.
type EventType struct {
	Name     string   `json:"name"`
	Delivery []string `json:"delivery"`
}

// pushes reports whether the server streams the event type.
func (t *EventType) pushes() bool { return slices.Contains(t.Delivery, deliveryPush) }

// Request is what events/poll and events/stream are asked with.
type Request struct {
	Name      string
	Arguments json.RawMessage // a JSON object; nil for none
	Cursor    string          // "" starts now
	MaxAgeMs  int64           // 0 for no bound
	MaxEvents int             // of a page; 0 leaves it to the server. Streams have none
}

// Notification is one of notifications/events/*.
type Notification struct {
	Kind   string          // "active", "event", "heartbeat", "error", "terminated"
	Params json.RawMessage // as they came
}
