package app_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const hookSecret = "a-secret-that-signs-for-the-tests"

// hooked starts a daemon with a hook of GitHub, one of CloudEvents, and one that
// is mapped.
func hooked(t *testing.T, env ...string) *running {
	t.Helper()
	file := filepath.Join(t.TempDir(), "attend.yaml")
	config := `hooks:
- {name: gh, type: github, secretEnv: HOOK_SECRET}
- {name: bus, type: cloudevents, bearerEnv: HOOK_SECRET}
- name: chat
  type: generic
  secretEnv: HOOK_SECRET
  signature: {header: X-Signature}
  event: {scope: 'body.channel', name: 'body.type', id: 'body.id', challenge: 'body.?challenge.orValue("")'}
`
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return run(t, append([]string{"HOOK_SECRET=" + hookSecret}, env...), "--config", file, "--kinds", `{"github.issue_comment.*":"flush"}`)
}

// signature is that of a body, in hex.
func signature(body string) string {
	mac := hmac.New(sha256.New, []byte(hookSecret))
	mac.Write([]byte(body))
	return hex.EncodeToString(mac.Sum(nil))
}

const comment = `{"action":"created","issue":{"number":7,"title":"It broke"},"comment":{"body":"@agent look"},"repository":{"full_name":"octo/shop"},"sender":{"login":"kelp"}}`

// comment posts a comment as GitHub does.
func (d *running) comment(changes ...func(*http.Request)) response {
	d.t.Helper()
	return d.ask(http.MethodPost, "/v1/hooks/gh", comment, append([]func(*http.Request){
		header("Content-Type", "application/json"), header("X-GitHub-Event", "issue_comment"), header("X-GitHub-Delivery", "d-1"),
		header("X-Hub-Signature-256", "sha256="+signature(comment)),
	}, changes...)...)
}

// A signed delivery wakes the agent, though the daemon has tokens and the sender
// none; sent again it is a duplicate. A page of a browser is kept out here too.
func TestHooks_ADeliveryIsDecided(t *testing.T) {
	d := hooked(t, "ATTEND_TOKEN="+everyRight)
	noToken := func(r *http.Request) { r.Header.Del("Authorization") }
	d.comment(noToken, header("X-Hub-Signature-256", "sha256="+strings.Repeat("0", 64))).problem(http.StatusUnauthorized, "unauthorized")
	d.comment(noToken, header("Origin", "https://evil.example")).problem(http.StatusForbidden, "originNotAllowed")
	d.comment(noToken, host("hooks.example")).problem(http.StatusForbidden, "hostNotAllowed")
	for i, want := range []string{`{"accepted":1,"duplicates":0}`, `{"accepted":0,"duplicates":1}`} {
		if got := d.comment(noToken).want(http.StatusOK, nil); strings.TrimSpace(got.body) != want {
			t.Errorf("delivery %d: %s, want %s", i+1, got.body, want)
		}
	}
	decisions, _ := d.next("")
	if len(decisions) != 1 || decisions[0].Scope != "repo:octo/shop" || decisions[0].Events[0].ID != "d-1" {
		t.Errorf("decisions %+v", decisions)
	}
	metrics := d.ask(http.MethodGet, "/metrics", "").want(http.StatusOK, nil).body
	for _, want := range []string{
		`attend_hook_requests_total{hook="gh",result="accepted"} 1`, `attend_hook_requests_total{hook="gh",result="duplicate"} 1`,
		`attend_hook_requests_total{hook="gh",result="unauthorized"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	if strings.Contains(d.log.String(), hookSecret) || strings.Contains(metrics, hookSecret) {
		t.Error("the secret is to be seen")
	}
}

// driveHooks brings about what the document says of hooks.
func driveHooks(t *testing.T) *contract {
	d := hooked(t)
	c := hold(d)
	d.comment().want(http.StatusOK, nil)
	d.comment(header("X-Hub-Signature-256", "none")).problem(http.StatusUnauthorized, "unauthorized")
	d.comment(header("Content-Type", "text/plain")).problem(http.StatusUnsupportedMediaType, "unsupportedMediaType")
	d.comment(header("X-GitHub-Event", "")).problem(http.StatusUnprocessableEntity, "invalidBody")
	d.comment(host("hooks.example")).problem(http.StatusForbidden, "hostNotAllowed")
	chat := func(body string) response {
		return d.ask(http.MethodPost, "/v1/hooks/chat", body, header("Content-Type", "application/json"), header("X-Signature", signature(body)))
	}
	chat(`{"channel":"c","type":"chat.said","id":"1"}`).want(http.StatusOK, nil)
	chat(`{"channel":"c"}`).problem(http.StatusUnprocessableEntity, "mappingFailed")
	chat(`{"channel":"c","type":"","id":"1"}`).problem(http.StatusUnprocessableEntity, "eventsRejected")
	if got := chat(`{"challenge":"hear me"}`).want(http.StatusOK, nil); got.body != "hear me" {
		t.Errorf("the challenge is answered with %q", got.body)
	}
	d.ask(http.MethodPost, "/v1/hooks/bus", strings.Repeat("x", 5<<20), header("Authorization", "Bearer "+hookSecret)).problem(http.StatusRequestEntityTooLarge, "bodyTooLarge")
	d.ask(http.MethodPost, "/v1/hooks/none", "{}").problem(http.StatusNotFound, "notFound")
	d.ask(http.MethodOptions, "/v1/hooks/none", "").problem(http.StatusNotFound, "notFound")
	d.ask(http.MethodOptions, "/v1/hooks/gh", "").problem(http.StatusMethodNotAllowed, "methodNotAllowed")
	d.ask(http.MethodOptions, "/v1/hooks/bus", "", host("hooks.example")).problem(http.StatusForbidden, "hostNotAllowed")
	granted := d.ask(http.MethodOptions, "/v1/hooks/bus", "", header("WebHook-Request-Origin", "bus.example"), header("WebHook-Request-Rate", "100")).want(http.StatusOK, nil)
	if granted.header.Get("WebHook-Allowed-Origin") != "*" || granted.header.Get("WebHook-Allowed-Rate") != "*" {
		t.Errorf("the handshake is answered with %v", granted.header)
	}
	return c
}

// What ingest would refuse of a sender that sends nothing twice is mended or cut
// on the way: half of a surrogate pair, bytes that are no UTF-8, nesting.
func TestHooks_WhatIngestWouldRefuse(t *testing.T) {
	d := hooked(t)
	for _, x := range []string{`"\ud83d"`, "\"\xff\"", strings.Repeat("[", 600) + strings.Repeat("]", 600)} {
		body := `{"action":"created","repository":{"full_name":"octo/shop"},"x":` + x + `}`
		got := d.ask(http.MethodPost, "/v1/hooks/gh", body, header("Content-Type", "application/json"), header("X-GitHub-Event", "issue_comment"),
			header("X-Hub-Signature-256", "sha256="+signature(body))).want(http.StatusOK, nil)
		if strings.TrimSpace(got.body) != `{"accepted":1,"duplicates":0}` {
			t.Errorf("%.40s: %s", x, got.body)
		}
	}
}
