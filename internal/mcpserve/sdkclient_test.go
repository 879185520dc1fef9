package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/engine"
)

// eventsParams are those of any method of the extension, for the SDK's client.
type eventsParams struct {
	mcp.ParamsBase
	Name      string         `json:"name,omitempty"`
	Arguments map[string]any `json:"arguments,omitempty"`
	Cursor    *string        `json:"cursor,omitempty"`
	MaxEvents *int           `json:"maxEvents,omitempty"`
}

type eventsResult struct {
	mcp.ResultBase
	Events []struct {
		Name    string           `json:"name"`
		EventID string           `json:"eventId"`
		Data    *engine.Decision `json:"data"`
	} `json:"events"`
	Cursor  string `json:"cursor"`
	HasMore bool   `json:"hasMore"`
}

// tap takes the extension's notifications off a connection: the SDK's client
// hands on only those of the core protocol.
type tap struct {
	mcp.Transport
	on chan *message
}

type tapped struct {
	mcp.Connection
	on chan *message
}

func (t *tap) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	return &tapped{conn, t.on}, err
}

func (t *tapped) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := t.Connection.Read(ctx)
		if req, ok := msg.(*jsonrpc.Request); ok && strings.HasPrefix(req.Method, "notifications/events/") {
			raw, err := jsonrpc.EncodeMessage(req)
			if err != nil {
				return nil, err
			}
			m, err := parse(string(raw))
			if err != nil {
				return nil, err
			}
			t.on <- m
			continue
		}
		return msg, err
	}
}

// connect connects the SDK's client in a revision of the protocol. What comes
// of events can be read from on.
func (d *daemon) connect(version string) (session *mcp.ClientSession, on <-chan *message) {
	d.t.Helper()
	heard := make(chan *message, 1000)
	client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, nil)
	for _, method := range []string{"events/list", "events/poll", "events/stream", "events/subscribe"} {
		if err := mcp.AddSendingCustomMethod[*eventsParams, *eventsResult](client, method); err != nil {
			d.t.Fatal(err)
		}
	}
	session, err := client.Connect(d.t.Context(),
		&tap{&mcp.StreamableClientTransport{Endpoint: d.url, HTTPClient: d.http}, heard},
		&mcp.ClientSessionOptions{ProtocolVersion: version})
	if err != nil {
		d.t.Fatalf("connect in %s: %v", version, err)
	}
	d.t.Cleanup(func() { _ = session.Close() })
	return session, heard
}

func (d *daemon) events(session *mcp.ClientSession, method string, p *eventsParams) (*eventsResult, error) {
	return mcp.CallCustomMethod[*eventsParams, *eventsResult](d.t.Context(), session, method, p)
}

func useTool(ctx context.Context, session *mcp.ClientSession, name string, args any, out any) (*mcp.CallToolResult, error) {
	res, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return nil, err
	}
	return res, json.Unmarshal(b, out)
}

func TestSDKClient(t *testing.T) {
	for _, version := range []string{"2025-06-18", legacy, modern} {
		t.Run(version, func(t *testing.T) {
			d := newDaemon(t, settings{})
			d.flush.marked = []string{"open"}
			session, _ := d.connect(version)
			info := session.InitializeResult()
			if info.ProtocolVersion != version || info.ServerInfo.Name != "attend" || info.Capabilities.Extensions[extensionName] == nil {
				t.Errorf("connected to %+v", info)
			}
			if hasSession := session.ID() != ""; hasSession != (version < modern) {
				t.Errorf("a session: %t", hasSession)
			}
			tools, err := session.ListTools(t.Context(), nil)
			if err != nil || len(tools.Tools) != 5 {
				t.Fatalf("tools: %v, %v", tools, err)
			}

			list, err := d.events(session, "events/list", &eventsParams{})
			if err != nil || len(list.Events) != 2 || list.Events[0].Name != "attention.decision" {
				t.Fatalf("events/list: %+v, %v", list, err)
			}
			now, err := d.events(session, "events/poll", &eventsParams{Name: "attention.decision"})
			if err != nil || len(now.Events) != 0 {
				t.Fatalf("events/poll from now: %+v, %v", now, err)
			}
			d.decide("a", engine.Interrupt, nil)
			d.decide("a", engine.Queue, nil)
			one := 1
			polled, err := d.events(session, "events/poll", &eventsParams{Name: "attention.decision", Cursor: &now.Cursor, MaxEvents: &one, Arguments: map[string]any{"scope": "a"}})
			if err != nil || len(polled.Events) != 1 || !polled.HasMore || polled.Events[0].Data.Route != engine.Interrupt {
				t.Fatalf("events/poll: %+v, %v", polled, err)
			}

			var waited waitResult
			if _, err := useTool(t.Context(), session, "attend_wait", map[string]any{"cursor": now.Cursor}, &waited); err != nil {
				t.Fatal(err)
			}
			if len(waited.Decisions) != 2 || waited.Decisions[1].ID != "d2" {
				t.Errorf("attend_wait: %+v", waited)
			}
			var flushed flushResult
			if _, err := useTool(t.Context(), session, "attend_flush", map[string]any{"scope": "a"}, &flushed); err != nil || !cmp.Equal(flushed.Marked, []string{"open"}) {
				t.Errorf("attend_flush: %+v, %v", flushed, err)
			}
			d.push.answer = Pushed{Accepted: 1}
			var pushed Pushed
			event := map[string]any{"scope": "a", "name": "x", "data": map[string]any{"n": 1}}
			if _, err := useTool(t.Context(), session, "attend_push", map[string]any{"events": []any{event}}, &pushed); err != nil || pushed.Accepted != 1 {
				t.Errorf("attend_push: %+v, %v", pushed, err)
			}
		})
	}
}

func TestSDKClient_ErrorsKeepCodeAndData(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, version := range []string{legacy, modern} {
		session, _ := d.connect(version)
		empty := ""
		for _, c := range []struct {
			method string
			params eventsParams
			code   int64
			data   string
		}{
			{"events/poll", eventsParams{Name: "nope"}, -32023, `{"kind":"event","name":"nope"}`},
			{"events/poll", eventsParams{Name: "attention.decision", Cursor: &empty}, -32602, `{"path":"/cursor","reason":"must be a string of at least 1 characters"}`},
			{"events/subscribe", eventsParams{Name: "attention.decision"}, -32026, `{"feature":"delivery","value":"webhook"}`},
		} {
			_, err := d.events(session, c.method, &c.params)
			var wire *jsonrpc.Error
			if !errors.As(err, &wire) {
				t.Errorf("%s %s: got %v, not an error of the wire", version, c.method, err)
				continue
			}
			if wire.Code != c.code || string(wire.Data) != c.data {
				t.Errorf("%s %s: got %d with %s, want %d with %s", version, c.method, wire.Code, wire.Data, c.code, c.data)
			}
		}
	}
}

func TestSDKClient_Cancels(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, version := range []string{legacy, modern} {
		session, _ := d.connect(version)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := useTool(ctx, session, "attend_wait", map[string]any{"timeoutMs": 240000}, &waitResult{})
			done <- err
		}()
		eventually(t, "the call waits", func() bool { return d.waiting() == 1 })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", version, err)
		}
		began := time.Now()
		eventually(t, "the server notices", func() bool { return d.waiting() == 0 })
		t.Logf("%s: noticed after %s", version, time.Since(began).Round(time.Millisecond))
		// The session is none the worse for it.
		if _, err := d.events(session, "events/list", &eventsParams{}); err != nil {
			t.Errorf("%s: afterwards: %v", version, err)
		}
	}
}

// heard returns the next of a kind that a client was sent, heartbeats aside.
func heard(t *testing.T, on <-chan *message, kind string) *message {
	t.Helper()
	for {
		select {
		case m := <-on:
			if m.kind() == "heartbeat" {
				continue
			}
			if m.kind() != kind {
				t.Fatalf("heard %s, want %s", m.raw, kind)
			}
			return m
		case <-time.After(30 * time.Second):
			t.Fatalf("nothing is heard, want %s", kind)
		}
	}
}

func TestSDKClient_Streams(t *testing.T) {
	for _, version := range []string{"2025-06-18", legacy, modern} {
		t.Run(version, func(t *testing.T) {
			d := newDaemon(t, settings{})
			session, on := d.connect(version)
			type end struct {
				stream string
				result *eventsResult
				err    error
			}
			ended := make(chan end, 2)
			stream := func(ctx context.Context, name, scope string) {
				res, err := mcp.CallCustomMethod[*eventsParams, *eventsResult](ctx, session, "events/stream",
					&eventsParams{Name: "attention.decision", Arguments: map[string]any{"scope": scope}})
				ended <- end{name, res, err}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go stream(ctx, "first", "a")
			first := heard(t, on, "active").subscription()
			go stream(t.Context(), "second", "b")
			second := heard(t, on, "active").subscription()
			if first == "" || first == second {
				t.Fatalf("two streams have the ids %q, %q", first, second)
			}
			d.decide("a", engine.Queue, nil)
			d.decide("b", engine.Interrupt, nil)
			got := map[string]string{}
			for range 2 {
				m := heard(t, on, "event")
				got[m.subscription()] = m.Params.EventID
			}
			if diff := cmp.Diff(map[string]string{first: "d1", second: "d2"}, got); diff != "" {
				t.Error(diff)
			}

			cancel()
			if e := <-ended; e.stream != "first" || !errors.Is(e.err, context.Canceled) {
				t.Errorf("cancelled: %+v", e)
			}
			eventually(t, "the server notices", func() bool { return d.gauge("attend_event_streams") == 1 })
			d.decide("a", engine.Queue, nil)
			d.decide("b", engine.Queue, nil)
			if m := heard(t, on, "event"); m.subscription() != second || m.Params.EventID != "d4" {
				t.Errorf("the other stream goes on with %s", m.raw)
			}
			if _, err := d.events(session, "events/list", &eventsParams{}); err != nil {
				t.Errorf("beside a stream: %v", err)
			}
			d.stop()
			if e := <-ended; e.stream != "second" || e.err != nil || e.result == nil {
				t.Errorf("when the daemon stops: %+v", e)
			}
		})
	}
}
