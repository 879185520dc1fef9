package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"attend/internal/mcpserve"
)

// rpcRow is what is asked for, the right that it needs, and how it is answered:
// by the reason of a Forbidden, "refused" where a tool's result is an error, or
// "" otherwise.
type rpcRow struct {
	right     string
	params    string
	ok        string // to whoever may
	elsewhere string // to who has other scopes; "" as ok
	stranger  string // to who has another Field
	gull      string // to who speaks for another agent
}

// want is the outcome for a caller that has a token.
func (r *rpcRow) want(caller string) string {
	of := map[string]string{"writer": "ingest", "reader": "read", "keeper": "admin"}[caller]
	if of != "" && r.right != anyToken && r.right != of {
		return "right"
	}
	special := map[string]string{"elsewhere": r.elsewhere, "stranger": r.stranger, "gull": r.gull}[caller]
	if special != "" {
		return special
	}
	return r.ok
}

// methodRows has a row for every method of /mcp.
func methodRows() map[string]rpcRow {
	const inField = `"name":"field.attune","arguments":{"agent":"kelp"}`
	return map[string]rpcRow{
		"initialize":           {right: anyToken, params: `"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}`},
		"server/discover":      {right: anyToken},
		"ping":                 {right: anyToken},
		"tools/list":           {right: anyToken},
		"tools/call":           {right: "read", params: `"name":"attend_scopes","arguments":{}`},
		"events/list":          {right: "read"},
		"events/poll":          {right: "read", params: inField, stranger: "field", gull: "agent"},
		"events/stream":        {right: "read", params: inField, stranger: "field", gull: "agent"},
		"events/subscribe":     {right: "read"}, // without a name nobody gets further
		"events/unsubscribe":   {right: "read"},
		"subscriptions/listen": {right: anyToken}, // whoever may not read is told of nothing
	}
}

// toolRows has a row for every tool.
func toolRows(decision string) map[string]rpcRow {
	const why = `"intent":"to see who may do so"`
	op := func(right, arguments, ok, gull string) rpcRow {
		return rpcRow{right: right, params: arguments, ok: ok, stranger: "field", gull: gull}
	}
	return map[string]rpcRow{
		"attend_wait":      {right: "read", params: `{"scope":"chat:1","timeoutMs":0}`, elsewhere: "scope"},
		"attend_push":      {right: "ingest", params: `{"events":[{"scope":"chat:2","name":"log.line"}]}`, elsewhere: "refused"},
		"attend_flush":     {right: "ingest", params: `{"scope":"chat:2"}`, elsewhere: "scope"},
		"attend_scopes":    {right: "read", params: `{}`},
		"attend_decision":  {right: "read", params: fmt.Sprintf(`{"id":%q}`, decision), elsewhere: "refused"},
		"attend_silence":   {right: "admin", params: `{"scope":"chat:9","forMs":60000,"why":"to see who may"}`, elsewhere: "scope"},
		"field_register":   op("ingest", `{"id":"kelp","role":"cook"}`, "", "agent"),
		"field_deregister": op("ingest", `{"id":"kelp"}`, "", "agent"),
		"field_write":      op("ingest", `{"agent":"kelp","entry":{},`+why+`}`, "", "agent"),
		"field_draft":      op("ingest", `{"agent":"kelp","entry":{},`+why+`}`, "", "agent"),
		"field_commit":     op("ingest", `{"draft_id":"none"}`, "refused", ""),
		"field_discard":    op("ingest", `{"draft_id":"none","agent":"kelp",`+why+`}`, "refused", "agent"),
		"field_retract":    op("ingest", `{"id":"none","agent":"kelp",`+why+`}`, "refused", "agent"),
		"field_supersede":  op("ingest", `{"superseding_id":"none","agent":"kelp","entry":{},`+why+`}`, "refused", "agent"),
		"field_attune":     op("read", `{"agent":"kelp"}`, "", "agent"),
		"field_reckon":     op("read", `{"agent":"kelp"}`, "", "agent"),
		"field_read":       op("read", `{}`, "", ""),
	}
}

// outcome asks /mcp as a caller, and says how it was answered; first is the
// first message.
func (d *running) outcome(caller, method, params string) (outcome, first string) {
	d.t.Helper()
	s := d.openMCP(http.MethodPost, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s}}`, method, params), "Authorization", "Bearer token-of-"+caller+"-long-enough")
	defer s.resp.Body.Close()
	if s.resp.StatusCode == http.StatusUnauthorized {
		return "unauthorized", ""
	}
	for !strings.Contains(first, `"jsonrpc"`) {
		line, err := s.in.ReadString('\n')
		if first = strings.TrimPrefix(line, "data: "); err != nil && first == "" {
			d.t.Fatalf("%s as %s: status %d, no message: %v", method, caller, s.resp.StatusCode, err)
		}
	}
	var answer struct {
		Result struct{ IsError bool }
		Error  *struct {
			Code int
			Data struct{ Reason string }
		}
	}
	if err := json.Unmarshal([]byte(first), &answer); err != nil {
		d.t.Fatalf("%v in %s", err, first)
	}
	switch {
	case answer.Error != nil && answer.Error.Code == -32024:
		return answer.Error.Data.Reason, first
	case answer.Result.IsError:
		return "refused", first
	}
	return "", first
}

// Every method and every tool answers each caller as the tables say, and one
// without a row is a failure.
func TestRights_OfEveryMethodAndTool(t *testing.T) {
	d, decision, _ := manyTokens(t)
	ask := func(what, method, params string, r rpcRow) {
		t.Helper()
		for _, caller := range callers[1:] {
			got, first := d.outcome(caller, method, params)
			want := r.want(caller)
			if caller == "someone" {
				want = "unauthorized"
			}
			if got != want {
				t.Errorf("%s as %s: %q, want %q: %s", what, caller, got, want, first)
			}
			if caller == "elsewhere" && got == "" && strings.Contains(first, "chat:") && !strings.Contains(method, "list") {
				t.Errorf("%s shows another's scope: %s", what, first)
			}
		}
	}
	methods, known := methodRows(), mcpserve.Methods()
	for _, method := range known {
		r, ok := methods[method]
		if !ok {
			t.Errorf("%s has no row: say in methodRows who may", method)
			continue
		}
		ask(method, method, r.params, r)
	}
	for method := range methods {
		if !slices.Contains(known, method) {
			t.Errorf("%s has a row, and is no method", method)
		}
	}
	_, list := d.outcome("reader", "tools/list", "")
	var listed struct {
		Result struct{ Tools []struct{ Name string } }
	}
	if err := json.Unmarshal([]byte(list), &listed); err != nil {
		t.Fatal(err)
	}
	tools := toolRows(decision)
	for _, tool := range listed.Result.Tools {
		r, ok := tools[tool.Name]
		if !ok {
			t.Errorf("%s has no row: say in toolRows who may", tool.Name)
			continue
		}
		delete(tools, tool.Name)
		ask(tool.Name, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, tool.Name, r.params), r)
	}
	for name := range tools {
		t.Errorf("%s has a row, and is no tool", name)
	}
}

// Whoever has other scopes is told nothing of these, by either era's polls.
func TestRights_EventsOfOtherScopes(t *testing.T) {
	d, _, _ := manyTokens(t)
	for _, name := range []string{"attention.decision", "attention.deadLetter"} {
		if got, first := d.outcome("elsewhere", "events/poll", fmt.Sprintf(`"name":%q,"arguments":{"scope":"chat:1"}`, name)); got != "scope" {
			t.Errorf("%s of one by its name: %q: %s", name, got, first)
		}
		if got, first := d.outcome("elsewhere", "events/poll", fmt.Sprintf(`"name":%q,"arguments":{"scope":"chat:*"}`, name)); got != "" || !strings.Contains(first, `"events":[]`) {
			t.Errorf("%s of many: %q: %s", name, got, first)
		}
	}
}

// A consumer belongs to the principal that began it.
func TestRights_Consumers(t *testing.T) {
	d, _, _ := manyTokens(t)
	const wait = `"name":"attend_wait","arguments":{"consumer":"bot","timeoutMs":0}`
	if got, first := d.outcome("reader", "tools/call", wait); got != "" {
		t.Fatalf("%q: %s", got, first)
	}
	if got, first := d.outcome("gull", "tools/call", wait); got != "consumer" {
		t.Errorf("another's: %q: %s", got, first)
	}
	for caller, want := range map[string]bool{"reader": true, "gull": true /* an administrator */} {
		if r := d.ask(http.MethodGet, "/v1/consumers", "", sayWho(caller)); strings.Contains(r.body, `"bot"`) != want {
			t.Errorf("%s: %s", caller, r.body)
		}
	}
	d.ask(http.MethodDelete, "/v1/consumers/bot", "", sayWho("keeper")).want(http.StatusNoContent, nil)
}

// What a token may not write is refused line by line; the lines beside it stand.
func TestRights_LinesOfOtherScopes(t *testing.T) {
	d, _, _ := manyTokens(t)
	var got struct {
		Accepted, Rejected int
		Errors             []struct {
			Line      int
			Code      string
			Retryable bool
		}
	}
	body := `{"scope":"other:1","name":"log.line"}` + "\n" + `{"scope":"chat:1","name":"log.line"}` + "\n" + `{"scope":"other:2","name":"log.line"}` + "\n"
	d.ask(http.MethodPost, "/v1/ingest", body, sayWho("elsewhere")).want(http.StatusUnprocessableEntity, &got)
	if got.Accepted != 2 || got.Rejected != 1 || len(got.Errors) != 1 || got.Errors[0].Line != 2 || got.Errors[0].Code != "forbiddenScope" || got.Errors[0].Retryable {
		t.Errorf("got %+v", got)
	}
}
