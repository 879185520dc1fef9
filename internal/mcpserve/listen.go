package mcpserve

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/feed"
)

// listChanged tells that events/list would answer otherwise than before.
const listChanged = "notifications/events/list_changed"

// changes counts how often the list of event types has changed, and wakes
// whoever listens. Several changes in a row are told as one.
type changes struct {
	mu    sync.Mutex
	count uint64
	next  chan struct{} // closed at the next change
}

func newChanges() *changes { return &changes{next: make(chan struct{})} }

func (c *changes) happened() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	close(c.next)
	c.next = make(chan struct{})
}

func (c *changes) look() (count uint64, next <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count, c.next
}

// NotifyEventTypesChanged tells every client that listens that the set of event
// types, or how one of them is delivered, has changed.
func (s *Server) NotifyEventTypesChanged() { s.changes.happened() }

// listener is a stream on which nothing comes but what it has asked for.
type listener struct {
	server *Server
	out    *sse
	told   []byte       // what a change is told by
	heard  uint64       // changes up to here are told, or older than the stream
	mark   func(uint64) // unless nil, notes what was told
}

// run tells of changes until the stream ends, and returns why it did. Comments
// keep connections alive that proxies and clients would give up.
func (l *listener) run(ctx context.Context) error {
	keep := time.NewTicker(l.server.opts.Heartbeat)
	defer keep.Stop()
	for {
		count, next := l.server.changes.look()
		if count > l.heard {
			l.heard = count
			if l.out.message(l.told) != nil || l.out.flush() != nil {
				return errWrite
			}
			if l.mark != nil {
				l.mark(count)
			}
		}
		select {
		case <-next:
		case <-keep.C:
			if l.out.comment("keepalive") != nil || l.out.flush() != nil {
				return errWrite
			}
		case <-l.server.opts.Stopping:
			return errStopping
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// listenFilter is what a client may listen to.
type listenFilter struct {
	EventsListChanged bool `json:"eventsListChanged,omitempty"`
}

// serveListen answers subscriptions/listen of 2026-07-28. The tools are fixed,
// and there are no prompts and no resources: of all that may be asked for only
// the changes of the event types are honoured, and acknowledged.
func (s *Server) serveListen(ctx context.Context, w http.ResponseWriter, r *http.Request, req *jsonrpc.Request) {
	caller := s.opts.Caller(ctx)
	filter, bad := s.listenFilter(r, req, &caller)
	if bad != nil {
		s.metrics.request(req.Method, false)
		s.fail(w, req.ID, bad, true)
		return
	}
	leave, ok := s.listeners.Enter(caller.Name)
	s.metrics.request(req.Method, ok)
	if !ok {
		s.fail(w, req.ID, exhausted(s.tooManyListeners()), true)
		return
	}
	defer leave()
	ctx, stop := revocable(ctx, &caller)
	defer stop()
	out, err := openSSE(w, s.opts.WriteWait)
	if err != nil {
		return // the client has gone
	}
	id := rawID(req.ID)
	heard, _ := s.changes.look() // before the client knows that it listens
	if acknowledge(out, id, filter) != nil {
		return
	}
	if filter.EventsListChanged {
		l := &listener{server: s, out: out, told: notification(listChanged, id, nil), heard: heard}
		if why := l.run(ctx); !endsWithResult(why) {
			return
		}
	}
	_ = out.message(s.finalResult(req.ID, id, true))
	_ = out.flush() // whoever is gone is told nothing
}

// acknowledge tells a client what it will hear of.
func acknowledge(out *sse, id json.RawMessage, filter listenFilter) error {
	params, err := json.Marshal(map[string]any{"notifications": filter})
	if err != nil {
		return err
	}
	if err := out.message(notification("notifications/subscriptions/acknowledged", id, params)); err != nil {
		return err
	}
	return out.flush()
}

func (s *Server) tooManyListeners() error {
	return &feed.LimitError{Limit: "listeners", Max: s.listeners.Max()}
}

// listenFilter reads what a client asks for, and returns what it gets.
func (s *Server) listenFilter(r *http.Request, req *jsonrpc.Request, caller *Caller) (listenFilter, *jsonrpc.Error) {
	var got listenFilter
	if !takesStream(r) {
		return got, notAStream(req.Method)
	}
	params, bad := paramsOf(req)
	if bad != nil {
		return got, bad
	}
	if bad := s.shapes.listen.check(params); bad != nil {
		return got, invalidParams(bad.path, bad.reason)
	}
	if bad := member(params, "notifications", &got); bad != nil {
		return got, invalidParams(bad.path, bad.reason)
	}
	got.EventsListChanged = got.EventsListChanged && caller.may(RightRead, "")
	return got, nil
}

// serveNotifications answers GET: the stream of a legacy session, for what is
// no answer to any request. A session has one at a time. A newer one takes over:
// its client has lost the older one, which we may not know yet.
func (s *Server) serveNotifications(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(headerSession)
	caller := s.opts.Caller(r.Context())
	switch {
	case isModern(r):
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "this revision of the protocol has no stream to GET: use subscriptions/listen", http.StatusMethodNotAllowed)
		return
	case id == "":
		http.Error(w, "GET opens the stream of a session and needs the header "+headerSession, http.StatusBadRequest)
		return
	case !takesStream(r):
		http.Error(w, "the answer is a stream of events: send Accept: "+eventStream, http.StatusNotAcceptable)
		return
	}
	leave, ok := s.listeners.Enter(caller.Name)
	if !ok {
		w.Header().Set("Retry-After", "10")
		http.Error(w, s.tooManyListeners().Error(), http.StatusTooManyRequests)
		return
	}
	defer leave()
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	heard, mark, done := s.sessions.listen(id, caller.Name, cancel)
	if done == nil {
		s.noSession(w, jsonrpc.ID{})
		return
	}
	defer done()
	ctx, stop := revocable(ctx, &caller)
	defer stop()
	out, err := openSSE(w, s.opts.WriteWait)
	if err != nil {
		return // the client has gone
	}
	l := &listener{server: s, out: out, told: []byte(`{"jsonrpc":"2.0","method":"` + listChanged + `"}`), heard: heard, mark: mark}
	_ = l.run(ctx) // it has no answer, however it ends
}
