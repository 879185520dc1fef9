package mcpserve

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// withFields are Fields on the daemon's store.
func withFields(change ...func(*fields.Options)) settings {
	return settings{fields: func(st *memory.Store) *fields.Service {
		o := fields.Options{
			Store: st, Settings: field.DefaultSettings(), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		}
		for _, each := range change {
			each(&o)
		}
		service, err := fields.New(o)
		if err != nil {
			panic(err)
		}
		return service
	}}
}

// does calls a tool of the Field that must succeed, and holds its answer to the
// schema.
func (d *daemon) does(op, args string) (text string, out map[string]any) {
	d.t.Helper()
	c, out := d.use(modern, "field_"+op, args)
	if c.IsError {
		d.t.Fatalf("%s %s: %s", op, args, c.Content[0].Text)
	}
	d.fits("field_"+op+".output", out)
	return c.Content[0].Text, out
}

// prices are two entries that contradict each other, and one that has nothing
// to do with them. It returns the ids of the two.
func (d *daemon) prices() (kelps, gulls string) {
	d.t.Helper()
	_, first := d.does("write", `{"agent":"kelp","intent":"read on their page today","entry":{"topic":"price","amount":"$39/mo","plan":"team"}}`)
	_, second := d.does("write", `{"agent":"gull","intent":"told by their sales team","entry":{"topic":"price","amount":"$49/mo","plan":"team"}}`)
	d.does("write", `{"agent":"gull","intent":"seen in the news today","entry":{"topic":"weather","sky":"grey"}}`)
	return first["id"].(string), second["id"].(string)
}

func TestFieldTools_List(t *testing.T) {
	d := newDaemon(t, withFields())
	want := map[string]string{ // read-only, destructive, idempotent
		"field_register": "--i", "field_deregister": "-di", "field_write": "---", "field_read": "r-i", "field_attune": "r-i",
		"field_reckon": "r-i", "field_draft": "---", "field_commit": "--i", "field_discard": "-di", "field_retract": "-di", "field_supersede": "-d-",
	}
	got := map[string]string{}
	for _, era := range []string{legacy, modern} {
		tools, _ := d.call(era, "tools/list", "").msg.Result["tools"].([]any)
		for _, each := range tools {
			tool := each.(map[string]any)
			name := tool["name"].(string)
			if !strings.HasPrefix(name, "field_") {
				continue
			}
			if text, _ := tool["description"].(string); len(text) < 100 || tool["title"] == "" {
				t.Errorf("%s: a description of %d characters tells a model too little", name, len(text))
			}
			marks := ""
			hints := tool["annotations"].(map[string]any)
			for _, hint := range []string{"readOnlyHint", "destructiveHint", "idempotentHint"} {
				mark := "-"
				if hints[hint] == true {
					mark = hint[:1]
				}
				marks += mark
			}
			got[name] = marks
			if hints["openWorldHint"] != false {
				t.Errorf("%s: annotations are %v", name, hints)
			}
			in, out := tool["inputSchema"].(map[string]any), tool["outputSchema"].(map[string]any)
			if in["type"] != "object" || in["additionalProperties"] != false || out["type"] != "object" {
				t.Errorf("%s: schemas are %v, %v", name, in, out)
			}
			if text := fmt.Sprint(in, out); strings.Contains(text, "$ref") || strings.Contains(text, "$defs") {
				t.Errorf("%s: a schema is not whole: %s", name, text)
			}
			if props := in["properties"].(map[string]any); props["field"] == nil {
				t.Errorf("%s does not say which Field", name)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Without Fields there is nothing of them.
func TestFieldTools_NotOffered(t *testing.T) {
	d := newDaemon(t, settings{})
	r := d.tool(modern, "field_attune", `{"agent":"mara"}`)
	if r.msg.Error == nil {
		t.Errorf("got %s", r.body)
	}
	if r := d.call(modern, "events/poll", `"name":"field.attune"`); r.msg.Error == nil || r.msg.Error.Code != codeNotFound {
		t.Errorf("got %s", r.body)
	}
}

// The life of entries, told by an agent who has nothing but the tools.
func TestFieldTools_Life(t *testing.T) {
	d := newDaemon(t, withFields())
	text, out := d.does("register", `{"id":"mara","role":"pricing analyst","capabilities":["read"]}`)
	if out["session_id"] != "mara" || out["field_protocol_version"] != "0.2" || !strings.Contains(text, `"mara"`) {
		t.Errorf("register: %s %v", text, out)
	}
	kelps, gulls := d.prices()
	text, out = d.does("reckon", `{"agent":"mara","topic":"price"}`)
	conflicts, _ := out["conflicts"].([]any)
	if len(conflicts) != 1 || !cmp.Equal(conflicts[0].(map[string]any)["keys"], []any{"amount"}) {
		t.Fatalf("reckon: %v", out)
	}
	for _, want := range []string{
		"1 conflict.\n", fmt.Sprintf(`> "amount": "gull" says "$49/mo" (id %s), "kelp" says "$39/mo" (id %s)`, gulls, kelps), "3 entries, the most relevant first.",
		`1. 0.70 (topic match`, fmt.Sprintf(`by "gull", id %s, epoch 1`, gulls), `> {"topic":"price","amount":"$49/mo","plan":"team"}`, `> why: "told by their sales team"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	_, out = d.does("draft", `{"agent":"mara","intent":"asked them on the phone","entry":{"topic":"price","amount":"$45/mo"}}`)
	draft := out["draft_id"].(string)
	if text, _ = d.does("reckon", `{"agent":"mara","topic":"price"}`); !strings.Contains(text, "3 conflicts") || !strings.Contains(text, "your draft") {
		t.Errorf("with a draft:\n%s", text)
	}
	_, out = d.does("commit", fmt.Sprintf(`{"draft_id":%q}`, draft))
	if out["id"] != draft {
		t.Errorf("commit: %v", out)
	}
	_, out = d.does("supersede", fmt.Sprintf(`{"superseding_id":%q,"agent":"mara","intent":"the page has been updated","entry":{"topic":"price","amount":"$45/mo"}}`, kelps))
	second := out["id"].(string)
	if text, out = d.does("retract", fmt.Sprintf(`{"id":%q,"agent":"mara","intent":"it was the old page again"}`, second)); len(out) != 0 || !strings.Contains(text, "taken back") {
		t.Errorf("retract: %s %v", text, out)
	}
	_, out = d.does("draft", `{"agent":"mara","intent":"not sure about this yet","entry":{}}`)
	d.does("discard", fmt.Sprintf(`{"draft_id":%q,"agent":"mara","intent":"nothing came of this"}`, out["draft_id"]))
	text, out = d.does("read", `{"query":{"topic":"price"}}`)
	var statuses []string
	for _, e := range out["entries"].([]any) {
		statuses = append(statuses, e.(map[string]any)["status"].(string))
	}
	if diff := cmp.Diff([]string{"superseded", "committed", "committed", "retracted"}, statuses); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"4 entries, in the order", fmt.Sprintf(`1. superseded, by "kelp", id %s, epoch 0, now %s`, kelps, second), "in the place of " + kelps, `> taken back: "it was the old page again"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	d.does("deregister", `{"id":"mara"}`)
	if _, out := d.does("attune", `{"agent":"mara","field":"another"}`); len(out["entries"].([]any)) != 0 {
		t.Errorf("another Field has %v", out)
	}
}

// What the protocol refuses is a tool's error with the protocol's code, as the
// schema says, and in words.
func TestFieldTools_Refusals(t *testing.T) {
	d := newDaemon(t, withFields())
	kelps, _ := d.prices()
	for _, c := range []struct{ op, args, code, text string }{
		{"write", `{"intent":"long enough to do"}`, "INVALID_ENTRY", "entry"},
		{"write", `{"entry":{}}`, "INTENT_REQUIRED", "intent"},
		{"write", `{"entry":{},"intent":"short"}`, "INTENT_TOO_SHORT", "10"},
		{"write", `{"entry":{},"intent":"long enough to do","colour":"red"}`, "INVALID_ENTRY", "colour"},
		{"attune", `{}`, "AGENT_REQUIRED", "agent"},
		{"attune", `{"agent":null}`, "AGENT_REQUIRED", "agent"},
		{"reckon", `{"agent":"mara","max_units":-1}`, "INVALID_QUERY", "max_units"},
		{"read", `{"query":"all"}`, "INVALID_QUERY", "query"},
		{"read", `{"field":"a\u0000b"}`, "INVALID_QUERY", "control character"},
		{"commit", `{"draft_id":"none"}`, "DRAFT_NOT_FOUND", ""},
		{"retract", `{"id":"none","agent":"kelp","intent":"long enough to do"}`, "ENTRY_NOT_FOUND", ""},
		{"retract", fmt.Sprintf(`{"id":%q,"agent":"gull","intent":"long enough to do"}`, kelps), "RETRACT_NOT_AUTHORIZED", ""},
		{"register", `{"role":"cook"}`, "AGENT_REQUIRED", "id"},
	} {
		for _, era := range []string{legacy, modern} {
			got, out := d.use(era, "field_"+c.op, c.args)
			if !got.IsError || out["code"] != c.code {
				t.Errorf("%s %s: got %v %s, want %s", c.op, c.args, got.IsError, got.Out, c.code)
			}
			if text := got.Content[0].Text; !strings.Contains(text, c.code) || !strings.Contains(text, c.text) {
				t.Errorf("%s %s: it says %q", c.op, c.args, text)
			}
			d.fits("field_"+c.op+".output", out)
		}
	}
	if got, out := d.use(modern, "field_write", `{"entry":{},"intent":"short"}`); out["details"] == nil {
		t.Errorf("no details: %s", got.Out)
	}
	for op, code := range map[string]string{"read": "INVALID_QUERY", "write": "INVALID_ENTRY"} {
		if got, out := d.use(modern, "field_"+op, `{"field":7}`); !got.IsError || out["code"] != code || !strings.Contains(got.Content[0].Text, "field is not a text") {
			t.Errorf("%s in a Field that is a number: %v", op, got)
		}
	}
	if got, out := d.use(modern, "field_read", `7`); !got.IsError || out != nil {
		t.Errorf("arguments that are a number: %v", got)
	}
}

// brokenFields fail as a store or a service does.
type brokenFields struct{ err error }

func (b brokenFields) Do(context.Context, string, field.Op, json.RawMessage) (any, error) {
	return nil, b.err
}

func (b brokenFields) DraftAgent(context.Context, string, string) (string, bool, error) {
	return "", false, b.err
}

func (b brokenFields) Subscribe(context.Context, field.Op, string, json.RawMessage) (*fields.Subscription, error) {
	return nil, b.err
}

func TestFieldTools_Trouble(t *testing.T) {
	for _, c := range []struct {
		err  error
		text string
	}{
		{fmt.Errorf("disk at /secret/path: %w", store.ErrUnavailable), "try again"},
		{fmt.Errorf("field: %w", fields.ErrBusy), "again later"},
		{fmt.Errorf("%w: /secret/path: %w", fields.ErrUnknownOutcome, store.ErrUnavailable), "read the field before"},
		{fields.ErrStopping, "stopping"},
	} {
		d := newDaemon(t, settings{options: func(o *Options) { o.Fields = brokenFields{c.err} }})
		got, _ := d.use(modern, "field_write", `{"entry":{},"intent":"long enough to do"}`)
		if text := got.Content[0].Text; !got.IsError || !strings.Contains(text, c.text) || strings.Contains(text, "secret") {
			t.Errorf("%v: it says %q", c.err, text)
		}
		r := d.call(modern, "events/poll", `"name":"field.attune","arguments":{"agent":"mara"}`)
		if r.msg.Error == nil || r.msg.Error.Code != -32603 || strings.Contains(r.body, "secret") {
			t.Errorf("%v: a poll: %s", c.err, r.body)
		}
	}
}

// A result of any size fits, and says how much it leaves out.
func TestFieldTools_ResultsAreBounded(t *testing.T) {
	d := newDaemon(t, withFields())
	const n = 40
	for i := range n {
		d.does("write", fmt.Sprintf(`{"agent":"kelp","intent":"long enough to do","entry":{"topic":"t","n":%d,"text":%q}}`, i, strings.Repeat("<", 9000)))
	}
	for op, args := range map[string]string{"read": `{}`, "attune": `{"agent":"mara"}`, "reckon": `{"agent":"mara"}`} {
		got, out := d.use(modern, "field_"+op, args)
		d.fits("field_"+op+".output", out)
		entries := out["entries"].([]any)
		conflicts, _ := out["conflicts"].([]any)
		cut, _ := out["cut"].(float64)
		all := map[string]int{"read": n, "attune": n, "reckon": n + n*(n-1)/2}[op]
		if len(got.Out) > maxFieldResult || len(entries) == 0 || len(entries)+len(conflicts)+int(cut) != all {
			t.Errorf("%s: %d bytes, %d entries, %d conflicts, %v cut", op, len(got.Out), len(entries), len(conflicts), cut)
		}
		text := got.Content[0].Text
		if len(text) > maxFieldText+8<<10 || !strings.Contains(text, "more not shown here") {
			t.Errorf("%s: a text of %d bytes ends with %q", op, len(text), text[len(text)-200:])
		}
		if op == "read" && out["more"] != true {
			t.Errorf("there is more, and it says %v", out["more"])
		}
		if op == "reckon" && len(conflicts) == 0 {
			t.Error("no conflict is told")
		}
	}
}

// The largest entries that there may be: their conflict is told whole.
func TestFieldTools_AConflictOfLargeEntries(t *testing.T) {
	e := field.Entry{ID: "E1", Status: field.StatusCommitted, Entry: json.RawMessage(`{"topic":"t","n":1,"text":"` + strings.Repeat("x", 65<<10) + `"}`), Intent: strings.Repeat("i", 8<<10)}
	a := &field.Scored{Entry: e}
	shown, err := showField(field.Reckoned{Entries: []field.Scored{*a, *a}, Conflicts: []field.Conflict{{A: a, B: a, Keys: []string{"n"}}, {A: a, B: a, Keys: []string{"n"}}}})
	if err != nil {
		t.Fatal(err)
	}
	if shown.conflicts != 1 || shown.entries != 1 || len(shown.body) > maxFieldResult {
		t.Errorf("%d conflicts, %d entries in %d bytes", shown.conflicts, shown.entries, len(shown.body))
	}
}

func TestFieldText_WhatIsLongIsCut(t *testing.T) {
	if got := cutText("añb", 2); got != "a… (3 bytes more)" {
		t.Errorf("got %q", got)
	}
	if got := cutText("añ", 3); got != "añ" {
		t.Errorf("got %q", got)
	}
}
