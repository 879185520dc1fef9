package mcpserve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"attend/internal/field"
)

// What HTTP refuses is refused here, with the Field's own code where it has one.
func TestFieldTools_RefuseWhatHTTPRefuses(t *testing.T) {
	d := newDaemon(t, withFields())
	for _, c := range []struct{ tool, args, code, says string }{
		{"field_write", `{"agent":"a","agent":"b","entry":{},"intent":"0123456789"}`, "", `"agent" stands in it twice`},
		{"field_attune", `{"agent":"a","\u0061gent":"a"}`, "", `"agent" stands in it twice`},
		{"field_read", `{"field":"a","field":"a"}`, "", `"field" stands in it twice`},
		{"field_write", `{"agent":"a","entry":{"a":[{"b":1e400}]},"intent":"0123456789"}`, field.InvalidEntry, "a[0].b of entry is 1e400"},
		{"field_read", `{"query":{"a":-1e400}}`, field.InvalidQuery, "a of query is -1e400"},
		{"field_register", `{"id":"\ud800","role":"pilot"}`, field.AgentRequired, "half of a surrogate pair"},
		{"field_write", `{"agent":"a","entry":{"\udc00":1},"intent":"0123456789"}`, field.InvalidEntry, "half of a surrogate pair"},
		{"field_write", `{"field":"\ud800","agent":"a","entry":{},"intent":"0123456789"}`, field.InvalidEntry, "half of a surrogate pair"},
		{"field_write", `{"agent":"a","entry":{"a":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `},"intent":"0123456789"}`, field.InvalidEntry, "at most 32"},
		{"field_read", `{"` + strings.Repeat("x", 60000) + `":1}`, field.InvalidQuery, "has no parameter"},
	} {
		r := d.tool(modern, c.tool, c.args)
		content, _ := r.msg.Result["structuredContent"].(map[string]any)
		code, _ := content["code"].(string)
		if r.msg.Result["isError"] != true || code != c.code || !strings.Contains(r.body, strings.ReplaceAll(c.says, `"`, `\"`)) || len(r.body) > 2000 {
			t.Errorf("%s %.80s: %.900s", c.tool, c.args, r.body)
		}
	}
	for _, params := range []string{
		`"name":"field.attune","arguments":{"agent":"a","agent":"b"}`,
	} {
		r := d.call(modern, "events/poll", params)
		if r.msg.Error == nil || r.msg.Error.Code != -32602 || !strings.Contains(r.msg.Error.Message, `"agent" stands in it twice`) {
			t.Errorf("events/poll {%s}: %.900s", params, r.body)
		}
	}
}

// A result that cannot be sent is an error that says so, not a silence.
func TestTool_ResultsThatCannotBeSent(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, structured := range []any{
		func() {},
		json.RawMessage(`{`),
		json.RawMessage(strings.Repeat("[", 9998) + strings.Repeat("]", 9998)),
	} {
		tool := &tool{name: "odd", judged: true, call: func(context.Context, *Caller, map[string]json.RawMessage) (*answered, error) {
			return &answered{structured: structured}, nil
		}}
		got, err := d.server.callTool(t.Context(), tool, nil, nil)
		if err != nil || !got.IsError || got.StructuredContent != nil || !strings.Contains(fmt.Sprint(got.Content[0]), "cannot be sent") {
			t.Errorf("%.20v: %v, %v", structured, got, err)
		}
	}
}

func TestFront_WantsItsType(t *testing.T) {
	d := newDaemon(t, settings{})
	for _, method := range []string{"events/list", "tools/list"} {
		for _, era := range []http.Header{headers(headerVersion, "2025-06-18"), headers(headerVersion, "2026-07-28", "Mcp-Method", method)} {
			era["Content-Type"] = nil
			if r := d.post(era, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q}`, method)); r.status != http.StatusUnsupportedMediaType {
				t.Errorf("%s %v: %d %s", method, era, r.status, r.body)
			}
		}
	}
}
