package mcpserve

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// initialize opens a session and returns the headers that go with it.
func (d *daemon) initialize(header http.Header) http.Header {
	d.t.Helper()
	_, body := request(legacy, "initialize", `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}`)
	r := d.post(header, body)
	id := r.header.Get(headerSession)
	if r.status != 200 || id == "" {
		d.t.Fatalf("no session: status %d, %s", r.status, r.body)
	}
	session := headers(headerVersion, legacy, headerSession, id)
	for name, values := range header { //arch:sorted into a map
		session[name] = values
	}
	return session
}

// clock is one that tests turn.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) turn(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const listBody = `{"jsonrpc":"2.0","id":1,"method":"events/list"}`

func TestSession_Life(t *testing.T) {
	d := newDaemon(t, settings{})
	session := d.initialize(nil)
	other := d.initialize(nil)
	if session.Get(headerSession) == other.Get(headerSession) {
		t.Fatal("two sessions have one id")
	}
	for _, body := range []string{listBody, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`} {
		if r := d.post(session, body); r.status != 200 {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
	r, err := d.send(t.Context(), http.MethodDelete, session, "")
	if err != nil || r.status != 204 {
		t.Fatalf("DELETE: %v, %+v", err, r)
	}
	for _, body := range []string{listBody, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`} {
		if r := d.post(session, body); r.status != 404 || r.msg.Error == nil {
			t.Errorf("after DELETE: status %d: %s", r.status, r.body)
		}
	}
	if r, err = d.send(t.Context(), http.MethodDelete, session, ""); err != nil || r.status != 404 {
		t.Errorf("DELETE again: %v, %+v", err, r)
	}
	if r := d.post(other, listBody); r.status != 200 {
		t.Errorf("the other session: status %d", r.status)
	}
	if n := d.gauge("attend_mcp_sessions"); n != 1 {
		t.Errorf("%v sessions are open, want 1", n)
	}
}

func TestSession_Unknown(t *testing.T) {
	d := newDaemon(t, settings{})
	if r := d.post(headers(headerSession, "made-up"), listBody); r.status != 404 || string(r.msg.ID) != "1" {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	h, body := request(modern, "events/list", "")
	h.Set(headerSession, "made-up")
	if r := d.post(h, body); r.status != 200 || r.header.Get(headerSession) != "" {
		t.Errorf("%s knows no sessions: status %d", modern, r.status)
	}
}

func TestSession_IsItsOwners(t *testing.T) {
	d := newDaemon(t, settings{
		options: func(o *Options) {
			o.Caller = func(ctx context.Context) Caller { return Caller{Name: ctx.Value(nameKey{}).(string)} }
		},
		wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), nameKey{}, r.Header.Get("X-Name"))))
			})
		},
	})
	ann := d.initialize(headers("X-Name", "ann"))
	if r := d.post(ann, listBody); r.status != 200 {
		t.Fatalf("status %d", r.status)
	}
	bob := ann.Clone()
	bob.Set("X-Name", "bob")
	if r := d.post(bob, listBody); r.status != 404 {
		t.Errorf("with another's session: status %d", r.status)
	}
	if r, err := d.send(t.Context(), http.MethodDelete, bob, ""); err != nil || r.status != 404 {
		t.Errorf("ending another's session: %v, %+v", err, r)
	}
	if r := d.post(ann, listBody); r.status != 200 {
		t.Errorf("the owner afterwards: status %d", r.status)
	}
}

type nameKey struct{}

func TestSession_IdleExpiry(t *testing.T) {
	now := &clock{now: time.UnixMilli(1764547200000)}
	d := newDaemon(t, settings{options: func(o *Options) { o.Now, o.SessionIdle = now.Now, time.Hour }})
	session := d.initialize(nil)
	for range 3 {
		now.turn(time.Hour - time.Millisecond)
		if r := d.post(session, listBody); r.status != 200 {
			t.Fatalf("each request keeps it: status %d", r.status)
		}
	}
	now.turn(time.Hour - time.Millisecond)
	if r := d.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); r.status != 202 {
		t.Fatalf("a notification: status %d", r.status)
	}
	now.turn(time.Hour - time.Millisecond)
	if r := d.post(session, listBody); r.status != 200 {
		t.Fatalf("a notification keeps it, too: status %d", r.status)
	}
	now.turn(time.Hour)
	if r := d.post(session, listBody); r.status != 404 {
		t.Errorf("after an idle hour: status %d", r.status)
	}
}

func TestSessions_ARequestInFlightKeepsIt(t *testing.T) {
	now := &clock{now: time.UnixMilli(0)}
	s := newSessions(10, time.Hour, now.Now)
	id := s.open("ann", 0)
	leave, known, fresh := s.enter(id, "ann", callWithID(t, 1), func(error) {})
	if !known || !fresh {
		t.Fatal("not taken in")
	}
	now.turn(5 * time.Hour)
	if _, known, _ := s.enter(id, "ann", callWithID(t, 2), func(error) {}); !known {
		t.Error("expired under a request")
	}
	leave()
}

func TestSessions_TheIdlestMakesRoom(t *testing.T) {
	now := &clock{now: time.UnixMilli(0)}
	s := newSessions(3, time.Hour, now.Now)
	busy := s.open("ann", 0)
	if _, known, _ := s.enter(busy, "ann", callWithID(t, 1), func(error) {}); !known {
		t.Fatal("not taken in")
	}
	now.turn(time.Minute)
	idle := s.open("ann", 0)
	now.turn(time.Minute)
	young := s.open("ann", 0)
	now.turn(time.Minute)
	newest := s.open("ann", 0)
	for id, want := range map[string]bool{busy: true, idle: false, young: true, newest: true} {
		if _, known, _ := s.enter(id, "ann", callWithID(t, 9), func(error) {}); known != want {
			t.Errorf("known %t, want %t", known, want)
		}
	}
	if s.count() > 3 {
		t.Errorf("%d sessions, want at most 3", s.count())
	}
}

func callWithID(t *testing.T, id int) *jsonrpc.Request {
	t.Helper()
	made, err := jsonrpc.MakeID(float64(id))
	if err != nil {
		t.Fatal(err)
	}
	return &jsonrpc.Request{ID: made, Method: "tools/call"}
}

// inBackground sends a request and gives its reply, nil when it was cut off.
func (d *daemon) inBackground(ctx context.Context, header http.Header, body string) <-chan *reply {
	done := make(chan *reply, 1)
	go func() {
		r, err := d.send(ctx, http.MethodPost, header, body)
		if err != nil {
			r = nil
		}
		done <- r
	}()
	return done
}

// longWait is a call of attend_wait that nothing ends by itself for a while.
func longWait(era, id string) (http.Header, string) {
	h, body := requestID(era, "tools/call", `"name":"attend_wait","arguments":{"timeoutMs":240000}`, id)
	h.Set("Mcp-Name", "attend_wait")
	return h, body
}

func TestCancel_ByTheClientGoing(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, era := range []string{legacy, modern} {
		t.Run(era, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			h, body := longWait(era, "1")
			done := d.inBackground(ctx, h, body)
			eventually(t, "the call waits", func() bool { return d.waiting() == 1 })
			cancel()
			<-done
			eventually(t, "the server notices", func() bool { return d.waiting() == 0 })
		})
	}
}

func TestCancel_ByNotification(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, id := range []string{`77`, `"seventy-seven"`} {
		session, other := d.initialize(nil), d.initialize(nil)
		_, body := longWait(legacy, id)
		done := d.inBackground(t.Context(), session, body)
		eventually(t, "the call waits", func() bool { return d.waiting() == 1 })
		cancelled := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":` + id + `}}`
		unknown := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":78}}`
		d.post(other, cancelled) // each session has ids of its own
		d.post(session, unknown)
		d.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled"}`)
		d.post(headers(), cancelled) // and without a session there is nothing to cancel
		if n := d.waiting(); n != 1 {
			t.Fatalf("somebody else's cancellation ended the call: %v wait", n)
		}
		if r := d.post(session, cancelled); r.status != 202 {
			t.Errorf("status %d", r.status)
		}
		eventually(t, "the call ends", func() bool { return d.waiting() == 0 })
		if r := <-done; r == nil || r.body != "" {
			t.Errorf("a cancelled request is not answered, got %+v", r)
		}
	}
}

func TestCancel_ByTheEndOfTheSession(t *testing.T) {
	d := newDaemon(t, settings{})
	session := d.initialize(nil)
	_, body := longWait(legacy, "1")
	done := d.inBackground(t.Context(), session, body)
	eventually(t, "the call waits", func() bool { return d.waiting() == 1 })
	if r, err := d.send(t.Context(), http.MethodDelete, session, ""); err != nil || r.status != 204 {
		t.Fatal(r, err)
	}
	eventually(t, "the call ends", func() bool { return d.waiting() == 0 })
	<-done
}

func TestSession_OneRequestAnID(t *testing.T) {
	d := newDaemon(t, settings{})
	session := d.initialize(nil)
	_, body := longWait(legacy, "5")
	done := d.inBackground(t.Context(), session, body)
	eventually(t, "the call waits", func() bool { return d.waiting() == 1 })
	same := `{"jsonrpc":"2.0","id":5,"method":"events/list"}`
	if r := d.post(session, same); r.status != 400 || r.msg.Error == nil || r.msg.Error.Code != -32600 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if r := d.post(session, `{"jsonrpc":"2.0","id":"5","method":"events/list"}`); r.status != 200 {
		t.Errorf("a string is another id: status %d", r.status)
	}
	d.stop()
	<-done
	if r := d.post(session, same); r.status != 200 {
		t.Errorf("once it is over the id is free: status %d: %s", r.status, r.body)
	}
}
