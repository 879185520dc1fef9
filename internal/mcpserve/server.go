// Package mcpserve serves /mcp: the Events extension of the Model Context
// Protocol, and tools for agents whose host cannot subscribe.
//
// One handler of our own, the front, stands before a stateless handler of the
// official SDK. The front owns what the SDK cannot do: events/*, legacy
// sessions, streams, and a context that ends when the caller cancels or goes.
// Whatever else arrives (initialize, server/discover, ping, tools/*) goes to the SDK.
// Both eras of the protocol are served at one address: the 2025 revisions,
// which begin with initialize, and 2026-07-28, where each request stands alone.
//
// Raw events never cross MCP: a decision is shown without its events' data.
package mcpserve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/access"
	"attend/internal/feed"
	"attend/internal/field"
	"attend/internal/fields"
)

// Rights that a caller may have (design, section 9).
const (
	RightRead   = access.Read   // events/*, attend_wait, attend_scopes, attend_decision, and what only looks at a Field
	RightIngest = access.Ingest // attend_push, attend_flush, and what changes a Field
	RightAdmin  = access.Admin  // attend_silence
)

// Caller is who sent a request.
type Caller struct {
	Name string // the principal; "" where there are no tokens
	// May tells whether the caller has a right in a scope, or, for the scope
	// "", whether it has the right at all. Nil grants everything.
	May func(right, scope string) bool
	// MayAll tells whether it has a right in every scope that a pattern matches.
	// Nil grants everything.
	MayAll func(right, pattern string) bool
	// Fields says which Fields the caller may use, and for which agents it may
	// speak there.
	Fields fields.Access
	// Revoked is closed when the caller's rights end: its token was taken away
	// or has expired. Streams that are open end then. Nil: never.
	Revoked <-chan struct{}
}

func (c *Caller) may(right, scope string) bool { return c.May == nil || c.May(right, scope) }

func (c *Caller) mayAll(right, pattern string) bool {
	return c.MayAll == nil || c.MayAll(right, pattern)
}

// visible is what the caller may read, as a filter takes it.
func (c *Caller) visible() func(scope string) bool {
	if c.May == nil {
		return nil
	}
	return func(scope string) bool { return c.May(RightRead, scope) }
}

// Pusher takes events in, as lines of an ingest body would bring them.
type Pusher interface {
	// Push commits the good ones among the events, each a JSON object with the
	// fields of an ingest line, and tells what became of them. The error is for
	// what concerns them all: the store is down, the context has ended. Those of
	// a scope to which the caller may not write are rejected like any other that
	// cannot be taken: the context says who calls.
	Push(ctx context.Context, events []json.RawMessage) (Pushed, error)
}

// Pushed is the outcome of a push.
type Pushed struct {
	Accepted   int         `json:"accepted"`
	Duplicates int         `json:"duplicates"`
	Rejected   int         `json:"rejected"`
	Errors     []PushFault `json:"errors"`
}

// PushFault tells why one event was rejected.
type PushFault struct {
	Line      int    `json:"line"` // 1 is the first event
	Code      string `json:"code"`
	Error     string `json:"error"`
	Retryable bool   `json:"retryable"`
}

// Flusher makes flush calls.
type Flusher interface {
	// Flush settles what a scope holds, and tells what it marked: a subset of
	// "open", "held" and "judging"; nil when that is not known in time.
	Flush(ctx context.Context, scope string) (marked []string, err error)
}

// Fields carry out the operations of the Field's protocol, as *fields.Service
// does.
type Fields interface {
	Do(ctx context.Context, name string, op field.Op, params json.RawMessage) (any, error)
	Subscribe(ctx context.Context, op field.Op, name string, params json.RawMessage) (*fields.Subscription, error)
	fields.Drafts
}

// Options are what a Server is made of. Reader, Consumers, Streams, Push, Flush,
// Scopes, Logger and Registerer are required.
type Options struct {
	Reader     *feed.Reader
	Consumers  *feed.Consumers
	Streams    *feed.Streams
	Push       Pusher
	Flush      Flusher
	Scopes     Scopes
	Silences   Silencer // nil: attend_silence is not offered
	Fields     Fields   // nil: their tools and event types are not offered
	Webhooks   Webhooks // nil: delivery by webhook is not offered
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Version    string // of attend, as clients see it
	// Caller finds who sent a request in its context, where the middleware in
	// front of this handler put it. Nil: everyone may do everything.
	Caller func(ctx context.Context) Caller
	// Principal finds what a principal may do now, by its name: webhooks are
	// delivered while nobody calls. Nil, or without ok: nothing.
	Principal func(name string) (caller Caller, ok bool)
	// MaxWaits is how many attend_wait calls of one principal may wait at once;
	// 0 is 1,000.
	MaxWaits int
	// SessionIdle is how long a legacy session lives without a request; 0 is
	// an hour. Clients seldom end theirs.
	SessionIdle time.Duration
	// MaxListeners is how many streams that only tell of changed event types one
	// principal may have open; 0 is 1,000.
	MaxListeners int
	// Stopping is closed when the daemon begins to stop: streams then end with
	// their result. Nil: never.
	Stopping <-chan struct{}
	// Heartbeat is how often a stream tells that it is alive; 0 is 15 seconds.
	Heartbeat time.Duration
	// WriteWait is how long one write to a stream may take; 0 is 10 seconds. A
	// client that takes nothing for so long is cut off.
	WriteWait time.Duration
	// RetryEvery is how often a stream tries again to read a log that cannot be
	// read; 0 is a second.
	RetryEvery time.Duration
	// Now is the store's clock, which gives the stamps; nil is time.Now.
	Now func() time.Time
}

// Server answers /mcp. It is safe for concurrent use.
type Server struct {
	opts      Options
	sdk       http.Handler
	sessions  *sessions
	waits     *access.Bound
	listeners *access.Bound
	tail      *feed.Tail
	ending    *ending
	changes   *changes
	pace      *pace
	types     []*eventType
	shapes    shapes
	info      *mcp.Implementation
	metrics   *metrics
	log       *slog.Logger
	troubles  rarely
}

// shapes are those of the parameters that the front reads itself.
type shapes struct{ poll, stream, subscribe, unsubscribe, listen *shape }

const maxSessions = 10000

// withDefaults fills in what may be left out.
func (o Options) withDefaults() Options {
	if o.Caller == nil {
		o.Caller = func(context.Context) Caller { return Caller{} }
	}
	o.MaxWaits = cmp.Or(o.MaxWaits, 1000)
	o.MaxListeners = cmp.Or(o.MaxListeners, 1000)
	o.SessionIdle = cmp.Or(o.SessionIdle, time.Hour)
	o.Heartbeat = cmp.Or(o.Heartbeat, 15*time.Second)
	o.WriteWait = cmp.Or(o.WriteWait, 10*time.Second)
	o.RetryEvery = cmp.Or(o.RetryEvery, time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// New makes a Server.
func New(o Options) (*Server, error) {
	if o.Reader == nil || o.Consumers == nil || o.Streams == nil || o.Push == nil || o.Flush == nil || o.Scopes == nil || o.Logger == nil || o.Registerer == nil {
		return nil, errors.New("mcpserve: an option is missing")
	}
	o = o.withDefaults()
	s := &Server{
		opts:      o,
		sessions:  newSessions(maxSessions, o.SessionIdle, o.Now),
		waits:     access.NewBound(o.MaxWaits),
		listeners: access.NewBound(o.MaxListeners),
		tail:      feed.NewTail(o.Reader, o.Stopping),
		ending:    &ending{stopping: o.Stopping},
		changes:   newChanges(),
		pace:      newPace(o.Now),
		info:      &mcp.Implementation{Name: "attend", Title: "attend", Version: o.Version},
		log:       o.Logger,
	}
	var err error
	if s.metrics, err = newMetrics(o.Registerer, s.sessions, s.waits, s.listeners); err != nil {
		return nil, err
	}
	if s.types, err = s.eventTypes(); err != nil {
		return nil, err
	}
	if s.shapes, err = readShapes(); err != nil {
		return nil, err
	}
	if s.sdk, err = s.newSDK(); err != nil {
		return nil, err
	}
	return s, nil
}

func readShapes() (s shapes, err error) {
	for name, into := range map[string]**shape{
		"poll": &s.poll, "stream": &s.stream, "subscribe": &s.subscribe, "unsubscribe": &s.unsubscribe, "listen": &s.listen,
	} { //arch:sorted each by itself
		if *into, err = readShape(name); err != nil {
			return s, err
		}
	}
	return s, nil
}

// newSDK makes the SDK's part: the stateless handler with the tools.
func (s *Server) newSDK() (http.Handler, error) {
	caps := &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}} // the list of tools is fixed
	caps.AddExtension(extensionName, eventsCapability())
	about := instructions
	if s.opts.Fields != nil {
		about += fieldInstructions
	}
	quiet := slog.New(warnings{s.log.Handler()}) // it tells of each request otherwise
	server := mcp.NewServer(s.info, &mcp.ServerOptions{
		Instructions: about,
		Capabilities: caps,
		Logger:       quiet,
	})
	server.AddReceivingMiddleware(complete, advertise)
	tools := []*tool{s.waitTool(), s.pushTool(), s.flushTool(), s.scopesTool(), s.decisionTool()}
	if s.opts.Silences != nil {
		tools = append(tools, s.silenceTool())
	}
	for _, t := range append(tools, s.fieldTools()...) {
		if err := s.addTool(server, t); err != nil {
			return nil, err
		}
	}
	return mcp.NewStreamableHTTPHandler(
		func(*http.Request) *mcp.Server { return server },
		&mcp.StreamableHTTPOptions{
			Stateless:                    true,
			PropagateRequestCancellation: true,
			Logger:                       quiet,
			MaxRequestBodyBytes:          maxBodyBytes,
			// Host and Origin are checked on every route, before this handler.
			DisableLocalhostProtection: true,
		}), nil
}

// warnings passes on what is at least a warning.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h warnings) WithGroup(name string) slog.Handler { return warnings{h.Handler.WithGroup(name)} }

// rarely lets what happens to many at once through once in a while.
type rarely struct {
	mu   sync.Mutex
	last time.Time
}

func (r *rarely) now() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.last.IsZero() && now.Sub(r.last) < 10*time.Second {
		return false
	}
	r.last = now
	return true
}
