//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	accept  = "Accept: application/json, text/event-stream"
	asJSON  = "Content-Type: application/json"
	modern  = "2026-07-28"
	metaFor = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"curl","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
)

// legacyVersions are the revisions with sessions that are spoken by hand here.
var legacyVersions = []string{"2025-06-18", "2025-11-25"}

// hand speaks the protocol by hand, with curl.
type hand struct {
	d       *daemon
	version string
	session string
	calls   int
}

// reply is what came back: its messages, one or those of a stream.
type reply struct {
	status  int
	headers map[string]string // names in lower case
	body    string
	result  map[string]any
	code    int
	data    map[string]any
}

// arguments of curl for a request; extra comes last.
func (h *hand) arguments(method, id, params string, extra ...string) []string {
	args := []string{
		"-sS", "-i", "-N", h.d.url + "/mcp", "-H", asJSON, "-H", accept,
		"-H", "Authorization: Bearer " + h.d.token,
	}
	switch {
	case h.version == modern:
		args = append(args, "-H", "Mcp-Protocol-Version: "+modern, "-H", "Mcp-Method: "+method)
		if method == "tools/call" {
			name, _, _ := strings.Cut(strings.TrimPrefix(params, `"name":"`), `"`)
			args = append(args, "-H", "Mcp-Name: "+name)
		}
		params = strings.TrimSuffix(metaFor+","+params, ",")
	case method != "initialize":
		args = append(args, "-H", "Mcp-Protocol-Version: "+h.version, "-H", "Mcp-Session-Id: "+h.session)
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params)
	if id == "" {
		body = fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"params":{%s}}`, method, params)
	}
	return append(append(args, "-d", body), extra...)
}

func (h *hand) curl(args ...string) *reply {
	h.d.t.Helper()
	ctx, cancel := context.WithTimeout(h.d.t.Context(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "curl", args...).CombinedOutput()
	if err != nil {
		h.d.t.Fatalf("curl %q: %v\n%s", args, err, out)
	}
	return parseReply(h.d.t, string(out))
}

func (h *hand) call(method, params string, extra ...string) *reply {
	h.d.t.Helper()
	h.calls++
	return h.curl(h.arguments(method, strconv.Itoa(h.calls), params, extra...)...)
}

// parseReply reads the output of curl -i.
func parseReply(t *testing.T, out string) *reply {
	t.Helper()
	head, body, _ := strings.Cut(out, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	r := &reply{headers: make(map[string]string), body: strings.TrimSpace(body)}
	if _, err := fmt.Sscanf(lines[0], "HTTP/1.1 %d", &r.status); err != nil {
		t.Fatalf("no status in %q", out)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		r.headers[strings.ToLower(name)] = value
	}
	for _, message := range r.messages() {
		var m struct {
			Result map[string]any
			Error  struct {
				Code int
				Data map[string]any
			}
		}
		if err := json.Unmarshal([]byte(message), &m); err != nil {
			t.Fatalf("%v: %s", err, message)
		}
		if m.Result != nil || m.Error.Code != 0 {
			r.result, r.code, r.data = m.Result, m.Error.Code, m.Error.Data
		}
	}
	return r
}

// messages are the JSON texts of a reply.
func (r *reply) messages() []string {
	if strings.HasPrefix(r.headers["content-type"], "text/event-stream") {
		var all []string
		for line := range strings.Lines(r.body) {
			if data, found := strings.CutPrefix(line, "data: "); found {
				all = append(all, strings.TrimSpace(data))
			}
		}
		return all
	}
	if strings.HasPrefix(r.headers["content-type"], "application/json") {
		return []string{r.body}
	}
	return nil
}

// begin opens a session, in the revisions that have them.
func (h *hand) begin() {
	t := h.d.t
	t.Helper()
	if h.version == modern {
		return
	}
	r := h.call("initialize", fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"curl","version":"1"}`, h.version))
	h.session = r.headers["mcp-session-id"]
	if r.status != 200 || r.result["protocolVersion"] != h.version || h.session == "" {
		t.Fatalf("initialize: %+v", r)
	}
	if r := h.curl(h.arguments("notifications/initialized", "", "")...); r.status != 202 || r.body != "" {
		t.Errorf("notifications/initialized: %+v", r)
	}
}

func TestCurl(t *testing.T) {
	for _, version := range append(legacyVersions, modern) {
		t.Run(version, func(t *testing.T) {
			h := &hand{d: start(t, token), version: version}
			h.begin()
			h.list()
			h.poll()
			h.faults()
			h.giveUp()
			h.streams()
			h.listens()
			h.end()
			h.stops()
		})
	}
}

func (h *hand) list() {
	t := h.d.t
	t.Helper()
	describe := "initialize"
	if h.version == modern {
		describe = "server/discover"
	}
	r := h.call(describe, fmt.Sprintf(`"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"curl","version":"1"}`, h.version))
	capabilities, _ := json.Marshal(r.result["capabilities"])
	for _, spelling := range []string{`"extensions":{"io.modelcontextprotocol/events":`, `"events":{`} {
		if !strings.Contains(string(capabilities), spelling) {
			t.Errorf("%s declares no %s: %s", describe, spelling, capabilities)
		}
	}
	for _, method := range []string{"tools/list", "events/list"} {
		if r := h.call(method, ""); r.status != 200 || r.result["resultType"] != "complete" || len(r.body) < 1000 {
			t.Errorf("%s: %+v", method, r)
		}
	}
}

func (h *hand) poll() {
	t := h.d.t
	t.Helper()
	now := h.call("events/poll", `"name":"attention.decision"`)
	want := h.d.push("chat:curl", "one", "two")
	r := h.call("events/poll", fmt.Sprintf(`"name":"attention.decision","cursor":%q`, now.result["cursor"]))
	events, _ := r.result["events"].([]any)
	if len(events) != 2 || events[1].(map[string]any)["eventId"] != want[1] || r.result["resultType"] != "complete" {
		t.Errorf("events/poll: %+v", r)
	}
	wait := h.call("tools/call", fmt.Sprintf(`"name":"attend_wait","arguments":{"cursor":%q}`, now.result["cursor"]))
	content, _ := wait.result["structuredContent"].(map[string]any)
	if decisions, _ := content["decisions"].([]any); len(decisions) != 2 || wait.result["resultType"] != "complete" {
		t.Errorf("attend_wait: %+v", wait)
	}
}

// faults holds errors to their codes, data and HTTP statuses.
func (h *hand) faults() {
	t := h.d.t
	t.Helper()
	status := func(inModern int) int {
		if h.version == modern {
			return inModern
		}
		return 200
	}
	for _, c := range []struct {
		method, params string
		status, code   int
		key            string
		value          any
	}{
		{"events/poll", `"name":"nope"`, 200, -32023, "kind", "event"},
		{"events/poll", `"name":"attention.decision","cursor":"zz"`, status(400), -32602, "path", "/cursor"},
		{"events/poll", `"name":"attention.decision","arguments":{"minConfidence":2}`, status(400), -32602, "path", "/arguments/minConfidence"},
		{"events/nosuch", "", status(404), -32601, "", nil},
		{"prompts/list", "", status(404), -32601, "", nil},
	} {
		r := h.call(c.method, c.params)
		if r.status != c.status || r.code != c.code || r.data[c.key] != c.value {
			t.Errorf("%s %s: got %+v, want %+v", c.method, c.params, r, c)
		}
	}
	const bare = `{"jsonrpc":"2.0","id":1,"method":"events/list","params":{}}`
	for _, c := range []struct {
		what         string
		status, code int
		from, to     string // of the arguments of curl, the one that begins so becomes this
		inModern     bool   // and in no other revision
	}{
		{"no token", 401, 0, "Authorization: ", "X-No: token", false},
		{"another token", 401, 0, "Authorization: ", "Authorization: Bearer x", false},
		{"a batch", 400, -32600, "{", "[" + bare + "]", false},
		{"no JSON", 400, -32700, "{", "{", false},
		{"another type", 415, 0, asJSON, "Content-Type: text/plain", false},
		{"another method in the header", 400, -32020, "Mcp-Method: ", "Mcp-Method: events/poll", true},
		{"no _meta", 400, -32602, "{", bare, true},
		{"a revision that is not there", 400, -32022, "Mcp-Protocol-Version: ", "Mcp-Protocol-Version: 2099-01-01", true},
	} {
		if c.inModern && h.version != modern {
			continue
		}
		args := h.arguments("events/list", "1", "")
		at := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, c.from) })
		args[at] = c.to
		r := h.curl(args...)
		if r.status != c.status || r.code != c.code || (r.status == 401) != strings.HasPrefix(r.headers["www-authenticate"], "Bearer") {
			t.Errorf("%s: got %+v, want %+v", c.what, r, c)
		}
	}
	for _, header := range []string{"Origin: https://evil.example", "Host: evil.example"} {
		if r := h.call("events/list", "", "-H", header); r.status != 403 {
			t.Errorf("%s: %+v", header, r)
		}
	}
}

// giveUp ends a wait: in words where there are sessions, else by going away.
func (h *hand) giveUp() {
	t := h.d.t
	t.Helper()
	b := h.background(h.arguments("tools/call", "77", `"name":"attend_wait","arguments":{"timeoutMs":240000}`)...)
	h.d.becomes("attend_mcp_waits", 1)
	if h.version == modern {
		b.hangUp()
		<-b.ended
	} else {
		if r := h.curl(h.arguments("notifications/cancelled", "", `"requestId":77`)...); r.status != 202 {
			t.Errorf("notifications/cancelled: %+v", r)
		}
		if err := <-b.ended; err != nil || strings.Contains(b.said.String(), "jsonrpc") {
			t.Errorf("a cancelled call ends with %v\n%s", err, b.said)
		}
	}
	h.d.becomes("attend_mcp_waits", 0)
}

// background is a curl that runs beside the test.
type background struct {
	said   *output
	hangUp func()
	ended  chan error // gets how it ended
}

func (h *hand) background(args ...string) *background {
	t := h.d.t
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "curl", args...)
	said := new(output)
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(cancel)
	return &background{said: said, hangUp: cancel, ended: ended}
}

// stream opens a stream with a JSON-RPC id and waits until it is active.
func (h *hand) stream(id, scope string) *background {
	t := h.d.t
	t.Helper()
	b := h.background(h.arguments("events/stream", id, fmt.Sprintf(`"name":"attention.decision","arguments":{"scope":%q}`, scope))...)
	eventually(t, "the stream is active", func() bool { return strings.Contains(b.said.String(), `"notifications/events/active"`) })
	return b
}

// streams follows with an id that is a number and with one that is a string:
// each comes back as it was.
func (h *hand) streams() {
	t := h.d.t
	t.Helper()
	for _, id := range []string{"78", `"s1"`} {
		b := h.stream(id, "chat:"+h.version)
		h.d.becomes("attend_event_streams", 1)
		text := "for " + strings.Trim(id, `"`)
		want := h.d.push("chat:"+h.version, text)
		eventually(t, "the event has come", func() bool { return strings.Contains(b.said.String(), text) })
		if h.version == modern {
			b.hangUp()
			<-b.ended
		} else {
			h.curl(h.arguments("notifications/cancelled", "", `"requestId":`+id)...)
			if err := <-b.ended; err != nil {
				t.Errorf("a cancelled stream ends with %v", err)
			}
		}
		h.d.becomes("attend_event_streams", 0)
		r := parseReply(t, b.said.String())
		messages := r.messages()
		if r.headers["content-type"] != "text/event-stream" || len(messages) != 2 || !strings.Contains(messages[1], want[0]) || r.result != nil {
			t.Errorf("the stream was %+v", r)
		}
		for _, message := range messages {
			if !strings.Contains(message, `"io.modelcontextprotocol/subscriptionId":`+id) {
				t.Errorf("not of subscription %s: %s", id, message)
			}
		}
	}
}

// listens opens the stream on which the daemon speaks of its own accord.
func (h *hand) listens() {
	t := h.d.t
	t.Helper()
	if h.version == modern {
		b := h.background(h.arguments("subscriptions/listen", `"l"`, `"notifications":{"eventsListChanged":true,"toolsListChanged":true}`)...)
		eventually(t, "it is acknowledged", func() bool { return strings.Contains(b.said.String(), "notifications/subscriptions/acknowledged") })
		b.hangUp()
		<-b.ended
		if messages := parseReply(t, b.said.String()).messages(); !strings.Contains(messages[0], `"notifications":{"eventsListChanged":true}`) {
			t.Errorf("acknowledged is %s", messages)
		}
		return
	}
	b := h.background("-sS", "-i", "-N", h.d.url+"/mcp", "-H", "Accept: text/event-stream", "-H", "Authorization: Bearer "+h.d.token, "-H", "Mcp-Session-Id: "+h.session)
	eventually(t, "it is open", func() bool { return strings.Contains(b.said.String(), "\r\n\r\n") })
	if r := parseReply(t, b.said.String()); r.status != 200 || r.headers["content-type"] != "text/event-stream" {
		t.Errorf("GET: %+v", r)
	}
	b.hangUp()
	<-b.ended
}

// stops ends the daemon under a stream: its request is answered.
func (h *hand) stops() {
	t := h.d.t
	t.Helper()
	h.begin()
	b := h.stream(`"last"`, "*")
	h.d.terminate()
	if err := <-b.ended; err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	r := parseReply(t, b.said.String())
	meta, _ := r.result["_meta"].(map[string]any)
	if r.result["resultType"] != "complete" || meta["io.modelcontextprotocol/subscriptionId"] != "last" {
		t.Errorf("the stream ended with %s", r.body)
	}
}

// end closes the session.
func (h *hand) end() {
	t := h.d.t
	t.Helper()
	if h.version == modern {
		return
	}
	args := []string{"-sS", "-i", "-X", "DELETE", h.d.url + "/mcp", "-H", "Authorization: Bearer " + h.d.token, "-H", "Mcp-Session-Id: " + h.session}
	if r := h.curl(args...); r.status != 204 {
		t.Errorf("DELETE: %+v", r)
	}
	if r := h.call("events/list", ""); r.status != 404 || r.code != -32001 {
		t.Errorf("after DELETE: %+v", r)
	}
}
