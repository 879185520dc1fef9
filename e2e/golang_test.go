//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const decision = "attention.decision"

// eventsParams are those of every method of the Events extension.
type eventsParams struct {
	mcp.ParamsBase
	Name      string         `json:"name,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
	Cursor    string         `json:"cursor,omitempty"`
	MaxEvents int            `json:"maxEvents,omitempty"`
}

// event is an event type in events/list, an occurrence in events/poll.
type event struct {
	EventID string `json:"eventId"`
	Name    string `json:"name"`
}

type eventsResult struct {
	mcp.ResultBase
	Events    []event `json:"events"`
	Cursor    string  `json:"cursor"`
	HasMore   bool    `json:"hasMore"`
	Truncated bool    `json:"truncated"`
}

func (r *eventsResult) ids() []string {
	ids := []string{}
	for _, e := range r.Events {
		ids = append(ids, e.EventID)
	}
	return ids
}

// tap takes the notifications of the extension off a connection: the session
// knows the standard ones alone. It can lose an answer, too.
type tap struct {
	mcp.Transport

	mu    sync.Mutex
	heard []heard
	lose  bool
	lost  int
}

type tapped struct {
	mcp.Connection
	tap *tap
}

// heard is a notification.
type heard struct {
	Kind         string `json:"-"`
	Subscription any    `json:"-"`
	EventID      string `json:"eventId"`
	Cursor       string `json:"cursor"`
	Data         struct {
		Notice string `json:"notice"`
		reckoned
	} `json:"data"`
	Meta map[string]any `json:"_meta"`
}

// Connect implements mcp.Transport.
func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &tapped{c, t}, nil
}

// Read implements mcp.Connection.
func (c *tapped) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := c.Connection.Read(ctx)
		if err != nil || !c.tap.takes(msg) {
			return msg, err
		}
	}
}

func (t *tap) takes(msg jsonrpc.Message) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch msg := msg.(type) {
	case *jsonrpc.Response:
		if t.lose && msg.Error == nil {
			t.lose = false
			t.lost++
			return true
		}
	case *jsonrpc.Request:
		kind, found := strings.CutPrefix(msg.Method, "notifications/events/")
		if !found {
			return false
		}
		h := heard{Kind: kind}
		_ = json.Unmarshal(msg.Params, &h)
		h.Subscription = h.Meta[mcp.MetaKeySubscriptionID]
		t.heard = append(t.heard, h)
		return true
	}
	return false
}

func (t *tap) loseNext() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lose = true
}

func (t *tap) hasLost() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lost
}

// of returns what was heard of a kind, by subscription in order of appearance.
func (t *tap) of(kind string) (subscriptions []any, notices map[any][]string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	notices = make(map[any][]string)
	for _, h := range t.heard {
		if h.Kind == kind {
			if !slices.Contains(subscriptions, h.Subscription) {
				subscriptions = append(subscriptions, h.Subscription)
			}
			notices[h.Subscription] = append(notices[h.Subscription], h.Data.Notice)
		}
	}
	return subscriptions, notices
}

// bearer sends the token.
type bearer struct{ token string }

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(r)
}

// golang is a client of the Go SDK.
type golang struct {
	*mcp.ClientSession
	t   *testing.T
	tap *tap
}

// connectGo connects over HTTP, or over the bridge.
func connectGo(d *daemon, version string, stdio bool) *golang {
	t := d.t
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "go", Version: "1"}, nil)
	for _, method := range []string{"events/list", "events/poll", "events/stream"} {
		if err := mcp.AddSendingCustomMethod[*eventsParams, *eventsResult](client, method); err != nil {
			t.Fatal(err)
		}
	}
	var over mcp.Transport = &mcp.StreamableClientTransport{Endpoint: d.url + "/mcp", HTTPClient: &http.Client{Transport: bearer{d.token}}}
	if stdio {
		bridge := exec.Command(binary, "mcp", "--url", d.url)
		bridge.Env = append(os.Environ(), "ATTEND_TOKEN="+d.token)
		over = &mcp.CommandTransport{Command: bridge}
	}
	g := &golang{t: t, tap: &tap{Transport: over}}
	var err error
	g.ClientSession, err = client.Connect(t.Context(), g.tap, &mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		t.Fatalf("connect in %s: %v", version, err)
	}
	t.Cleanup(func() { _ = g.Close() })
	return g
}

func (g *golang) events(ctx context.Context, method string, p eventsParams) (*eventsResult, error) {
	return mcp.CallCustomMethod[*eventsParams, *eventsResult](ctx, g.ClientSession, method, &p)
}

func (g *golang) poll(p eventsParams) *eventsResult {
	g.t.Helper()
	p.Name = decision
	r, err := g.events(g.t.Context(), "events/poll", p)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// waited is an answer of attend_wait.
type waited struct {
	Decisions   []struct{ ID string }
	Ack         string
	Redelivered bool
	TimedOut    bool
}

func (w *waited) ids() []string {
	ids := []string{}
	for _, d := range w.Decisions {
		ids = append(ids, d.ID)
	}
	return ids
}

func (g *golang) tryWait(ctx context.Context, args map[string]any) (*waited, error) {
	res, err := g.CallTool(ctx, &mcp.CallToolParams{Name: "attend_wait", Arguments: args})
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(res.StructuredContent)
	if err != nil || res.IsError {
		return nil, fmt.Errorf("attend_wait: %v (%w)", res.Content, err)
	}
	w := new(waited)
	return w, json.Unmarshal(content, w)
}

func (g *golang) wait(args map[string]any) *waited {
	g.t.Helper()
	w, err := g.tryWait(g.t.Context(), args)
	if err != nil {
		g.t.Fatal(err)
	}
	return w
}

func TestGo(t *testing.T) {
	for _, c := range []struct {
		name, version string
		stdio         bool
	}{
		{"2025-06-18", "2025-06-18", false},
		{"2025-11-25", "2025-11-25", false},
		{"2026-07-28", modern, false},
		{"2025-11-25 over stdio", "2025-11-25", true},
		{"2026-07-28 over stdio", modern, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := start(t, token)
			g := connectGo(d, c.version, c.stdio)
			if got := g.InitializeResult().ProtocolVersion; got != c.version {
				t.Errorf("connected in %s", got)
			}
			g.polls(d)
			g.faults()
			g.loop(d)
			g.twins(d)
			g.streams(d)
			g.stops(d)
			if g.ID() != "" { // the session is gone with the daemon
				g = connectGo(d, c.version, c.stdio)
			}
			g.survives(d, func() *golang {
				if g.ID() == "" {
					return g
				}
				return connectGo(d, c.version, c.stdio)
			})
		})
	}
}

func (g *golang) polls(d *daemon) {
	t := g.t
	t.Helper()
	list, err := g.events(t.Context(), "events/list", eventsParams{})
	if err != nil || !slices.ContainsFunc(list.Events, func(e event) bool { return e.Name == decision }) {
		t.Errorf("events/list: %+v, %v", list, err)
	}
	now := g.poll(eventsParams{})
	want := d.push("chat:poll", "one", "two", "three")
	first := g.poll(eventsParams{Cursor: now.Cursor, MaxEvents: 2})
	rest := g.poll(eventsParams{Cursor: first.Cursor})
	if got := slices.Concat(first.ids(), rest.ids()); !slices.Equal(got, want) || !first.HasMore || rest.HasMore {
		t.Errorf("polled %q, want %q: %+v, %+v", got, want, first, rest)
	}
}

func (g *golang) faults() {
	t := g.t
	t.Helper()
	for _, c := range []struct {
		params eventsParams
		code   int64
		data   string
	}{
		{eventsParams{Name: "nope"}, -32023, `"kind":"event"`},
		{eventsParams{Name: decision, Cursor: "made up"}, -32602, `"path":"/cursor"`},
		{eventsParams{Name: decision, Arguments: map[string]any{"routes": "queue"}}, -32602, `"path":"/arguments/routes"`},
	} {
		for _, method := range []string{"events/poll", "events/stream"} {
			_, err := g.events(t.Context(), method, c.params)
			var wire *jsonrpc.Error
			if !errors.As(err, &wire) || wire.Code != c.code || !strings.Contains(string(wire.Data), c.data) {
				t.Errorf("%s %+v: %v", method, c.params, err)
			}
		}
	}
}

// loop loses an answer on the way.
func (g *golang) loop(d *daemon) {
	t := g.t
	t.Helper()
	g.wait(map[string]any{"consumer": "looper", "timeoutMs": 0})
	want := d.push("chat:loop", "one")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	g.tap.loseNext()
	go func() {
		_, err := g.tryWait(ctx, map[string]any{"consumer": "looper"})
		ended <- err
	}()
	eventually(t, "the answer is lost", func() bool { return g.tap.hasLost() == 1 })
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the lost call ended with %v", err)
	}
	again := g.wait(map[string]any{"consumer": "looper"})
	if !slices.Equal(again.ids(), want) || !again.Redelivered {
		t.Errorf("after a lost answer came %+v, want %q again", again, want)
	}
	if last := g.wait(map[string]any{"consumer": "looper", "ack": again.Ack, "timeoutMs": 0}); len(last.Decisions) != 0 {
		t.Errorf("after the ack came %+v", last)
	}
}

// twins are two calls of one consumer.
func (g *golang) twins(d *daemon) {
	t := g.t
	t.Helper()
	g.wait(map[string]any{"consumer": "twin", "timeoutMs": 0})
	answers := [2]chan *waited{make(chan *waited, 1), make(chan *waited, 1)}
	call := func(i int) {
		w, err := g.tryWait(t.Context(), map[string]any{"consumer": "twin"})
		if err != nil {
			t.Error(err)
		}
		answers[i] <- w
	}
	go call(0)
	d.becomes("attend_mcp_waits", 1)
	go call(1)
	if older := <-answers[0]; older == nil || len(older.Decisions) != 0 || older.TimedOut {
		t.Errorf("the older call got %+v", older)
	}
	want := d.push("chat:twin", "for the newer")
	if newer := <-answers[1]; newer == nil || !slices.Equal(newer.ids(), want) {
		t.Errorf("the newer call got %+v, want %q", newer, want)
	}
}

// follow opens a stream; ended gets what the request ends with.
func (g *golang) follow(ctx context.Context, scope string) (ended chan error) {
	g.t.Helper()
	before, _ := g.tap.of("active")
	ended = make(chan error, 1)
	go func() {
		_, err := g.events(ctx, "events/stream", eventsParams{Name: decision, Arguments: map[string]any{"scope": scope}})
		ended <- err
	}()
	eventually(g.t, "the stream is active", func() bool {
		now, _ := g.tap.of("active")
		return len(now) > len(before)
	})
	return ended
}

func (g *golang) streams(d *daemon) {
	t := g.t
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wide := g.follow(ctx, "chat:s*")
	other, leave := context.WithCancel(t.Context())
	defer leave()
	narrow := g.follow(other, "chat:s2")
	d.push("chat:s1", "one")
	d.push("chat:s2", "two")
	subscriptions, _ := g.tap.of("active")
	all := func() (a, b []string) {
		_, notices := g.tap.of("event")
		return notices[subscriptions[0]], notices[subscriptions[1]]
	}
	eventually(t, "both have heard", func() bool { a, b := all(); return len(a) == 2 && len(b) == 1 })
	cancel()
	if err := <-wide; !errors.Is(err, context.Canceled) {
		t.Errorf("the cancelled stream ended with %v", err)
	}
	d.becomes("attend_event_streams", 1)
	d.push("chat:s2", "three")
	eventually(t, "the other goes on", func() bool { _, b := all(); return len(b) == 2 })
	a, b := all()
	if diff := cmp.Diff([][]string{{"one", "two"}, {"two", "three"}}, [][]string{a, b}); diff != "" {
		t.Error(diff)
	}
	leave()
	<-narrow
	d.becomes("attend_event_streams", 0)
}

// stops ends the daemon under a stream, which ends with a result.
func (g *golang) stops(d *daemon) {
	t := g.t
	t.Helper()
	ended := g.follow(t.Context(), "chat:*")
	d.terminate()
	if err := <-ended; err != nil {
		t.Errorf("when the daemon stopped the stream ended with %v", err)
	}
	d.start()
}

// survives kills the daemon and goes on where it was.
func (g *golang) survives(d *daemon, again func() *golang) {
	t := g.t
	t.Helper()
	now := g.poll(eventsParams{})
	g.wait(map[string]any{"consumer": "survivor", "timeoutMs": 0})
	before := d.push("chat:crash", "a")
	taken := g.wait(map[string]any{"consumer": "survivor"})
	g.wait(map[string]any{"consumer": "survivor", "ack": taken.Ack, "timeoutMs": 0})
	between := d.push("chat:crash", "b")
	d.kill()
	d.start()
	g = again()
	after := d.push("chat:crash", "c")
	rest := g.wait(map[string]any{"consumer": "survivor"})
	if want := slices.Concat(between, after); !slices.Equal(taken.ids(), before) || !slices.Equal(rest.ids(), want) || rest.Redelivered {
		t.Errorf("taken %q, and after the crash %+v, want %q", taken.ids(), rest, want)
	}
	if got, want := g.poll(eventsParams{Cursor: now.Cursor}).ids(), slices.Concat(before, between, after); !slices.Equal(got, want) {
		t.Errorf("polled %q, want %q", got, want)
	}
}
