package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
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

// Bounds of what is read of events/list. What stands behind them is not found.
const (
	maxPages     = 100
	maxListBytes = 4 << 20
)

// server opens sessions with the SDK's client. Its transport, and what is
// special about it, is that of HTTP or of a program.
type server struct {
	version string                   // of attend, for the server to know
	open    func() *way              // for one session
	hide    func(text string) string // takes out of a text what nobody is to read
	said    func() string            // the last words of a session, "" for none; may be nil
}

// way is how one session reaches the server.
type way struct {
	mcp.Transport
	closes func()               // lets go of what is left of it; it may be called again
	adopt  func(version string) // is told which revision was agreed on; may be nil
}

// Redact implements Dialer.
func (d *server) Redact(text string) string { return d.hide(text) }

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
	way := d.open()
	s := &session{server: d, closes: way.closes, routes: routes{ears: make(map[string]*ear), unrouted: unrouted}}
	lasts, cancel := context.WithCancel(context.WithoutCancel(ctx))
	s.cancel, s.atEnd = cancel, func(f func()) (forget func() bool) { return context.AfterFunc(lasts, f) }
	defer context.AfterFunc(ctx, way.closes)() // one that does not even read is not waited for
	if s.client, err = client.Connect(ctx, &tap{way, &s.routes}, nil); err != nil {
		s.cancel()
		err = d.explain(ctx, err)
		way.closes()
		return nil, err
	}
	if way.adopt != nil {
		way.adopt(s.client.InitializeResult().ProtocolVersion)
	}
	go func() {
		_ = s.client.Wait()
		s.routes.over.Store(true)
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
	if s.routes.over.Load() && !errors.Is(err, ErrClosed) && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	return err
}

// custom makes a request of a method of the extension.
func custom[P mcp.Params](s *session, method string, p P, call func(context.Context, *mcp.ClientSession, string, P) (*result, error)) func(context.Context) (*result, error) {
	return func(ctx context.Context) (*result, error) { return call(ctx, s.client, method, p) }
}

// Find implements Session.
func (s *session) Find(ctx context.Context, name string) (EventType, error) {
	p := new(listParams)
	for pages, size := 0, 0; pages < maxPages && size < maxListBytes; pages++ {
		page := listing{name: name}
		if err := s.call(ctx, &page, custom(s, methodList, p, mcp.CallCustomMethod[*listParams, *result])); err != nil {
			return EventType{}, err
		}
		if page.found != nil {
			return *page.found, nil
		}
		if page.next == "" {
			break
		}
		p.Cursor = &page.next
		size += page.size
	}
	return EventType{}, nil
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
const closeWithin = 2 * time.Second

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
		return &ServerError{Code: code, Message: clip(d.hide(answer.Message), maxShown)}
	}
	if at, ok := errors.AsType[*url.Error](err); ok {
		err = at.Err // its own text repeats the address
	}
	return errors.New(d.words(err))
}

// words are an error's text, and what the other side said last.
func (d *server) words(err error) string {
	text := clip(d.hide(err.Error()), maxShown)
	if d.said != nil {
		if last := d.said(); last != "" {
			text += "; it said: " + clip(d.hide(last), maxShown)
		}
	}
	return text
}
