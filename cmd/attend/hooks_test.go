package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const hookSecret = "a-secret-of-a-webhook-of-github"

// hookHost is a daemon with hooks, as senders see it.
type hookHost struct {
	t      *testing.T
	dir    string
	daemon *served
}

func (h *hookHost) start() {
	h.t.Helper()
	env := append(withoutAttend(os.Environ()), "ATTEND_PORT=0", "GITHUB_WEBHOOK_SECRET="+hookSecret, "ALERTS_TOKEN=a-token-of-alertmanager", "ATTEND_TOKEN=a-token-that-no-sender-has")
	var err error
	if h.daemon, err = serve(h.dir, env); err != nil {
		h.t.Fatal(err)
	}
}

// do sends a request and returns the answer's status and body.
func (h *hookHost) do(method, path, body string, headers ...string) (int, string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.daemon.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, strings.TrimSpace(string(b))
}

// github delivers a comment, signed with a secret.
func (h *hookHost) github(secret, delivery string) (int, string) {
	h.t.Helper()
	const body = `{"action":"created","issue":{"number":7,"title":"It broke"},"comment":{"body":"@agent can you look?"},"repository":{"full_name":"octo/shop"},"sender":{"login":"kelp"}}`
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	return h.do(http.MethodPost, "/v1/hooks/github", body, "Content-Type", "application/json", "X-GitHub-Event", "issue_comment",
		"X-GitHub-Delivery", delivery, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
}

// hookDecision is what these tests look at.
type hookDecision struct {
	Route, Scope, Notice string
	Events               []struct{ ID, Name string }
}

// decisions waits for so many, and returns all that there are.
func (h *hookHost) decisions(n int) (all []hookDecision) {
	h.t.Helper()
	for cursor := "start"; len(all) < n; {
		status, body := h.do(http.MethodGet, "/v1/decisions?waitMs=30000&after="+cursor, "", "Authorization", "Bearer a-token-that-no-sender-has")
		var page struct {
			Decisions []hookDecision
			Cursor    string
		}
		if err := json.Unmarshal([]byte(body), &page); err != nil || status != http.StatusOK || len(page.Decisions) == 0 {
			h.t.Fatalf("%d %s: %v\n%s", status, body, err, h.daemon.stderr)
		}
		all, cursor = append(all, page.Decisions...), page.Cursor
	}
	return all
}

// Senders that know nothing of attend wake an agent: what is signed arrives and is
// decided, what is not reaches nothing, and what is delivered again, to a daemon
// that was killed in between, is a duplicate.
func TestHooks_FromSenderToDecision(t *testing.T) {
	h := &hookHost{t: t, dir: t.TempDir()}
	config := `hooks:
- {name: github, type: github, secretEnv: GITHUB_WEBHOOK_SECRET}
- {name: alerts, type: alertmanager, bearerEnv: ALERTS_TOKEN, scope: "cluster:{labels.cluster}"}
kinds: {"github.issue_comment.created": flush, "alert.*": flush}
store: sqlite:attend.db
`
	if err := os.WriteFile(filepath.Join(h.dir, "attend.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	h.start()
	if status, body := h.github("another secret", "d-0"); status != http.StatusUnauthorized {
		t.Errorf("a spoofed delivery: %d %s", status, body)
	}
	if status, body := h.github(hookSecret, "d-1"); status != http.StatusOK || body != `{"accepted":1,"duplicates":0}` {
		t.Errorf("a delivery: %d %s", status, body)
	}
	const alerts = `{"groupKey":"g","alerts":[{"status":"firing","labels":{"alertname":"DiskFull","cluster":"a"},"annotations":{"summary":"db-1 is full"},"startsAt":"2026-09-21T14:13:20Z","fingerprint":"f1"}]}`
	if status, body := h.do(http.MethodPost, "/v1/hooks/alerts", alerts, "Content-Type", "application/json", "Authorization", "Bearer a-token-of-alertmanager"); status != http.StatusOK {
		t.Errorf("a notification: %d %s", status, body)
	}
	got := h.decisions(2)
	slices.SortFunc(got, func(a, b hookDecision) int { return strings.Compare(b.Scope, a.Scope) })
	for i, want := range []struct{ scope, id, name, notice string }{
		{"repo:octo/shop", "d-1", "github.issue_comment.created", "kelp commented on issue #7 (It broke) in octo/shop: @agent can you look?"},
		{"cluster:a", "f1 2026-09-21T14:13:20Z firing", "alert.firing", "FIRING DiskFull: db-1 is full"},
	} {
		d := got[i]
		if d.Route != "interrupt" || d.Scope != want.scope || len(d.Events) != 1 || d.Events[0].ID != want.id || d.Events[0].Name != want.name || !strings.Contains(d.Notice, want.notice) {
			t.Errorf("decision %+v, want %+v", d, want)
		}
	}
	_ = h.daemon.end(os.Kill)
	h.start()
	if status, body := h.github(hookSecret, "d-1"); status != http.StatusOK || body != `{"accepted":0,"duplicates":1}` {
		t.Errorf("a redelivery: %d %s", status, body)
	}
	if all := h.decisions(2); len(all) != 2 {
		t.Errorf("decisions %+v", all)
	}
	if err := h.daemon.end(os.Interrupt); err != nil {
		t.Error(err)
	}
	if log := h.daemon.stderr.String(); strings.Contains(log, hookSecret) || strings.Contains(log, "a-token-of") {
		t.Errorf("a secret is in the log:\n%s", log)
	}
}
