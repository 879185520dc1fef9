package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// callKey is under which the context of what wants an answer says so.
type callKey struct{}

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
	over     atomic.Bool // nothing more comes

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
	asked  atomic.Int32 // requests of the server that have no answer yet
}

// maxAsked is how many requests of a server may wait for their answers at once.
// The SDK answers each in a goroutine of its own, and over HTTP with a request
// of its own.
const maxAsked = 8

// errAsked ends a session whose server asks more.
var errAsked = errors.New("the server has asked too much that it does not let be answered")

// tellWithin is how long a server may take to hear what wants no answer.
const tellWithin = 10 * time.Second

// Connect implements mcp.Transport.
func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tapped{Connection: c, routes: t.routes}, nil
}

// Write implements mcp.Connection. What wants no answer is written for a while:
// a server that does not take it is in the wrong, and its session goes on.
func (t *tapped) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, ok := msg.(*jsonrpc.Request)
	if ok && req.IsCall() {
		if e, ok := ctx.Value(earKey{}).(*ear); ok && req.Method == methodStream {
			t.routes.open(req.ID, e)
		}
		return t.Connection.Write(context.WithValue(ctx, callKey{}, true), msg)
	}
	if !ok {
		defer t.asked.Add(-1)
	}
	short, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	_ = t.Connection.Write(short, msg)
	return nil
}

// Read implements mcp.Connection. Of notifications only those of the extension
// are wanted.
func (t *tapped) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := t.Connection.Read(ctx)
		req, ok := msg.(*jsonrpc.Request)
		if ok && req.IsCall() && t.asked.Add(1) > maxAsked {
			err = errAsked
		}
		switch {
		case err != nil:
			t.routes.over.Store(true)
			return nil, err
		case !ok || req.IsCall():
			return msg, nil
		}
		if kind, ok := strings.CutPrefix(req.Method, notifications); ok {
			t.routes.route(kind, req.Params)
		}
	}
}
