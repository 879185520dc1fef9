package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Methods of the Events extension, and what its notifications begin with.
const (
	methodList    = "events/list"
	methodPoll    = "events/poll"
	methodStream  = "events/stream"
	notifications = "notifications/events/"
)

// maxPages bounds the pages of events/list that are read.
const maxPages = 100

// server opens sessions with the SDK's client. Its transport, and what is
// special about it, is that of HTTP or of a program.
type server struct {
	version string                                  // of attend, for the server to know
	open    func() (t mcp.Transport, closes func()) // for one session; closes lets go of what is left of it, and may be called again
	hide    func(text string) string                // takes out of a text what nobody is to read
	adopt   func(version string)                    // is told which revision was agreed on; may be nil
	said    func() string                           // the last words of a session, "" for none; may be nil
}

// Dial implements Dialer.
func (d *server) Dial(ctx context.Context, unrouted func()) (Session, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "attend", Version: d.version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, Logger: slog.New(slog.DiscardHandler),
	})
	err := errors.Join(
		mcp.AddSendingCustomMethod[*listParams, *result](client, methodList),
		mcp.AddSendingCustomMethod[*params, *result](client, methodPoll),
		mcp.AddSendingCustomMethod[*params, *result](client, methodStream),
	)
	if err != nil {
		return nil, err
	}
	transport, closes := d.open()
	s := &session{server: d, closes: closes, routes: routes{ears: make(map[string]*ear), unrouted: unrouted}}
	lasts, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel, s.atEnd = cancel, func(f func()) (forget func() bool) { return context.AfterFunc(lasts, f) }
	defer context.AfterFunc(ctx, closes)() // one that does not even read is not waited for
	if s.client, err = client.Connect(ctx, &tap{transport, &s.routes}, nil); err != nil {
		s.cancel()
		err = d.explain(ctx, err)
		closes()
		return nil, err
	}
	if d.adopt != nil {
		d.adopt(s.client.InitializeResult().ProtocolVersion)
	}
	go func() {
		_ = s.client.Wait()
		s.dead.Store(true)
	}()
	return s, nil
}

// session is one of the SDK's.
type session struct {
	server *server
	client *mcp.ClientSession
	routes routes
	closes func()
	cancel context.CancelFunc                  // ends what is under way
	atEnd  func(f func()) (forget func() bool) // has something done when cancel is called
	closed atomic.Bool                         // by Close
	dead   atomic.Bool                         // at the other end
}

// params are those of events/poll and events/stream. The cursor stands there
// where there is none, too: some servers insist on it.
type params struct {
	mcp.ParamsBase
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Cursor    *string         `json:"cursor"`
	MaxAgeMs  int64           `json:"maxAgeMs,omitempty"`
	MaxEvents int             `json:"maxEvents,omitempty"`
}

// listParams are those of events/list.
type listParams struct {
	mcp.ParamsBase
	Cursor *string `json:"cursor,omitempty"`
}

func (r *Request) params() *params {
	p := &params{Name: r.Name, Arguments: r.Arguments, MaxAgeMs: r.MaxAgeMs, MaxEvents: r.MaxEvents}
	if r.Cursor != "" {
		p.Cursor = &r.Cursor
	}
	return p
}

// result is that of every method of the extension.
type result struct {
	mcp.ResultBase
	raw json.RawMessage
}

// UnmarshalJSON keeps the answer as it came.
func (r *result) UnmarshalJSON(b []byte) error {
	r.raw = append(json.RawMessage(nil), b...)
	return nil
}

// call asks for something, for as long as the context and the session last.
func (s *session) call(ctx context.Context, into any, ask func(ctx context.Context) (*result, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.atEnd(cancel)()
	r, err := ask(ctx)
	switch {
	case err == nil && into == nil:
		return nil
	case err == nil:
		if err := json.Unmarshal(r.raw, into); err != nil {
			return fmt.Errorf("the answer cannot be read: %w", err)
		}
		return nil
	case s.closed.Load():
		return ErrClosed
	}
	err = s.server.explain(ctx, err)
	if s.dead.Load() && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// custom makes a request of a method of the extension.
func custom[P mcp.Params](s *session, method string, p P, call func(context.Context, *mcp.ClientSession, string, P) (*result, error)) func(context.Context) (*result, error) {
	return func(ctx context.Context) (*result, error) { return call(ctx, s.client, method, p) }
}

// List implements Session.
func (s *session) List(ctx context.Context) ([]EventType, error) {
	var all []EventType
	p := new(listParams)
	for range maxPages {
		var page struct {
			Events     []EventType `json:"events"`
			NextCursor *string     `json:"nextCursor"`
		}
		if err := s.call(ctx, &page, custom(s, methodList, p, mcp.CallCustomMethod[*listParams, *result])); err != nil {
			return nil, err
		}
		all = append(all, page.Events...)
		if page.NextCursor == nil || *page.NextCursor == "" {
			break
		}
		p.Cursor = page.NextCursor
	}
	return all, nil
}

// Poll implements Session.
func (s *session) Poll(ctx context.Context, r Request) (Page, error) {
	var page Page
	err := s.call(ctx, &page, custom(s, methodPoll, r.params(), mcp.CallCustomMethod[*params, *result]))
	return page, err
}

// Stream implements Session.
func (s *session) Stream(ctx context.Context, r Request, hear func(Notification)) error {
	r.MaxEvents = 0
	e := &ear{hear: hear}
	defer s.routes.forget(e)
	return s.call(context.WithValue(ctx, earKey{}, e), nil, custom(s, methodStream, r.params(), mcp.CallCustomMethod[*params, *result]))
}

// closeWithin is how long a session may take to end by itself.
const closeWithin = 10 * time.Second

// Close implements Session.
func (s *session) Close() {
	s.closed.Store(true)
	s.cancel()
	late := time.AfterFunc(closeWithin, s.closes)
	defer late.Stop()
	_ = s.client.Close() // it is over either way
	s.closes()
}

// Codes with which SDKs say that they no longer have a session, and those that
// the Go SDK makes itself where no answer came.
const (
	codeConnectionClosed = -32000
	codeNoSession        = -32001
	codeClientClosing    = -32003
	codeServerClosing    = -32004
	codeNotSent          = -32005
)

// explain turns an error of the SDK into one of a Session.
func (d *server) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	answer, answered := errors.AsType[*jsonrpc.Error](err)
	code := int64(0)
	if answered {
		code = answer.Code
	}
	switch {
	case errors.Is(err, mcp.ErrConnectionClosed), errors.Is(err, mcp.ErrSessionMissing), errors.Is(err, io.EOF),
		code == codeConnectionClosed, code == codeNoSession, code == codeClientClosing, code == codeServerClosing:
		return fmt.Errorf("%w: %s", ErrClosed, d.words(err))
	case answered && code != codeNotSent:
		return &ServerError{Code: code, Message: clip(d.hide(answer.Message))}
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // its own text repeats the address
	}
	return errors.New(d.words(err))
}

// words are an error's text, and what the other side said last.
func (d *server) words(err error) string {
	text := clip(d.hide(err.Error()))
	if d.said != nil {
		if last := d.said(); last != "" {
			text += "; it said: " + clip(last)
		}
	}
	return text
}

// earKey is under which the context of a stream's request holds its ear.
type earKey struct{}

// ear is who hears the notifications of one stream.
type ear struct {
	id   string // of the request
	hear func(Notification)
}

// routes knows which notification is whose: each stream's carry the id of its
// request, which is known when the request is sent.
type routes struct {
	unrouted func()

	mu     sync.Mutex
	ears   map[string]*ear
	closed []string // ids of streams that are over: what comes late for them is no news
}

// open notes the id of a stream's request.
func (r *routes) open(id jsonrpc.ID, e *ear) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.id = fmt.Sprint(id.Raw())
	r.ears[e.id] = e
}

// maxClosed is how many streams that are over are remembered.
const maxClosed = 256

// forget notes that a stream is over.
func (r *routes) forget(e *ear) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.id == "" {
		return // it was never sent
	}
	delete(r.ears, e.id)
	r.closed = append(r.closed, e.id)
	r.closed = r.closed[max(0, len(r.closed)-maxClosed):]
}

// route hands a notification to whom it belongs. The lock is held meanwhile, so
// that nothing is heard of a stream that is over.
func (r *routes) route(kind string, body json.RawMessage) {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	_ = json.Unmarshal(body, &p) // one that cannot be read belongs to nobody
	id := strings.Trim(string(p.Meta[mcp.MetaKeySubscriptionID]), `"`)
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.ears[id]; e != nil {
		e.hear(Notification{Kind: kind, Params: body})
		return
	}
	for _, closed := range r.closed {
		if closed == id {
			return
		}
	}
	r.unrouted()
}

// tap takes the notifications of the extension off a connection, which the
// SDK's session knows nothing of, and reads the ids of streams' requests.
type tap struct {
	mcp.Transport
	routes *routes
}

type tapped struct {
	mcp.Connection
	routes *routes
}

// Connect implements mcp.Transport.
func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tapped{c, t.routes}, nil
}

// Write implements mcp.Connection.
func (t *tapped) Write(ctx context.Context, msg jsonrpc.Message) error {
	if req, ok := msg.(*jsonrpc.Request); ok && req.Method == methodStream {
		if e, ok := ctx.Value(earKey{}).(*ear); ok {
			t.routes.open(req.ID, e)
		}
	}
	return t.Connection.Write(ctx, msg)
}

// Read implements mcp.Connection.
func (t *tapped) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := t.Connection.Read(ctx)
		req, ok := msg.(*jsonrpc.Request)
		if err != nil || !ok {
			return msg, err
		}
		kind, ok := strings.CutPrefix(req.Method, notifications)
		if !ok {
			return msg, nil
		}
		t.routes.route(kind, req.Params)
	}
}
