package bridge

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

func TestTrouble_NoDaemon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{down: true, handle: func(w http.ResponseWriter, _ *http.Request) {
			asJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":1,"result":{}}`)
		}}
		h := connect(t, d)
		ask := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
		for range 2 {
			h.say(ask)
			h.hears(`{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"attend does not answer at http://attend.test/mcp (dial tcp: connection refused): ` +
				"start it with `attend serve`, or set ATTEND_URL or ATTEND_SOCKET in this server's entry in the host's configuration to where it listens; then call again" +
				`","data":{"reason":"unreachable"}}}`)
		}
		h.say(`{"jsonrpc":"2.0","method":"notifications/progress"}`)
		h.hears()
		d.setDown(false)
		h.say(ask)
		h.hears(`{"jsonrpc":"2.0","id":1,"result":{}}`)
	})
}

func TestTrouble_WhatTheHostIsTold(t *testing.T) {
	answer := func(status int, kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			io.WriteString(w, text)
		}
	}
	for name, c := range map[string]struct {
		handle http.HandlerFunc
		want   []string
	}{
		"a wrong token":       {answer(401, "application/problem+json", `{"detail":"no"}`), []string{"does not take this token: set ATTEND_TOKEN", `"reason":"unauthorized","status":401`}},
		"a forbidden host":    {answer(403, "application/problem+json; charset=utf-8", `{"detail":"the host is not allowed"}`), []string{"attend at http://attend.test/mcp answered 403: the host is not allowed", `"reason":"refused","status":403`}},
		"plain words":         {answer(413, "text/plain; charset=utf-8", "the body has\nmore than 1 bytes\n"), []string{"answered 413: the body has more than 1 bytes"}},
		"no words":            {answer(503, "text/plain", ""), []string{"answered 503: Service Unavailable"}},
		"long words":          {answer(500, "text/plain", strings.Repeat("é", 400)), []string{strings.Repeat("é", 250) + "…"}},
		"a page":              {answer(200, "text/html", "<html>"), []string{"what answers at http://attend.test/mcp does not speak MCP (200 OK, text/html): set ATTEND_URL"}},
		"other JSON":          {answer(200, "application/json", `{"ok":true}`), []string{"broke before the answer was there (the answer is not JSON-RPC)", `"reason":"interrupted"`}},
		"an accepted request": {answer(202, "", ""), []string{"it ended without an answer"}},
		"a stream that ends":  {answer(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n"), []string{`"method":"a"`, "it ended without an answer: what was asked for may have been done"}},
		"half an event":       {answer(200, "text/event-stream", "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n"), []string{"unexpected EOF"}},
		"an event of JSON":    {answer(200, "text/event-stream", "data: {}\n\n"), []string{"the answer is not JSON-RPC"}},
		"a long answer":       {answer(200, "application/json", strings.Repeat(" ", maxAnswer+1)), []string{"the answer has more than 16777216 bytes"}},
		"a long event":        {answer(200, "text/event-stream", "data: 1\ndata: "+strings.Repeat(" ", maxAnswer)+"\n\n"), []string{"the answer has more than 16777216 bytes"}},
		"a daemon that dies": {func(w http.ResponseWriter, _ *http.Request) {
			asEvents(w, ": ok\n\n")
			panic(http.ErrAbortHandler)
		}, []string{"the connection to attend at http://attend.test/mcp broke", "may have been done", `"reason":"interrupted"`}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := connect(t, &daemon{handle: c.handle})
				h.say(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
				lines := h.heard()
				got := strings.Join(lines, "\n")
				for _, want := range c.want {
					want = strings.ReplaceAll(want, "it ended without an answer:", "it ended without an answer):")
					if !strings.Contains(got, want) {
						t.Errorf("%q is not in %.2000s", want, got)
					}
				}
				if len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,`) {
					t.Errorf("the last line is no error: %.2000s", got)
				}
			})
		})
	}
}

// Who follows events must not take for its end that the daemon is away.
func TestTrouble_EventsGoOnAfterwards(t *testing.T) {
	down := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	for name, c := range map[string]struct {
		daemon *daemon
		method string
		code   string
	}{
		"a daemon that is away":       {&daemon{down: true}, "events/poll", "-32000"},
		"at the beginning":            {&daemon{down: true}, "initialize", "-32000"},
		"a stream that breaks":        {&daemon{handle: func(w http.ResponseWriter, _ *http.Request) { asEvents(w, ": ok\n\n") }}, "events/stream", "-32000"},
		"a daemon that cannot":        {&daemon{handle: down(503)}, "events/list", "-32000"},
		"a daemon that has too much":  {&daemon{handle: down(429)}, "events/poll", "-32000"},
		"a daemon that does not want": {&daemon{handle: down(403)}, "events/poll", "-32603"},
		"a tool":                      {&daemon{down: true}, "tools/call", "-32603"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := connect(t, c.daemon)
				h.say(`{"jsonrpc":"2.0","id":1,"method":"` + c.method + `","params":{}}`)
				if lines := h.heard(); len(lines) != 1 || !strings.HasPrefix(lines[0], `{"jsonrpc":"2.0","id":1,"error":{"code":`+c.code+`,`) {
					t.Errorf("the host is told %q", lines)
				}
			})
		})
	}
}

func TestTrouble_NoToken(t *testing.T) {
	b := &bridge{opts: Options{At: "http://attend.test/mcp"}}
	if got := b.trouble(&refusal{status: 401}); !strings.Contains(got.text, "wants a token: set ATTEND_TOKEN") {
		t.Errorf("got %q", got.text)
	}
}
