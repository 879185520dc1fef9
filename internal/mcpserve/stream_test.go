package mcpserve

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
	"attend/internal/store/memory"
)

const decisions = `"name":"attention.decision"`

func TestStream_FromNowToTheEnd(t *testing.T) {
	for _, era := range []string{legacy, modern} {
		for _, id := range []string{`7`, `"seven"`} {
			t.Run(era+" "+id, func(t *testing.T) {
				d := newDaemon(t, settings{})
				d.decide("a", engine.Queue, nil)
				h, body := requestID(era, "events/stream", decisions, id)
				r := d.open(http.MethodPost, h, body)
				if r.status != 200 || r.header.Get("Content-Type") != "text/event-stream" || r.header.Get("Cache-Control") != "no-cache, no-transform" || r.header.Get("X-Accel-Buffering") != "no" {
					t.Errorf("status %d, headers %v", r.status, r.header)
				}
				active := r.want("active")
				if active.Params.Cursor != d.cursor(1) || *active.Params.Truncated {
					t.Errorf("active: %s", active.raw)
				}
				d.decide("a", engine.Interrupt, nil)
				d.giveUp("a")
				d.decide("b", engine.Note, nil)
				first, second := r.want("event"), r.want("event")
				if first.Params.EventID != "d2" || first.Params.Cursor != d.cursor(2) || second.Params.EventID != "d4" || second.Params.Cursor != d.cursor(4) {
					t.Errorf("events: %s\n%s", first.raw, second.raw)
				}
				if first.Params.Name != "attention.decision" || first.Params.Timestamp != "2025-12-01T00:00:00.123Z" || first.Params.Data["route"] != "interrupt" {
					t.Errorf("event: %s", first.raw)
				}
				d.fits("attention.decision", first.Params.Data)
				if n := d.gauge("attend_event_streams"); n != 1 {
					t.Errorf("%v streams are counted", n)
				}
				d.stop()
				result := r.want("result")
				if string(result.ID) != id || result.Result["resultType"] != "complete" {
					t.Errorf("result: %s", result.raw)
				}
				meta := result.Result["_meta"].(map[string]any)
				if got := fmt.Sprintf("%#v", meta[mcp.MetaKeySubscriptionID]); got != id {
					t.Errorf("the result's subscription is %s", got)
				}
				if (meta[mcp.MetaKeyServerInfo] != nil) != (era == modern) {
					t.Errorf("server info: %s", result.raw)
				}
				for _, m := range []*message{active, first, second} {
					if m.subscription() != id || len(m.Params.Meta) != 1 {
						t.Errorf("the subscription of %s is %s, want %s", m.kind(), m.subscription(), id)
					}
				}
				r.end()
				eventually(t, "it is counted no longer", func() bool { return d.gauge("attend_event_streams") == 0 })
			})
		}
	}
}

func TestStream_EveryTypeAndFilter(t *testing.T) {
	d := newDaemon(t, settings{})
	cases := []struct{ params, want string }{
		{decisions, "d1 d3 d4"},
		{decisions + `,"arguments":{"scope":"repo/*"}`, "d3 d4"},
		{decisions + `,"arguments":{"routes":["skip"]}`, "d2"},
		{decisions + `,"arguments":{"minConfidence":0.5}`, "d1 d4"},
		{`"name":"attention.deadLetter"`, "l5 l6"},
		{`"name":"attention.deadLetter","arguments":{"scope":["repo/1"]}`, "l6"},
	}
	live := make([]*reader, len(cases))
	for i, c := range cases {
		live[i] = d.stream(modern, c.params)
		live[i].want("active")
	}
	sure := 0.9
	d.decide("chat/1", engine.Interrupt, func(d *engine.Decision) { d.Confidence = &sure })
	d.decide("chat/2", engine.Skip, nil)
	d.decide("repo/1", engine.Note, nil)
	d.decide("repo/1", engine.Queue, func(d *engine.Decision) { d.Changed = []engine.Change{engine.ChangedByFloor} })
	d.giveUp("chat/1")
	d.giveUp("repo/1")
	for i, c := range cases {
		late := d.stream(legacy, fmt.Sprintf(`%s,"cursor":%q`, c.params, d.cursor(0)))
		late.want("active")
		for how, r := range map[string]*reader{"as it comes": live[i], "from the log": late} {
			want := strings.Fields(c.want)
			if diff := cmp.Diff(want, r.events(len(want))); diff != "" {
				t.Errorf("{%s} %s: %s", c.params, how, diff)
			}
		}
	}
}

func TestStream_CarriesWhatAPollDoes(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, name := range []string{"attention.decision", "attention.deadLetter"} {
		live := d.stream(modern, fmt.Sprintf(`"name":%q`, name))
		at := live.want("active").Params.Cursor
		d.decide("a", engine.Queue, nil)
		d.giveUp("a")
		late := d.stream(modern, fmt.Sprintf(`"name":%q,"cursor":%q`, name, at))
		late.want("active")
		poll := d.poll(modern, fmt.Sprintf(`"name":%q,"cursor":%q`, name, at))
		for _, r := range []*reader{live, late} {
			m := r.want("event")
			d.fits(name, m.Params.Data)
			if strings.Contains(m.raw, "sauce") {
				t.Errorf("an event's data crosses: %s", m.raw)
			}
			if diff := cmp.Diff(poll.Events[0].Data, m.Params.Data); diff != "" {
				t.Errorf("%s: data differs from a poll's: %s", name, diff)
			}
		}
	}
}

// Whoever comes back with the cursor of any message it got misses nothing and
// sees nothing twice, however far it is behind.
func TestStream_ResumesFromEveryCursor(t *testing.T) {
	d := newDaemon(t, settings{options: func(o *Options) { o.Heartbeat = 5 * time.Millisecond }})
	const n = 400 // more than are kept in memory
	var want []string
	for i := range n {
		d.decide("a", engine.Queue, nil)
		want = append(want, fmt.Sprintf("d%d", i+1))
	}
	whole := d.stream(modern, fmt.Sprintf(`%s,"cursor":%q`, decisions, d.cursor(0)))
	cursors := []string{whole.want("active").Params.Cursor}
	for range n {
		cursors = append(cursors, whole.want("event").Params.Cursor)
	}
	for len(cursors) < n+2 {
		if m := whole.want("heartbeat"); m.Params.Cursor == d.cursor(n) {
			cursors = append(cursors, m.Params.Cursor)
		}
	}
	for i := 0; i < len(cursors); i += 80 {
		seen := min(i, n)
		r := d.stream(modern, fmt.Sprintf(`%s,"cursor":%q`, decisions, cursors[i]))
		if m := r.want("active"); m.Params.Cursor != cursors[i] || *m.Params.Truncated {
			t.Errorf("from cursor %d: %s", i, m.raw)
		}
		if diff := cmp.Diff(want[seen:], r.events(n-seen)); diff != "" {
			t.Errorf("from cursor %d: %s", i, diff)
		}
		r.close()
	}
}

func TestStream_TruncatedAtTheStart(t *testing.T) {
	now := &clock{now: time.UnixMilli(1764547200000)}
	d := newDaemon(t, settings{
		options: func(o *Options) { o.Now = now.Now },
		log:     func(st *memory.Store) feedStore { return &aged{Store: st, before: 2} },
	})
	for range 4 {
		d.decide("a", engine.Queue, nil)
	}
	written, err := d.store.Steps(t.Context(), store.StepQuery{})
	if err != nil {
		t.Fatal(err)
	}
	now.turn(time.UnixMilli(int64(written[3].Stamp)).Add(time.Hour).Sub(now.Now()))
	cursor := func(c string) string { return fmt.Sprintf(`%s,"cursor":%q`, decisions, c) }
	for name, c := range map[string]struct {
		params    string
		from      engine.Position
		truncated bool
	}{
		"no cursor":                {decisions, 4, false},
		"no cursor, an age":        {decisions + `,"maxAgeMs":1`, 4, false},
		"kept":                     {cursor(d.cursor(2)), 2, false},
		"kept, old enough":         {cursor(d.cursor(2)) + `,"maxAgeMs":7200000`, 2, false},
		"no longer kept":           {cursor(d.cursor(1)), 2, true},
		"too old":                  {cursor(d.cursor(2)) + `,"maxAgeMs":1000`, 4, true},
		"too old, but at the head": {cursor(d.cursor(4)) + `,"maxAgeMs":1000`, 4, false},
		"of another log":           {cursor(feed.Cursor{Epoch: "before the restore"}.Encode()), 4, true},
		"ahead of the log":         {cursor(d.cursor(99)), 4, true},
	} {
		r := d.stream(modern, c.params)
		m := r.want("active")
		if m.Params.Cursor != d.cursor(c.from) || *m.Params.Truncated != c.truncated {
			t.Errorf("%s: %s; want a stream from %d, truncated %t", name, m.raw, c.from, c.truncated)
		}
		var want []string
		for i := c.from; i < 4; i++ {
			want = append(want, fmt.Sprintf("d%d", i+1))
		}
		if diff := cmp.Diff(want, r.events(len(want)), cmp.Comparer(slices.Equal[[]string])); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		r.close()
	}
}

// aged is a store whose oldest records are gone.
type aged struct {
	*memory.Store
	before engine.Position // records up to here are gone
}

func (a *aged) Kept(context.Context) (store.Kept, error) {
	return store.Kept{Events: a.before, Steps: a.before}, nil
}

func (a *aged) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	return a.Store.Read(ctx, max(after, a.before), limit)
}

func (a *aged) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	q.After = max(q.After, a.before)
	return a.Store.Steps(ctx, q)
}

// A stream falls behind what is kept in memory, and the log loses what the
// stream has not read.
func TestStream_TruncatedInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log *aged
		d := newBare(t, settings{log: func(st *memory.Store) feedStore {
			log = &aged{Store: st}
			return log
		}})
		ctx, cancel := context.WithCancel(t.Context())
		h, body := request(modern, "events/stream", decisions)
		on, done := d.watch(ctx, h, body)
		synctest.Wait()
		d.decide("a", engine.Queue, nil)
		synctest.Wait()
		on.pause()
		d.decide("a", engine.Queue, nil)
		synctest.Wait() // the stream is stuck in the middle of d2
		for range 300 {
			d.decide("a", engine.Queue, nil)
		}
		synctest.Wait()
		log.before = 100
		on.proceed()
		synctest.Wait()
		cancel()
		<-done
		all := on.read(t)
		if diff := cmp.Diff([]string{"active", "event", "event", "active", "event"}, kinds(all)[:5]); diff != "" {
			t.Fatal(diff)
		}
		if again := all[3]; again.Params.Cursor != d.cursor(100) || !*again.Params.Truncated {
			t.Errorf("the fresh start: %s", again.raw)
		}
		ids := eventIDs(all)
		if len(ids) != 2+202 || ids[2] != "d101" || ids[len(ids)-1] != "d302" {
			t.Errorf("got %v", ids)
		}
	})
}

func TestStream_Heartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBare(t, settings{})
		ctx, cancel := context.WithCancel(t.Context())
		h, body := request(modern, "events/stream", decisions+`,"arguments":{"scope":"mine"}`)
		began := time.Now()
		on, done := d.watch(ctx, h, body)
		time.Sleep(time.Second)
		d.decide("theirs", engine.Queue, nil) // nothing for this stream, but the log has moved
		time.Sleep(14 * time.Second)
		synctest.Wait()
		all := on.read(t)
		if diff := cmp.Diff([]string{"active", "heartbeat"}, kinds(all)); diff != "" {
			t.Fatal(diff)
		}
		if all[1].Params.Cursor != d.cursor(1) || all[1].subscription() != "1" {
			t.Errorf("after 15 seconds: %s; want the cursor %s", all[1].raw, d.cursor(1))
		}
		// They come whether or not events do, and not more often for that.
		for time.Since(began) < 5*time.Minute {
			d.decide("mine", engine.Queue, nil)
			time.Sleep(time.Second)
		}
		beats := 0
		for _, kind := range kinds(on.read(t)) {
			if kind == "heartbeat" {
				beats++
			}
		}
		if beats != 20 && beats != 19 {
			t.Errorf("%d heartbeats in 5 minutes, want one every 15 seconds", beats)
		}
		cancel()
		<-done
	})
}

func TestStream_HeartbeatsPassEventsThatAreNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBare(t, settings{})
		ctx, cancel := context.WithCancel(t.Context())
		h, body := request(modern, "events/stream", decisions)
		on, done := d.watch(ctx, h, body)
		synctest.Wait()
		if _, err := d.store.Append(ctx, store.Entry{Events: []store.NewEvent{{Scope: "a", Event: engine.Event{ID: "e", Name: "x", Kind: engine.Consequence}}}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		all := on.read(t)
		if last := all[len(all)-1]; last.kind() != "heartbeat" || last.Params.Cursor != d.cursor(1) {
			t.Errorf("the last message is %s; want a heartbeat at the head, %s", last.raw, d.cursor(1))
		}
		cancel()
		<-done
	})
}

// downLog is a store that does not answer while it is down.
type downLog struct {
	*memory.Store
	down atomic.Bool
}

func (l *downLog) Head(ctx context.Context) (store.Head, error) {
	if l.down.Load() {
		return store.Head{}, fmt.Errorf("disk at /secret/path: %w", store.ErrUnavailable)
	}
	return l.Store.Head(ctx)
}

func TestStream_GoesOnAfterTrouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log *downLog
		d := newBare(t, settings{log: func(st *memory.Store) feedStore {
			log = &downLog{Store: st}
			return log
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var on [3]*screen
		var done [3]<-chan struct{}
		for i := range on {
			h, body := request(modern, "events/stream", decisions)
			on[i], done[i] = d.watch(ctx, h, body)
		}
		synctest.Wait()
		log.down.Store(true)
		d.decide("a", engine.Queue, nil)
		time.Sleep(40 * time.Second)
		log.down.Store(false)
		time.Sleep(2 * time.Second)
		d.decide("a", engine.Queue, nil)
		synctest.Wait()
		for i := range on {
			all := on[i].read(t)
			if diff := cmp.Diff([]string{"active", "error", "heartbeat", "heartbeat", "event", "heartbeat", "event"}, kinds(all)); diff != "" {
				t.Fatal(diff)
			}
			if bad := all[1].Params.Error; bad.Code != -32603 || bad.Message == "" || strings.Contains(all[1].raw, "secret") || all[1].subscription() != "1" {
				t.Errorf("error: %s", all[1].raw)
			}
			if diff := cmp.Diff([]string{"d1", "d2"}, eventIDs(all)); diff != "" {
				t.Error(diff)
			}
			if all[5].Params.Cursor != d.cursor(1) {
				t.Errorf("the heartbeat after it is at %s", all[5].raw)
			}
		}
		if logged := d.log.String(); strings.Count(logged, "secret/path") != 1 {
			t.Errorf("the operator is told once, not for each stream: %s", logged)
		}
		cancel()
		for i := range done {
			<-done[i]
		}
	})
}

func TestStream_EndsWithTheCallersRights(t *testing.T) {
	revoked := make(chan struct{})
	d := newDaemon(t, settings{options: func(o *Options) {
		o.Caller = func(context.Context) Caller { return Caller{Name: "ann", Revoked: revoked} }
	}})
	r, listening := d.stream(legacy, decisions), d.listen(`{"eventsListChanged":true}`)
	r.want("active")
	listening.want("notifications/subscriptions/acknowledged")
	close(revoked)
	m := r.want("terminated")
	if m.Params.Error.Code != -32024 || m.Params.Error.Data["reason"] != "revoked" || m.subscription() != "1" {
		t.Errorf("terminated: %s", m.raw)
	}
	r.want("result")
	r.end()
	listening.want("result")
	listening.end()
}

func TestStream_NothingAfterACancel(t *testing.T) {
	d := newDaemon(t, settings{})
	session := d.initialize(nil)
	_, body := requestID(legacy, "events/stream", decisions, `"s"`)
	r := d.open(http.MethodPost, session, body)
	_, body = requestID(legacy, "events/stream", decisions, `8`)
	other := d.open(http.MethodPost, session, body)
	r.want("active")
	other.want("active")
	if dup := d.post(session, body); dup.status != 400 || dup.msg.Error == nil || dup.msg.Error.Code != -32600 {
		t.Errorf("the same id again: status %d: %s", dup.status, dup.body)
	}
	if got := d.post(session, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}`); got.status != 202 {
		t.Errorf("status %d", got.status)
	}
	r.end()
	eventually(t, "it is gone", func() bool { return d.gauge("attend_event_streams") == 1 })
	d.decide("a", engine.Queue, nil)
	if got := other.events(1); got[0] != "d1" {
		t.Errorf("the other stream got %v", got)
	}
	again := d.open(http.MethodPost, session, strings.Replace(body, `"id":8`, `"id":"s"`, 1))
	again.want("active") // the id is free again
}

func TestStream_NothingAfterACancelWithAFloodWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBare(t, settings{})
		ctx, cancel := context.WithCancel(t.Context())
		h, body := request(modern, "events/stream", decisions)
		on, done := d.watch(ctx, h, body)
		synctest.Wait()
		on.pause()
		for range 50 {
			d.decide("a", engine.Queue, nil)
		}
		synctest.Wait() // it writes the first
		cancel()
		close(d.stopping)
		on.proceed()
		<-done
		if got := kinds(on.read(t)); len(got) > 2 || slices.Contains(got, "result") {
			t.Errorf("after the cancel came %v", got)
		}
	})
}

func TestStream_EndsWithItsSession(t *testing.T) {
	d := newDaemon(t, settings{})
	session := d.initialize(nil)
	_, body := request(legacy, "events/stream", decisions)
	r := d.open(http.MethodPost, session, body)
	r.want("active")
	if got, err := d.send(t.Context(), http.MethodDelete, session, ""); err != nil || got.status != 204 {
		t.Fatal(got, err)
	}
	r.want("result") // the client has not given up this request: some wait for ever
	r.end()
}

func TestStream_AClientThatGoesIsNoticed(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, era := range []string{legacy, modern} {
		r := d.stream(era, decisions)
		r.want("active")
		if n := d.gauge("attend_event_streams"); n != 1 {
			t.Fatalf("%v streams", n)
		}
		r.close()
		eventually(t, "it is gone", func() bool { return d.gauge("attend_event_streams") == 0 })
	}
}

func TestStream_Bound(t *testing.T) {
	d := newDaemon(t, settings{streams: 2})
	r := d.stream(modern, decisions)
	r.want("active")
	d.stream(modern, decisions).want("active")
	for _, era := range []string{legacy, modern} {
		refused := d.call(era, "events/stream", decisions)
		if refused.status != 200 || refused.msg.Error == nil || refused.msg.Error.Code != -32025 {
			t.Fatalf("the third: status %d: %s", refused.status, refused.body)
		}
		if diff := cmp.Diff(map[string]any{"limit": "streams", "max": 2.0}, refused.msg.Error.Data); diff != "" {
			t.Error(diff)
		}
	}
	r.close()
	eventually(t, "a place is free", func() bool { return d.gauge("attend_event_streams") == 1 })
	d.stream(modern, decisions).want("active")
}

func TestStream_NeedsAClientThatTakesOne(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, method := range []string{"events/stream", "subscriptions/listen"} {
		h, body := request(modern, method, decisions+`,"notifications":{}`)
		h.Set("Accept", "application/json")
		if r := d.post(h, body); r.status != 400 || r.msg.Error == nil || !strings.Contains(r.msg.Error.Message, "text/event-stream") {
			t.Errorf("%s: status %d: %s", method, r.status, r.body)
		}
	}
}

func TestStream_OnlyWhatTheCallerMaySee(t *testing.T) {
	d := newDaemon(t, settings{options: onlyScopes(RightRead, "mine")})
	r := d.stream(modern, decisions+`,"arguments":{"scope":"*"}`)
	r.want("active")
	d.decide("theirs", engine.Queue, nil)
	d.decide("mine", engine.Queue, nil)
	late := d.stream(modern, fmt.Sprintf(`%s,"cursor":%q`, decisions, d.cursor(0)))
	late.want("active")
	for _, got := range []string{r.events(1)[0], late.events(1)[0]} {
		if got != "d2" {
			t.Errorf("got %s", got)
		}
	}
}

func TestStream_AStuckReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newBare(t, settings{})
		h, body := request(modern, "events/stream", decisions)
		on, done := d.watch(t.Context(), h, body)
		well, ended := d.watch(t.Context(), h, body)
		synctest.Wait()
		on.stick()
		began := time.Now()
		for range 1000 {
			d.decide("a", engine.Queue, nil)
		}
		<-done
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it was dropped after %s, want the 10 seconds of one write", took)
		}
		synctest.Wait()
		if got := len(eventIDs(well.read(t))); got != 1000 {
			t.Errorf("the reader beside it got %d of 1000", got)
		}
		close(d.stopping)
		<-ended
	})
}

// Whatever is decided, whoever reads, however slowly, and however often it is
// cut off and comes back: it sees what it asked for, once and in order.
func TestStream_NobodyMissesAnything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		scopes := rapid.SampledFrom([]string{"a", "b", "c"})
		type visit struct {
			bursts []string // scopes of decisions made while it is there
			away   []string // and of those made before it comes back
			stuck  bool
		}
		visits := make([]visit, rapid.IntRange(1, 3).Draw(rt, "visits"))
		for i := range visits {
			visits[i] = visit{
				bursts: rapid.SliceOfN(scopes, 0, 40).Draw(rt, "bursts"),
				away:   rapid.SliceOfN(scopes, 0, 100).Draw(rt, "away"),
				stuck:  rapid.Bool().Draw(rt, "stuck"),
			}
		}
		glob := rapid.SampledFrom([]string{"*", "a", "?", "b"}).Draw(rt, "glob")
		synctest.Test(t, func(t *testing.T) {
			d := newBare(rt, settings{})
			var want, got []string
			decide := func(scope string) {
				d.decide(scope, engine.Queue, nil)
				if engine.Glob(glob, scope) {
					want = append(want, fmt.Sprintf("d%d", d.made))
				}
			}
			cursor := d.cursor(0)
			for _, v := range visits {
				ctx, cancel := context.WithCancel(t.Context())
				h, body := request(modern, "events/stream", fmt.Sprintf(`%s,"cursor":%q,"arguments":{"scope":%q}`, decisions, cursor, glob))
				on, done := d.watch(ctx, h, body)
				synctest.Wait()
				for i, scope := range v.bursts {
					if v.stuck && i == len(v.bursts)/2 {
						on.stick()
					}
					decide(scope)
				}
				time.Sleep(30 * time.Second)
				cancel()
				<-done
				all := on.read(rt)
				got = append(got, eventIDs(all)...)
				cursor = all[len(all)-1].Params.Cursor
				for _, scope := range v.away {
					decide(scope)
				}
			}
			h, body := request(modern, "events/stream", fmt.Sprintf(`%s,"cursor":%q,"arguments":{"scope":%q}`, decisions, cursor, glob))
			on, done := d.watch(t.Context(), h, body)
			synctest.Wait()
			close(d.stopping)
			<-done
			got = append(got, eventIDs(on.read(rt))...)
			if diff := cmp.Diff(want, got, cmp.Comparer(slices.Equal[[]string])); diff != "" {
				rt.Errorf("(-want +got):\n%s", diff)
			}
		})
	})
}
