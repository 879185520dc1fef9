package mcpserve

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
)

// polled is what events/poll gives.
type polled struct {
	Events []struct {
		EventID   string         `json:"eventId"`
		Name      string         `json:"name"`
		Timestamp string         `json:"timestamp"`
		Data      map[string]any `json:"data"`
		Cursor    *string        `json:"cursor"`
	} `json:"events"`
	Cursor     string `json:"cursor"`
	Truncated  bool   `json:"truncated"`
	HasMore    bool   `json:"hasMore"`
	NextPollMs *int   `json:"nextPollMs"`
}

func (p *polled) ids() []string {
	list := []string{}
	for i := range p.Events {
		list = append(list, p.Events[i].EventID)
	}
	return list
}

func (d *daemon) poll(era, params string) *polled {
	d.t.Helper()
	r := d.call(era, "events/poll", params)
	if r.status != 200 || r.msg.Error != nil {
		d.t.Fatalf("poll {%s}: status %d: %s", params, r.status, r.body)
	}
	return readPolled(d.t, r)
}

func readPolled(t fataler, r *reply) *polled {
	t.Helper()
	b, err := json.Marshal(r.msg.Result)
	if err != nil {
		t.Fatal(err)
	}
	var p polled
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func (d *daemon) cursor(at engine.Position) string {
	d.t.Helper()
	head, err := d.store.Head(context.Background())
	if err != nil {
		d.t.Fatal(err)
	}
	return feed.Cursor{Epoch: head.Epoch, Position: at}.Encode()
}

func TestList(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, era := range []string{legacy, modern} {
		for _, params := range []string{"", `"cursor":null`} {
			r := d.call(era, "events/list", params)
			events, _ := r.msg.Result["events"].([]any)
			var names []string
			for _, e := range events {
				e := e.(map[string]any)
				names = append(names, e["name"].(string))
				if e["description"] == "" {
					t.Errorf("%v has no description", e["name"])
				}
				if diff := cmp.Diff([]any{"poll", "push"}, e["delivery"]); diff != "" {
					t.Errorf("%v: %s", e["name"], diff)
				}
				if in := e["inputSchema"].(map[string]any); in["type"] != "object" || in["additionalProperties"] != false {
					t.Errorf("%v: the input schema is not closed: %v", e["name"], in)
				}
				if out := e["payloadSchema"].(map[string]any); out["type"] != "object" || out["properties"] == nil {
					t.Errorf("%v: payload schema %v", e["name"], out)
				}
			}
			if diff := cmp.Diff([]string{"attention.decision", "attention.deadLetter"}, names); diff != "" {
				t.Errorf("%s: %s", era, diff)
			}
		}
	}
}

func TestPoll_FromNow(t *testing.T) {
	d := newDaemon(t, settings{})
	d.decide("a", engine.Queue, nil)
	for _, era := range []string{legacy, modern} {
		for _, params := range []string{`"name":"attention.decision"`, `"name":"attention.decision","cursor":null,"arguments":null`} {
			p := d.poll(era, params)
			if len(p.Events) != 0 || p.Cursor != d.cursor(1) || p.HasMore || p.Truncated {
				t.Errorf("%s {%s}: got %+v", era, params, p)
			}
		}
	}
	p := d.poll(modern, `"name":"attention.decision"`)
	d.decide("a", engine.Queue, nil)
	if p = d.poll(modern, fmt.Sprintf(`"name":"attention.decision","cursor":%q`, p.Cursor)); !cmp.Equal(p.ids(), []string{"d2"}) {
		t.Errorf("then got %v", p.ids())
	}
}

func TestPoll_Occurrence(t *testing.T) {
	d := newDaemon(t, settings{})
	d.decide("chat/1", engine.Queue, nil)
	d.giveUp("chat/1")
	for name, id := range map[string]string{"attention.decision": "d1", "attention.deadLetter": "l2"} {
		p := d.poll(modern, fmt.Sprintf(`"name":%q,"cursor":%q`, name, d.cursor(0)))
		if len(p.Events) != 1 {
			t.Fatalf("%s: got %v", name, p.ids())
		}
		e := p.Events[0]
		if e.EventID != id || e.Name != name || e.Timestamp != "2025-12-01T00:00:00.123Z" || e.Cursor != nil {
			t.Errorf("got %+v", e)
		}
		if e.Data["id"] != id || e.Data["scope"] != "chat/1" || e.Data["settled"] != nil || e.Data["members"] != nil {
			t.Errorf("data is %v", e.Data)
		}
		d.fits(name, e.Data)
	}
}

// fits holds a value to an embedded schema, closed on the way so that a field
// that the schema does not know is noticed.
func (d *daemon) fits(name string, value any) {
	d.t.Helper()
	raw, err := readSchema(name)
	if err != nil {
		d.t.Fatal(err)
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, schema); err != nil {
		d.t.Fatal(err)
	}
	closeObjects(schema)
	resolved, err := schema.Resolve(nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := resolved.Validate(value); err != nil {
		d.t.Errorf("does not fit %s: %v", name, err)
	}
}

func closeObjects(s *jsonschema.Schema) {
	if s.Properties != nil && s.AdditionalProperties == nil {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	for _, sub := range s.Properties { //arch:sorted each by itself
		closeObjects(sub)
	}
	for _, sub := range s.AnyOf {
		closeObjects(sub)
	}
	if s.Items != nil {
		closeObjects(s.Items)
	}
}

func TestPoll_Filters(t *testing.T) {
	d := newDaemon(t, settings{})
	sure := func(c float64) func(*engine.Decision) {
		return func(d *engine.Decision) { d.Confidence = &c }
	}
	d.decide("chat/1", engine.Interrupt, sure(0.9))
	d.decide("chat/2", engine.Skip, nil)
	d.decide("repo/1", engine.Note, sure(0.2))
	d.decide("repo/1", engine.Queue, func(d *engine.Decision) { d.Changed = []engine.Change{engine.ChangedByFloor} })
	d.giveUp("chat/1")
	d.giveUp("repo/1")
	for _, c := range []struct {
		name, arguments string
		want            []string
	}{
		{"attention.decision", `{}`, []string{"d1", "d3", "d4"}},
		{"attention.decision", `{"scope":"chat/*"}`, []string{"d1"}},
		{"attention.decision", `{"scope":["chat/1","repo/?"]}`, []string{"d1", "d3", "d4"}},
		{"attention.decision", `{"scope":"nothing"}`, []string{}},
		{"attention.decision", `{"routes":["skip"]}`, []string{"d2"}},
		{"attention.decision", `{"routes":["note","interrupt"]}`, []string{"d1", "d3"}},
		{"attention.decision", `{"minConfidence":0.5}`, []string{"d1", "d4"}},
		{"attention.decision", `{"minConfidence":0.5,"scope":"repo/1"}`, []string{"d4"}},
		{"attention.deadLetter", `{}`, []string{"l5", "l6"}},
		{"attention.deadLetter", `{"scope":"repo/*"}`, []string{"l6"}},
	} {
		for _, era := range []string{legacy, modern} {
			p := d.poll(era, fmt.Sprintf(`"name":%q,"cursor":%q,"arguments":%s`, c.name, d.cursor(0), c.arguments))
			if diff := cmp.Diff(c.want, p.ids()); diff != "" {
				t.Errorf("%s %s %s: %s", era, c.name, c.arguments, diff)
			}
			if p.Cursor != d.cursor(6) {
				t.Errorf("%s %s: the cursor does not pass what did not match", c.name, c.arguments)
			}
		}
	}
}

func TestPoll_Pages(t *testing.T) {
	d := newDaemon(t, settings{})
	for range 5 {
		d.decide("a", engine.Queue, nil)
		d.decide("b", engine.Queue, nil)
	}
	var got []string
	var more []bool
	cursor := d.cursor(0)
	for range 4 {
		p := d.poll(modern, fmt.Sprintf(`"name":"attention.decision","arguments":{"scope":"a"},"maxEvents":2,"cursor":%q`, cursor))
		got, more, cursor = append(got, p.ids()...), append(more, p.HasMore), p.Cursor
		if p.NextPollMs == nil || (*p.NextPollMs == 0) != p.HasMore {
			t.Errorf("nextPollMs is %v, more %t", p.NextPollMs, p.HasMore)
		}
	}
	if diff := cmp.Diff([]string{"d1", "d3", "d5", "d7", "d9"}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]bool{true, true, false, false}, more); diff != "" {
		t.Error(diff)
	}
	for range maxPollEvents {
		d.decide("a", engine.Queue, nil)
	}
	for params, want := range map[string]int{``: defaultPollEvents, `,"maxEvents":null`: defaultPollEvents, `,"maxEvents":1000000`: maxPollEvents} {
		p := d.poll(modern, fmt.Sprintf(`"name":"attention.decision","cursor":%q%s`, d.cursor(0), params))
		if len(p.Events) != want || !p.HasMore {
			t.Errorf("{%s}: got %d events, more %t; want %d", params, len(p.Events), p.HasMore, want)
		}
	}
}

func TestPoll_BytesAreBounded(t *testing.T) {
	d := newDaemon(t, settings{})
	for range 20 {
		d.decide("a", engine.Queue, func(d *engine.Decision) { d.Notice = strings.Repeat("n", 100<<10) })
	}
	r := d.call(modern, "events/poll", fmt.Sprintf(`"name":"attention.decision","cursor":%q`, d.cursor(0)))
	p := readPolled(t, r)
	if len(r.body) > maxPollBytes+maxPollBytes/4 || !p.HasMore || len(p.Events) < 5 {
		t.Errorf("an answer of %d bytes with %d events, more %t", len(r.body), len(p.Events), p.HasMore)
	}
}

func TestPoll_StaleCursors(t *testing.T) {
	d := newDaemon(t, settings{})
	d.decide("a", engine.Queue, nil)
	for name, cursor := range map[string]string{
		"of another epoch":  feed.Cursor{Epoch: "before the restore", Position: 0}.Encode(),
		"ahead of the head": d.cursor(99),
	} {
		p := d.poll(modern, fmt.Sprintf(`"name":"attention.decision","cursor":%q`, cursor))
		if !p.Truncated || len(p.Events) != 0 || p.Cursor != d.cursor(1) {
			t.Errorf("%s: got %+v, want truncated and the head", name, p)
		}
	}
}

func TestPoll_MaxAge(t *testing.T) {
	now := &clock{now: time.UnixMilli(1764547200000)}
	d := newDaemon(t, settings{options: func(o *Options) { o.Now = now.Now }})
	d.decide("a", engine.Queue, nil)
	written, err := d.store.Steps(t.Context(), store.StepQuery{})
	if err != nil {
		t.Fatal(err)
	}
	at := time.UnixMilli(int64(written[0].Stamp))
	for _, c := range []struct {
		age       string
		later     time.Duration
		want      []string
		truncated bool
	}{
		{`1000`, time.Second, []string{"d1"}, false},
		{`1000`, time.Second + time.Millisecond, []string{}, true},
		{`0`, 0, []string{"d1"}, false},
		{`null`, time.Hour, []string{"d1"}, false},
		{`9007199254740991`, time.Hour, []string{"d1"}, false},
	} {
		now.turn(at.Add(c.later).Sub(now.Now()))
		p := d.poll(modern, fmt.Sprintf(`"name":"attention.decision","cursor":%q,"maxAgeMs":%s`, d.cursor(0), c.age))
		if !cmp.Equal(p.ids(), c.want) || p.Truncated != c.truncated || p.Cursor != d.cursor(1) {
			t.Errorf("maxAgeMs %s, %s later: got %v, truncated %t", c.age, c.later, p.ids(), p.Truncated)
		}
	}
}

func TestEvents_Errors(t *testing.T) {
	d := newDaemon(t, settings{})
	d.decide("a", engine.Queue, nil)
	const named = `"name":"attention.decision"`
	arguments := func(s string) string { return named + `,"arguments":` + s }
	for _, c := range []struct {
		method, params string
		code           int64
		data           map[string]any // those members, "*" for anything
	}{
		{"events/poll", ``, -32602, map[string]any{"path": "/name", "reason": "*"}},
		{"events/poll", `"name":7`, -32602, map[string]any{"path": "/name", "reason": "*"}},
		{"events/poll", `"name":"nope"`, -32023, map[string]any{"kind": "event", "name": "nope"}},
		{"events/poll", named + `,"cursor":"zz"`, -32602, map[string]any{"path": "/cursor", "reason": "*"}},
		{"events/poll", named + `,"cursor":""`, -32602, map[string]any{"path": "/cursor", "reason": "must be a string of at least 1 characters"}},
		{"events/poll", named + `,"cursor":7`, -32602, map[string]any{"path": "/cursor", "reason": "*"}},
		{"events/poll", named + `,"maxEvents":0`, -32602, map[string]any{"path": "/maxEvents", "reason": "must be an integer of at least 1"}},
		{"events/poll", named + `,"maxEvents":1.5`, -32602, map[string]any{"path": "/maxEvents", "reason": "*"}},
		{"events/poll", named + `,"maxEvents":"2"`, -32602, map[string]any{"path": "/maxEvents", "reason": "*"}},
		{"events/poll", named + `,"maxAgeMs":-1`, -32602, map[string]any{"path": "/maxAgeMs", "reason": "must be an integer of at least 0"}},
		{"events/poll", arguments(`[]`), -32602, map[string]any{"path": "/arguments", "reason": "must be an object"}},
		{"events/poll", arguments(`{"colour":"red"}`), -32602, map[string]any{"path": "/arguments/colour", "reason": "is unknown; there are minConfidence, routes, scope"}},
		{"events/poll", arguments(`{"Scope":"a"}`), -32602, map[string]any{"path": "/arguments/Scope", "reason": "*"}},
		{"events/poll", arguments(`{"a/b~c":1}`), -32602, map[string]any{"path": "/arguments/a~1b~0c", "reason": "*"}},
		{"events/poll", arguments(`{"scope":""}`), -32602, map[string]any{"path": "/arguments/scope", "reason": "*"}},
		{"events/poll", arguments(`{"scope":[]}`), -32602, map[string]any{"path": "/arguments/scope", "reason": "*"}},
		{"events/poll", arguments(`{"scope":null}`), -32602, map[string]any{"path": "/arguments/scope", "reason": "*"}},
		{"events/poll", arguments(`{"routes":["wait"]}`), -32602, map[string]any{"path": "/arguments/routes/0", "reason": "must be one of interrupt, queue, note, ask, skip"}},
		{"events/poll", arguments(`{"routes":["ask","ask"]}`), -32602, map[string]any{"path": "/arguments/routes", "reason": "*"}},
		{"events/poll", arguments(`{"minConfidence":1.1}`), -32602, map[string]any{"path": "/arguments/minConfidence", "reason": "must be a number from 0 to 1"}},
		{"events/poll", `"name":"attention.deadLetter","arguments":{"routes":["queue"]}`, -32602, map[string]any{"path": "/arguments/routes", "reason": "is unknown; there are scope"}},
		{"events/list", `"cursor":"x"`, -32602, map[string]any{"path": "/cursor", "reason": "*"}},
		{"events/subscribe", named, -32026, map[string]any{"feature": "delivery", "value": "webhook"}},
		{"events/unsubscribe", named, -32026, map[string]any{"feature": "delivery", "value": "webhook"}},
		{"events/subscribe", ``, -32602, map[string]any{"path": "/name"}},
	} {
		methods := []string{c.method}
		if c.method == "events/poll" && !strings.Contains(c.params, "maxEvents") {
			methods = append(methods, "events/stream") // an ordinary error, and no stream
		}
		for _, call := range pairs([]string{legacy, modern}, methods) {
			era, method := call[0], call[1]
			r := d.call(era, method, c.params)
			if r.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s %s {%s}: the error is %s", era, method, c.params, r.header.Get("Content-Type"))
			}
			if r.msg.Error == nil || r.msg.Error.Code != c.code || r.msg.Error.Message == "" {
				t.Errorf("%s %s {%s}: %s; want %d", era, method, c.params, r.body, c.code)
				continue
			}
			for member, want := range c.data {
				got := r.msg.Error.Data[member]
				if text, _ := got.(string); want == "*" && text == "" || want != "*" && got != want {
					t.Errorf("%s %s {%s}: data.%s is %v, want %v", era, method, c.params, member, got, want)
				}
			}
			status := 200
			if era == modern && c.code == -32602 {
				status = 400
			}
			if r.status != status {
				t.Errorf("%s %s {%s}: status %d, want %d", era, method, c.params, r.status, status)
			}
		}
	}
}

func pairs(as, bs []string) (all [][2]string) {
	for _, a := range as {
		for _, b := range bs {
			all = append(all, [2]string{a, b})
		}
	}
	return all
}

func TestEvents_ParamsThatAreNoObject(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, method := range []string{"events/list", "events/poll", "events/stream"} {
		r := d.post(headers(), fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":[1]}`, method))
		if r.msg.Error == nil || r.msg.Error.Code != -32602 {
			t.Errorf("%s: %s", method, r.body)
		}
	}
}

// onlyScopes lets a caller read and write in some scopes.
func onlyScopes(right string, scopes ...string) func(*Options) {
	return func(o *Options) {
		o.Caller = func(context.Context) Caller {
			return Caller{Name: "ann", May: func(asked, scope string) bool {
				if asked != right {
					return false
				}
				for _, s := range append(scopes, "") {
					if s == scope {
						return true
					}
				}
				return false
			}}
		}
	}
}

func TestEvents_Rights(t *testing.T) {
	d := newDaemon(t, settings{options: onlyScopes(RightRead, "mine")})
	d.decide("mine", engine.Queue, nil)
	d.decide("theirs", engine.Queue, nil)
	for _, arguments := range []string{`{}`, `{"scope":"*"}`, `{"scope":"mine"}`} {
		p := d.poll(modern, fmt.Sprintf(`"name":"attention.decision","cursor":%q,"arguments":%s`, d.cursor(0), arguments))
		if !cmp.Equal(p.ids(), []string{"d1"}) {
			t.Errorf("%s: got %v", arguments, p.ids())
		}
	}
	for _, method := range []string{"events/poll", "events/stream"} {
		r := d.call(modern, method, `"name":"attention.decision","arguments":{"scope":["mine","theirs"]}`)
		if r.msg.Error == nil || r.msg.Error.Code != -32024 || r.msg.Error.Data["reason"] != "scope" {
			t.Errorf("%s of another's scope by name: %s", method, r.body)
		}
	}

	writer := newDaemon(t, settings{options: onlyScopes(RightIngest, "mine")})
	for _, method := range []string{"events/list", "events/poll", "events/stream"} {
		r := writer.call(modern, method, `"name":"attention.decision"`)
		if r.msg.Error == nil || r.msg.Error.Code != -32024 || r.msg.Error.Data["reason"] != "right" {
			t.Errorf("%s without the right: %s", method, r.body)
		}
	}
}

func TestEvents_AStoreThatIsDown(t *testing.T) {
	d := newDaemon(t, settings{})
	if err := d.store.Close(); err != nil {
		t.Fatal(err)
	}
	for _, call := range pairs([]string{legacy, modern}, []string{"events/poll", "events/stream"}) {
		era := call[0]
		r := d.call(era, call[1], `"name":"attention.decision"`)
		if r.status != 200 || r.msg.Error == nil || r.msg.Error.Code != -32603 {
			t.Errorf("%s: status %d: %s", era, r.status, r.body)
		}
		if strings.Contains(r.body, "closed") {
			t.Errorf("the caller is told of our insides: %s", r.body)
		}
	}
	if !strings.Contains(d.log.String(), "store closed") {
		t.Errorf("the operator is not told: %s", d.log.String())
	}
}

// What producers attach to events stays on this side.
func TestEvents_DataNeverCrosses(t *testing.T) {
	d := newDaemon(t, settings{})
	d.decide("a", engine.Queue, nil)
	d.giveUp("a")
	d.write("a", engine.Step{Kind: engine.StepDeadLetter, ID: "l9", DeadLetter: &engine.DeadLetter{
		ID: "l9", Kind: "deadLetter", Stage: "sink", Scope: "a",
		Decision: &engine.Decision{ID: "d1", Route: engine.Queue, Events: []engine.EventView{{Kind: engine.Closing, Data: engine.RawJSON(`{"secret":"sauce"}`)}}},
	}})
	for _, era := range []string{legacy, modern} {
		for _, r := range []*reply{
			d.call(era, "events/poll", fmt.Sprintf(`"name":"attention.decision","cursor":%q`, d.cursor(0))),
			d.call(era, "events/poll", fmt.Sprintf(`"name":"attention.deadLetter","cursor":%q`, d.cursor(0))),
			d.tool(era, "attend_wait", fmt.Sprintf(`{"cursor":%q,"timeoutMs":0}`, d.cursor(0))),
		} {
			if strings.Contains(r.body, "sauce") || !strings.Contains(r.body, `"d1"`) && !strings.Contains(r.body, `"l2"`) {
				t.Errorf("%s: %s", era, r.body)
			}
		}
	}
}
