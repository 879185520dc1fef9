package app_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// mcpStream is an answer of /mcp that stays open.
type mcpStream struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
}

// openMCP sends a request to /mcp whose answer stays open.
func (d *running) openMCP(method, body string, header ...string) *mcpStream {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+"/mcp", strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := (&http.Client{Transport: d.client.Transport}).Do(req) // without a time limit
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = resp.Body.Close() })
	return &mcpStream{d.t, resp, bufio.NewReader(resp.Body)}
}

// line reads to the next line that holds a text, and returns it.
func (s *mcpStream) line(text string) string {
	s.t.Helper()
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			s.t.Fatalf("%q never came: %v", text, err)
		}
		if strings.Contains(line, text) {
			return line
		}
	}
}

// rest reads to the end.
func (s *mcpStream) rest() string {
	s.t.Helper()
	var b strings.Builder
	if _, err := s.in.WriteTo(&b); err != nil {
		s.t.Errorf("the body was cut off: %v", err)
	}
	return b.String()
}

// tool calls a tool and decodes its structured content.
func (d *running) tool(name, arguments string, into any) {
	d.t.Helper()
	var answer struct {
		Result struct{ StructuredContent json.RawMessage }
	}
	line := d.openMCP(http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+name+`","arguments":`+arguments+`}}`).line(`"jsonrpc"`)
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &answer); err != nil {
		d.t.Fatalf("%v in %s", err, line)
	}
	if err := json.Unmarshal(answer.Result.StructuredContent, into); err != nil {
		d.t.Fatalf("%v in %s", err, line)
	}
}

const (
	streamCall = `{"jsonrpc":"2.0","id":"s","method":"events/stream","params":{"name":"attention.decision"}}`
	initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"0"}}}`
)

func TestMCP_StreamsWhatIsDecided(t *testing.T) {
	inEachStore(t, func(t *testing.T, store string) {
		d := run(t, []string{"ATTEND_TOKEN=secret-secret-secret"}, "--store", store)
		s := d.openMCP(http.MethodPost, streamCall)
		s.line("notifications/events/active")
		d.ingest(`{"scope":"chat/1","id":"m1","name":"message.new","text":"are you there?"}`)
		if got := s.line("notifications/events/event"); !strings.Contains(got, "are you there?") || !strings.Contains(got, `"io.modelcontextprotocol/subscriptionId":"s"`) {
			t.Errorf("got %s", got)
		}
		var found struct{ Scopes []struct{ Scope string } }
		d.tool("attend_scopes", `{"scope":"chat/*"}`, &found)
		if len(found.Scopes) != 1 || found.Scopes[0].Scope != "chat/1" {
			t.Errorf("attend_scopes: %+v", found)
		}
		var told struct {
			State   string
			History []struct{ What string }
		}
		decided, _ := d.next("")
		d.tool("attend_decision", `{"id":"`+decided[0].ID+`"}`, &told)
		if told.State != "decided" || len(told.History) != 2 || !strings.Contains(told.History[0].What, "could not wait") || !strings.Contains(told.History[1].What, "the route is interrupt") {
			t.Errorf("attend_decision: %+v", told)
		}
	})
}

// Stopping ends every stream with its answer, at once: some clients would wait
// for one for ever.
func TestMCP_StreamsEndWithTheDaemon(t *testing.T) {
	d := run(t, nil)
	opened := d.ask(http.MethodPost, "/mcp", initialize, header("Accept", "application/json, text/event-stream"))
	session := opened.header.Get("Mcp-Session-Id")
	get := d.openMCP(http.MethodGet, "", "Mcp-Session-Id", session)
	get.line(": ok")
	stream := d.openMCP(http.MethodPost, streamCall)
	stream.line("notifications/events/active")
	listen := d.openMCP(http.MethodPost, `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{"notifications":{"eventsListChanged":true},`+
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")
	listen.line("notifications/subscriptions/acknowledged")
	began := time.Now()
	if err := d.stop(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 5*time.Second { // far below the time after which requests are cut off
		t.Errorf("stopping took %s", took)
	}
	for what, s := range map[string]*mcpStream{`"id":"s"`: stream, `"id":7`: listen} {
		if got := s.rest(); !strings.Contains(got, what) || !strings.Contains(got, `"resultType":"complete"`) {
			t.Errorf("the last words: %q, want the answer to %s", got, what)
		}
	}
	if got := get.rest(); strings.Contains(got, "jsonrpc") {
		t.Errorf("the session's stream ends with %q", got)
	}
	if strings.Contains(d.log.String(), "cut off") {
		t.Errorf("logged: %s", d.log.String())
	}
}
