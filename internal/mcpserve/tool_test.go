package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/feed"
)

// called is what a tool gives.
type called struct {
	Content []struct{ Type, Text string } `json:"content"`
	IsError bool                          `json:"isError"`
	Out     json.RawMessage               `json:"structuredContent"`
}

func (d *daemon) use(era, name, args string) (c called, out map[string]any) {
	d.t.Helper()
	return d.read(d.tool(era, name, args))
}

func (d *daemon) read(r *reply) (c called, out map[string]any) {
	d.t.Helper()
	if r.status != 200 || r.msg.Error != nil {
		d.t.Fatalf("status %d: %s", r.status, r.body)
	}
	b, err := json.Marshal(r.msg.Result)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		d.t.Fatal(err)
	}
	if len(c.Out) > 0 {
		if err := json.Unmarshal(c.Out, &out); err != nil {
			d.t.Fatal(err)
		}
	}
	if len(c.Content) != 1 || c.Content[0].Type != "text" || c.Content[0].Text == "" {
		d.t.Fatalf("no text to read: %s", r.body)
	}
	return c, out
}

func decisionIDs(out map[string]any) []string {
	list := []string{}
	decisions, _ := out["decisions"].([]any)
	for _, d := range decisions {
		list = append(list, d.(map[string]any)["id"].(string))
	}
	return list
}

func TestTools_List(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, era := range []string{legacy, modern} {
		tools, _ := d.call(era, "tools/list", "").msg.Result["tools"].([]any)
		var names []string
		for _, each := range tools {
			tool := each.(map[string]any)
			names = append(names, tool["name"].(string))
			if text, _ := tool["description"].(string); len(text) < 100 {
				t.Errorf("%v: a description of %d characters tells a model too little", tool["name"], len(text))
			}
			annotations := tool["annotations"].(map[string]any)
			if annotations["destructiveHint"] != false || annotations["openWorldHint"] != false || annotations["title"] == "" {
				t.Errorf("%v: annotations are %v", tool["name"], annotations)
			}
			in, out := tool["inputSchema"].(map[string]any), tool["outputSchema"].(map[string]any)
			if in["type"] != "object" || in["additionalProperties"] != false || out["type"] != "object" {
				t.Errorf("%v: schemas are %v, %v", tool["name"], in, out)
			}
		}
		if diff := cmp.Diff([]string{"attend_decision", "attend_flush", "attend_push", "attend_scopes", "attend_wait"}, names); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWait_TheLoop(t *testing.T) {
	for _, era := range []string{legacy, modern} {
		t.Run(era, func(t *testing.T) {
			d := newDaemon(t, settings{})
			_, first := d.use(era, "attend_wait", `{"consumer":"bot","timeoutMs":0}`)
			d.fits("attend_wait.output", first)
			if first["timedOut"] != true || first["ack"] != nil || first["cursor"] != d.cursor(0) {
				t.Errorf("the first answer is %v", first)
			}
			d.decide("chat/1", engine.Note, nil)
			d.decide("chat/2", engine.Interrupt, nil)
			text, got := d.use(era, "attend_wait", `{"consumer":"bot"}`)
			d.fits("attend_wait.output", got)
			if !cmp.Equal(decisionIDs(got), []string{"d1", "d2"}) || got["redelivered"] != false || got["timedOut"] != false || got["truncated"] != false || got["cursor"] != d.cursor(2) {
				t.Errorf("got %v", got)
			}
			for _, want := range []string{"interrupt: scope \"chat/2\"", "> the build failed", got["ack"].(string)} {
				if !strings.Contains(text.Content[0].Text, want) {
					t.Errorf("the text lacks %q:\n%s", want, text.Content[0].Text)
				}
			}
			_, again := d.use(era, "attend_wait", `{"consumer":"bot","ack":null,"scope":null}`)
			if again["redelivered"] != true || !cmp.Equal(got["decisions"], again["decisions"]) || got["ack"] != again["ack"] {
				t.Errorf("without an ack got %v", again)
			}
			_, next := d.use(era, "attend_wait", fmt.Sprintf(`{"consumer":"bot","ack":%q,"timeoutMs":0}`, got["ack"]))
			if len(decisionIDs(next)) != 0 || next["timedOut"] != true {
				t.Errorf("after the ack got %v", next)
			}
		})
	}
}

func TestWait_WakesALongPoll(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, era := range []string{legacy, modern} {
		h, body := longWait(era, "1")
		done := d.inBackground(t.Context(), h, body)
		eventually(t, "the call waits", func() bool { return d.waiting() == 1 })
		d.decide("a", engine.Note, nil)
		d.decide("a", engine.Queue, nil)
		_, out := d.read(<-done)
		if n := len(decisionIDs(out)); n != 2 {
			t.Errorf("%s: got %v", era, out)
		}
	}
}

func TestWait_FromACursor(t *testing.T) {
	d := newDaemon(t, settings{})
	d.decide("a", engine.Queue, nil)
	d.decide("b", engine.Skip, nil)
	_, got := d.use(modern, "attend_wait", fmt.Sprintf(`{"cursor":%q,"timeoutMs":0}`, d.cursor(0)))
	if !cmp.Equal(decisionIDs(got), []string{"d1"}) || got["ack"] != nil || got["cursor"] != d.cursor(2) {
		t.Errorf("got %v", got)
	}
	text, none := d.use(modern, "attend_wait", `{"timeoutMs":0}`)
	if len(decisionIDs(none)) != 0 || none["cursor"] != d.cursor(2) || !strings.Contains(text.Content[0].Text, d.cursor(2)) {
		t.Errorf("with neither, from now: got %v", none)
	}
	_, skipped := d.use(modern, "attend_wait", fmt.Sprintf(`{"cursor":%q,"timeoutMs":0,"routes":["skip"],"scope":["b"]}`, d.cursor(0)))
	if !cmp.Equal(decisionIDs(skipped), []string{"d2"}) {
		t.Errorf("skip asked for: got %v", skipped)
	}
}

// A cursor of another log is answered at once, without a wait.
func TestWait_StaleCursor(t *testing.T) {
	d := newDaemon(t, settings{})
	d.decide("a", engine.Queue, nil)
	text, got := d.use(modern, "attend_wait", fmt.Sprintf(`{"cursor":%q,"timeoutMs":240000}`, feed.Cursor{Epoch: "other", Position: 0}.Encode()))
	if got["truncated"] != true || got["timedOut"] != false || got["cursor"] != d.cursor(1) {
		t.Errorf("got %v", got)
	}
	if !strings.Contains(text.Content[0].Text, "no longer kept") {
		t.Errorf("the text does not say so: %s", text.Content[0].Text)
	}
}

func TestWait_CloseAnswersWithNothing(t *testing.T) {
	d := newDaemon(t, settings{})
	var calls []<-chan *reply
	for _, era := range []string{legacy, modern} {
		h, body := longWait(era, "1")
		calls = append(calls, d.inBackground(t.Context(), h, body))
		h, body = requestID(era, "tools/call", `"name":"attend_wait","arguments":{"timeoutMs":240000,"consumer":"`+era+`"}`, "2")
		h.Set("Mcp-Name", "attend_wait")
		calls = append(calls, d.inBackground(t.Context(), h, body))
	}
	eventually(t, "all wait", func() bool { return d.waiting() == 4 })
	d.stop()
	for _, done := range calls {
		c, out := d.read(<-done)
		if c.IsError || len(decisionIDs(out)) != 0 || out["timedOut"] != false {
			t.Errorf("got %v", out)
		}
	}
}

func TestWait_ANewerCallEndsTheOlder(t *testing.T) {
	d := newDaemon(t, settings{})
	h, body := requestID(modern, "tools/call", `"name":"attend_wait","arguments":{"timeoutMs":240000,"consumer":"bot"}`, "1")
	h.Set("Mcp-Name", "attend_wait")
	older := d.inBackground(t.Context(), h, body)
	eventually(t, "it waits", func() bool { return d.waiting() == 1 })
	newer := d.inBackground(t.Context(), h, body)
	if _, out := d.read(<-older); len(decisionIDs(out)) != 0 {
		t.Errorf("the older got %v", out)
	}
	d.decide("a", engine.Queue, nil)
	if _, out := d.read(<-newer); !cmp.Equal(decisionIDs(out), []string{"d1"}) {
		t.Errorf("the newer got %v", out)
	}
}

func TestTools_Faults(t *testing.T) {
	d := newDaemon(t, settings{})
	d.use(modern, "attend_wait", `{"consumer":"bot","timeoutMs":0}`)
	for _, c := range []struct{ tool, args, want string }{
		{"attend_wait", `{"timeoutMs":240001}`, "/timeoutMs: must be an integer from 0 to 240000"},
		{"attend_wait", `{"timeout":1}`, "/timeout: is unknown; there are ack, consumer, cursor, routes, scope, timeoutMs"},
		{"attend_wait", `{"routes":"queue"}`, "/routes: must be a list of at least 1 entries, no two the same, each one of interrupt, queue, note, ask, skip"},
		{"attend_wait", `{"routes":["wait"]}`, "/routes/0: must be one of interrupt, queue, note, ask, skip"},
		{"attend_wait", `{"scope":7}`, "/scope: must be a string of 1 to 512 characters, or a list of 1 to 100 entries, each a string of 1 to 512 characters"},
		{"attend_wait", `{"consumer":"bot","cursor":"x"}`, "/cursor: give consumer or cursor, not both"},
		{"attend_wait", `{"ack":"x"}`, "/ack: an ack needs the consumer"},
		{"attend_wait", `{"cursor":"made up"}`, "malformed"},
		{"attend_wait", `{"consumer":"bot","ack":"made up"}`, "malformed"},
		{"attend_wait", `{"consumer":"a\u0001b"}`, "control character"},
		{"attend_push", `{}`, "/events: is required"},
		{"attend_push", `{"events":[]}`, "/events: must be a list of 1 to 1000 entries"},
		{"attend_push", `{"events":[{"scope":"a","name":"x"},7]}`, "/events/1: must be an object"},
		{"attend_push", `{"events":{"scope":"a","name":"x"}}`, "/events: must be a list of 1 to 1000 entries"},
		{"attend_flush", `{}`, "/scope: is required"},
		{"attend_flush", `{"scope":""}`, "/scope: must be a string of 1 to 512 characters"},
		{"attend_flush", `{"scope":"a\u0001b"}`, "/scope: holds a control character, which no scope has"},
		{"attend_flush", `{"scope":"` + strings.Repeat("é", 300) + `"}`, "/scope: has 600 bytes: at most 512"},
		{"attend_flush", `[]`, "the arguments must be an object"},
	} {
		c2, out := d.use(modern, c.tool, c.args)
		if !c2.IsError || out != nil || !strings.Contains(c2.Content[0].Text, c.want) {
			t.Errorf("%s %s: error %t, %q; want %q", c.tool, c.args, c2.IsError, c2.Content[0].Text, c.want)
		}
	}
	if len(d.push.events)+len(d.flush.scopes) > 0 {
		t.Errorf("something was done: %v, %v", d.push.events, d.flush.scopes)
	}
	if r := d.tool(modern, "attend_nope", `{}`); r.msg.Error == nil || r.msg.Error.Code != -32602 {
		t.Errorf("an unknown tool: %s", r.body)
	}
}

func TestWait_Limits(t *testing.T) {
	d := newDaemon(t, settings{options: func(o *Options) { o.MaxWaits = 1 }})
	h, body := longWait(modern, "1")
	done := d.inBackground(t.Context(), h, body)
	eventually(t, "it waits", func() bool { return d.waiting() == 1 })
	r := d.tool(modern, "attend_wait", `{"timeoutMs":0}`)
	if r.msg.Error == nil || r.msg.Error.Code != -32025 || r.msg.Error.Data["limit"] != "waiting calls" || r.msg.Error.Data["max"] != 1.0 {
		t.Errorf("got %s", r.body)
	}
	d.stop()
	<-done
	if c, _ := d.use(modern, "attend_wait", `{"timeoutMs":0}`); c.IsError {
		t.Errorf("the place was not given back: %+v", c)
	}
}

func TestPush(t *testing.T) {
	d := newDaemon(t, settings{})
	d.push.answer = Pushed{Accepted: 1, Duplicates: 1, Rejected: 1, Errors: []PushFault{{Line: 3, Code: "windowFull", Error: "the window is full", Retryable: true}}}
	// Numbers that no float holds, and the order of members, stay as they are.
	events := []string{
		`{"scope":"a","name":"x","data":{"z":1,"a":12345678901234567890.10}}`,
		`{"scope":"a","name":"y","id":"1","at":"2026-01-01T00:00:00Z","text":"<$40 & up>"}`,
		`{"scope":"a","name":"z","at":1764547200000,"data":null}`,
	}
	c, out := d.use(modern, "attend_push", `{"events":[`+strings.Join(events, ",")+`]}`)
	if diff := cmp.Diff(events, d.push.events); diff != "" {
		t.Error(diff)
	}
	d.fits("attend_push.output", out)
	if c.IsError || out["accepted"] != 1.0 || out["duplicates"] != 1.0 || out["rejected"] != 1.0 {
		t.Errorf("got %v", out)
	}
	// Whoever takes the events in judges each by itself.
	bad := `{"events":[{"scope":7},{"name":"x","colour":"red"},{"scope":"a","scope":"b"}]}`
	d.push.events = nil
	if _, out := d.use(modern, "attend_push", bad); out["rejected"] != 1.0 || len(d.push.events) != 3 {
		t.Errorf("pushed %v, got %v", d.push.events, out)
	}
	want := "1 accepted, 1 known already, 1 rejected.\nEvent 3: the window is full (may pass later)\n"
	if c.Content[0].Text != want {
		t.Errorf("the text is %q", c.Content[0].Text)
	}

	d.push.answer = Pushed{Rejected: 1}
	if c, out := d.use(modern, "attend_push", `{"events":[{"scope":"a","name":"x"}]}`); !c.IsError || out["errors"] == nil {
		t.Errorf("nothing was taken: error %t, %v", c.IsError, out)
	}
	d.push.err = errors.New("disk full")
	c, _ = d.use(modern, "attend_push", `{"events":[{"scope":"a","name":"x"}]}`)
	if !c.IsError || strings.Contains(c.Content[0].Text, "disk") || !strings.Contains(d.log.String(), "disk full") {
		t.Errorf("got %+v; logged %s", c, d.log.String())
	}
}

func TestFlush(t *testing.T) {
	for _, c := range []struct {
		marked []string
		text   string
	}{
		{[]string{"open", "held"}, "settled at once: open, held"},
		{[]string{}, "had nothing to settle"},
		{nil, "not known yet"},
	} {
		d := newDaemon(t, settings{})
		d.flush.marked = c.marked
		got, out := d.use(modern, "attend_flush", `{"scope":"chat/1"}`)
		d.fits("attend_flush.output", out)
		if got.IsError || !strings.Contains(got.Content[0].Text, c.text) || out["scope"] != "chat/1" || (out["marked"] == nil) != (c.marked == nil) {
			t.Errorf("marked %v: got %v, %q", c.marked, out, got.Content[0].Text)
		}
		if diff := cmp.Diff([]string{"chat/1"}, d.flush.scopes); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTools_Rights(t *testing.T) {
	reader := newDaemon(t, settings{options: onlyScopes(RightRead, "mine")})
	writer := newDaemon(t, settings{options: onlyScopes(RightIngest, "mine")})
	reader.decide("mine", engine.Queue, nil)
	reader.decide("theirs", engine.Queue, nil)
	if _, out := reader.use(modern, "attend_wait", fmt.Sprintf(`{"cursor":%q,"timeoutMs":0}`, reader.cursor(0))); !cmp.Equal(decisionIDs(out), []string{"d1"}) {
		t.Errorf("got %v", out)
	}
	for _, c := range []struct {
		d          *daemon
		tool, args string
		reason     string // "" when it is allowed
	}{
		{reader, "attend_wait", `{"scope":"theirs","timeoutMs":0}`, "scope"},
		{reader, "attend_push", `{"events":[{"scope":"mine","name":"x"}]}`, "right"},
		{reader, "attend_flush", `{"scope":"mine"}`, "right"},
		{writer, "attend_wait", `{"timeoutMs":0}`, "right"},
		{writer, "attend_push", `{"events":[{"scope":"mine","name":"x"}]}`, ""},
		{writer, "attend_flush", `{"scope":"theirs"}`, "scope"},
		{writer, "attend_flush", `{"scope":"mine"}`, ""},
	} {
		r := c.d.tool(modern, c.tool, c.args)
		if c.reason == "" {
			if c, _ := c.d.read(r); c.IsError {
				t.Errorf("%s", r.body)
			}
			continue
		}
		if r.msg.Error == nil || r.msg.Error.Code != -32024 || r.msg.Error.Data["reason"] != c.reason {
			t.Errorf("%s %s: got %s; want a refusal for the %s", c.tool, c.args, r.body, c.reason)
		}
	}
	if len(writer.push.events) != 1 || len(writer.flush.scopes) != 1 {
		t.Errorf("done were %v, %v", writer.push.events, writer.flush.scopes)
	}
}

func TestWait_AnothersConsumer(t *testing.T) {
	name := "ann"
	d := newDaemon(t, settings{options: func(o *Options) { o.Caller = func(context.Context) Caller { return Caller{Name: name} } }})
	d.use(modern, "attend_wait", `{"consumer":"bot","timeoutMs":0}`)
	name = "bob"
	r := d.tool(modern, "attend_wait", `{"consumer":"bot","timeoutMs":0}`)
	if r.msg.Error == nil || r.msg.Error.Code != -32024 || r.msg.Error.Data["reason"] != "consumer" {
		t.Errorf("got %s", r.body)
	}
}
