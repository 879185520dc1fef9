package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whatever is open when a token's time is over ends, with a word; whoever has
// another token goes on.
func TestRevoked_EndsWhatIsOpen(t *testing.T) {
	d, _, _ := manyTokens(t)
	sse := d.stream("", "Authorization", "Bearer token-of-reader-long-enough")
	other := d.stream("", "Authorization", "Bearer "+everyRight)
	events := d.openMCP(http.MethodPost, streamCall, "Authorization", "Bearer token-of-reader-long-enough")
	events.line("notifications/events/active")
	waiting := make(chan string, 1)
	go func() {
		got, _ := d.outcome("reader", "tools/call", `"name":"attend_wait","arguments":{"timeoutMs":240000}`)
		waiting <- got
	}()
	polling := make(chan response, 1)
	go func() { polling <- d.ask(http.MethodGet, "/v1/decisions?after=now&waitMs=30000", "", sayWho("reader")) }()
	for !strings.Contains(d.ask(http.MethodGet, "/metrics", "").body, "attend_mcp_waits 1") {
	}
	d.app.Revoke("reader")

	if _, event, data, err := sse.next(); err != nil || event != "end" || !strings.Contains(data, `"revoked"`) {
		t.Errorf("the stream of decisions: %s %s (%v)", event, data, err)
	}
	if got := events.line("terminated"); !strings.Contains(got, "-32024") || !strings.Contains(got, `"reason":"revoked"`) {
		t.Errorf("the stream of events: %s", got)
	}
	if got := events.rest(); !strings.Contains(got, `"result"`) {
		t.Errorf("its end: %s", got)
	}
	if got := <-waiting; got != "revoked" && got != "unauthorized" {
		t.Errorf("the wait: %q", got)
	}
	(<-polling).problem(http.StatusUnauthorized, "unauthorized")
	d.ask(http.MethodGet, "/v1/decisions", "", sayWho("reader")).problem(http.StatusUnauthorized, "unauthorized")
	if got, _ := d.outcome("reader", "events/poll", `"name":"attention.decision"`); got != "unauthorized" {
		t.Errorf("the next poll: %q", got)
	}
	d.ingest(`{"scope":"chat:1","name":"message.created"}`)
	if _, event, _, err := other.next(); err != nil || event != "decision" {
		t.Errorf("another's stream: %q (%v)", event, err)
	}
}

// A token that has expired is told so.
func TestRevoked_ByTheClock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "attend.yaml")
	const content = "tokens: [{name: reader, token: token-of-reader-long-enough, rights: read, expires: 2020-01-01T00:00:00Z}]"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	d := run(t, nil, "--config", file)
	r := d.ask(http.MethodGet, "/v1/scopes", "", sayWho("reader")).problem(http.StatusUnauthorized, "unauthorized")
	if got := r.header.Get("WWW-Authenticate"); got != `Bearer realm="attend", error="invalid_token"` || !strings.Contains(r.body, "expired") {
		t.Errorf("WWW-Authenticate %q: %s", got, r.body)
	}
	d.ask(http.MethodGet, "/healthz", "").want(http.StatusOK, nil)
	if !strings.Contains(d.log.String(), "has expired") {
		t.Error("nothing warns of it at start")
	}
}
