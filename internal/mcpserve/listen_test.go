package mcpserve

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listen opens subscriptions/listen; filter is a JSON object.
func (d *daemon) listen(filter string) *reader {
	d.t.Helper()
	h, body := requestID(modern, "subscriptions/listen", `"notifications":`+filter, `"l1"`)
	return d.open(http.MethodPost, h, body)
}

const acknowledged = "notifications/subscriptions/acknowledged"

func TestListen_ToldOfChangedEventTypes(t *testing.T) {
	d := newDaemon(t, settings{})
	r := d.listen(`{"toolsListChanged":true,"eventsListChanged":true,"resourceSubscriptions":["file:///x"],"tomorrowsListChanged":true}`)
	ack := r.want(acknowledged)
	if diff := cmp.Diff(map[string]any{"eventsListChanged": true}, ack.Params.Notifications); diff != "" || ack.subscription() != `"l1"` {
		t.Errorf("acknowledged %s: %s", ack.raw, diff)
	}
	for range 2 {
		d.server.NotifyEventTypesChanged()
		if m := r.want("list_changed"); m.subscription() != `"l1"` {
			t.Errorf("told %s", m.raw)
		}
	}
	if n := d.gauge("attend_mcp_listeners"); n != 1 {
		t.Errorf("%v listeners are counted", n)
	}
	if n := d.gauge("attend_event_streams"); n != 0 {
		t.Errorf("it is counted as a stream of events")
	}
	d.stop()
	result := r.want("result")
	if string(result.ID) != `"l1"` || result.Result["resultType"] != "complete" || result.Result["_meta"].(map[string]any)["io.modelcontextprotocol/subscriptionId"] != "l1" {
		t.Errorf("result: %s", result.raw)
	}
	r.end()
}

func TestListen_NothingToHearOf(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, filter := range []string{`{}`, `{"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true}`, `{"eventsListChanged":false}`, `{"eventsListChanged":null}`} {
		r := d.listen(filter)
		if ack := r.want(acknowledged); len(ack.Params.Notifications) != 0 {
			t.Errorf("%s: acknowledged %s", filter, ack.raw)
		}
		r.want("result")
		r.end()
	}
	mute := newDaemon(t, settings{options: onlyScopes(RightIngest, "mine")})
	r := mute.listen(`{"eventsListChanged":true}`)
	if ack := r.want(acknowledged); len(ack.Params.Notifications) != 0 {
		t.Errorf("without the right to read: acknowledged %s", ack.raw)
	}
}

func TestListen_Refuses(t *testing.T) {
	d := newDaemon(t, settings{options: func(o *Options) { o.MaxListeners = 1 }})
	for params, path := range map[string]string{
		``:                     "/notifications",
		`"notifications":null`: "/notifications",
		`"notifications":[]`:   "/notifications",
		`"notifications":{"eventsListChanged":1}`:            "/notifications/eventsListChanged",
		`"notifications":{"resourceSubscriptions":["a",7]}`:  "/notifications/resourceSubscriptions/1",
		`"notifications":{"resourcesListChanged":"perhaps"}`: "/notifications/resourcesListChanged",
	} {
		r := d.call(modern, "subscriptions/listen", params)
		if r.status != 400 || r.msg.Error == nil || r.msg.Error.Code != -32602 || r.msg.Error.Data["path"] != path {
			t.Errorf("{%s}: status %d: %s; want %s", params, r.status, r.body, path)
		}
	}
	if r := d.call(legacy, "subscriptions/listen", `"notifications":{}`); r.msg.Error == nil || r.msg.Error.Code != -32601 {
		t.Errorf("in %s: %s", legacy, r.body)
	}
	d.listen(`{"eventsListChanged":true}`).want(acknowledged)
	r := d.call(modern, "subscriptions/listen", `"notifications":{"eventsListChanged":true}`)
	if r.msg.Error == nil || r.msg.Error.Code != -32025 || r.msg.Error.Data["limit"] != "listeners" || r.msg.Error.Data["max"] != 1.0 {
		t.Errorf("the second of one: %s", r.body)
	}
	session := d.initialize(nil)
	if r := d.open(http.MethodGet, session, ""); r.status != 429 || r.header.Get("Retry-After") == "" {
		t.Errorf("GET beside it: status %d", r.status)
	}
}

// told is how many changes a session's client knows of.
func (d *daemon) told(session http.Header) uint64 {
	d.server.sessions.mu.Lock()
	defer d.server.sessions.mu.Unlock()
	return d.server.sessions.byID[session.Get(headerSession)].told
}

// get opens the stream of a session.
func (d *daemon) get(session http.Header) *reader {
	d.t.Helper()
	return d.open(http.MethodGet, session, "")
}

func TestGET_ToldOfChangedEventTypes(t *testing.T) {
	d := newDaemon(t, settings{})
	session := d.initialize(nil)
	r := d.get(session)
	if r.status != 200 || r.header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %v", r.status, r.header)
	}
	<-r.comments // it is open
	d.server.NotifyEventTypesChanged()
	if m := r.want("list_changed"); m.raw != `{"jsonrpc":"2.0","method":"notifications/events/list_changed"}` {
		t.Errorf("told %s", m.raw)
	}
	r.close()
	eventually(t, "it is closed", func() bool { return d.gauge("attend_mcp_listeners") == 0 })

	// What changes while no stream is open is told when one is, and once.
	d.server.NotifyEventTypesChanged()
	d.server.NotifyEventTypesChanged()
	r = d.get(session)
	r.want("list_changed")
	d.server.NotifyEventTypesChanged()
	r.want("list_changed")
	eventually(t, "it is noted", func() bool { return d.told(session) == 4 })
	again := d.get(session) // takes over, and has nothing to tell
	<-again.comments
	r.end()
	other := d.get(d.initialize(nil)) // knows all that yet
	<-other.comments
	d.stop()
	again.end()
	other.end()
}

func TestGET_ANewerStreamTakesOver(t *testing.T) {
	d := newDaemon(t, settings{})
	session := d.initialize(nil)
	older := d.get(session)
	<-older.comments
	newer := d.get(session)
	older.end()
	d.server.NotifyEventTypesChanged()
	newer.want("list_changed")
	if r, err := d.send(t.Context(), http.MethodDelete, session, ""); err != nil || r.status != 204 {
		t.Fatal(r, err)
	}
	newer.end()
}

func TestGET_Refuses(t *testing.T) {
	d := newDaemon(t, settings{})
	session := d.initialize(nil)
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"no session":            {headers(), 400},
		"an unknown session":    {headers(headerSession, "made-up"), 404},
		"the later revision":    {headers(headerVersion, modern), 405},
		"a client without SSE":  {headers(headerSession, session.Get(headerSession), "Accept", "application/json"), 406},
		"a client that has any": {headers(headerSession, session.Get(headerSession), "Accept", "*/*"), 200},
	} {
		r := d.get(c.header)
		if r.status != c.status {
			t.Errorf("%s: status %d, want %d", name, r.status, c.status)
		}
		r.close()
	}
}

func TestGET_OnlyTheOwners(t *testing.T) {
	name := "ann"
	d := newDaemon(t, settings{options: func(o *Options) { o.Caller = func(context.Context) Caller { return Caller{Name: name} } }})
	session := d.initialize(nil)
	name = "bob"
	if r := d.get(session); r.status != 404 {
		t.Errorf("with another's session: status %d", r.status)
	}
}

func TestGET_KeepsItsSession(t *testing.T) {
	now := &clock{now: time.UnixMilli(1764547200000)}
	d := newDaemon(t, settings{options: func(o *Options) { o.Now, o.SessionIdle = now.Now, time.Hour }})
	session := d.initialize(nil)
	r := d.get(session)
	<-r.comments
	now.turn(5 * time.Hour)
	if got := d.post(session, listBody); got.status != 200 {
		t.Errorf("with its stream open: status %d", got.status)
	}
	now.turn(5 * time.Hour)
	r.close()
	eventually(t, "it is closed", func() bool { return d.gauge("attend_mcp_listeners") == 0 })
	now.turn(time.Hour - time.Millisecond)
	if got := d.post(session, listBody); got.status != 200 {
		t.Errorf("within an hour after it was closed: status %d", got.status)
	}
	now.turn(time.Hour)
	if got := d.post(session, listBody); got.status != 404 {
		t.Errorf("after an idle hour: status %d", got.status)
	}
}

// Between two changes there may be days: comments keep the connection.
func TestListeners_KeepTheirConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBare(t, settings{})
		h, body := request(modern, "subscriptions/listen", `"notifications":{"eventsListChanged":true}`)
		listening, done := d.watch(t.Context(), h, body)
		session := d.server.sessions.open("", 0)
		getting, ended := d.watch(t.Context(), headers(headerSession, session), "")
		time.Sleep(time.Minute + time.Second)
		for name, on := range map[string]*screen{"listen": listening, "GET": getting} {
			if n := on.count(": keepalive\n\n"); n != 4 {
				t.Errorf("%s: %d comments in a minute, want 4", name, n)
			}
		}
		close(d.stopping)
		<-done
		<-ended
	})
}
