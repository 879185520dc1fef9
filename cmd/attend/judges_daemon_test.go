package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attend/internal/engine"
)

// daemonKey is the key of every judge here. It must turn up nowhere.
const daemonKey = "marker-of-a-key-91c4"

// judged is a daemon with judges, on a database of its own.
type judged struct {
	t   *testing.T
	dir string
	*served
}

// withJudges starts a daemon. The configuration is what stands in attend.yaml
// beside kinds: stop ends a window at once, done after closingGraceMs.
func withJudges(t *testing.T, config string) *judged {
	t.Helper()
	d := &judged{t: t, dir: t.TempDir()}
	config = "kinds: {stop: flush, done: closing, log: consequence}\n" + config
	if err := os.WriteFile(filepath.Join(d.dir, "attend.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	d.start()
	t.Cleanup(func() {
		if d.served != nil {
			_ = d.end(os.Kill)
		}
	})
	return d
}

func (d *judged) env() []string {
	return append(withoutAttend(os.Environ()), "ATTEND_PORT=0", "MY_KEY="+daemonKey)
}

func (d *judged) start() {
	d.t.Helper()
	before := d.served
	s, err := serve(d.dir, d.env())
	if err != nil {
		d.t.Fatal(err)
	}
	if before != nil { // what it logged counts too
		_, _ = s.stderr.Write([]byte(before.stderr.String()))
	}
	d.served = s
}

// kill ends the process as a power failure would.
func (d *judged) kill() {
	d.t.Helper()
	_ = d.end(os.Kill) // it was killed, and says so
}

// call returns the status and the body of a request.
func (d *judged) call(method, path, body string) (int, string) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/x-ndjson")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// send takes events in; each is a scope and a name.
func (d *judged) send(events ...[2]string) {
	d.t.Helper()
	var body strings.Builder
	for i, e := range events {
		fmt.Fprintf(&body, `{"scope":%q,"name":%q,"id":"%s-%d","text":"please look"}`+"\n", e[0], e[1], e[0], i)
	}
	if status, answer := d.call(http.MethodPost, "/v1/ingest", body.String()); status != http.StatusOK {
		d.t.Fatalf("status %d: %s", status, answer)
	}
}

// final is a decision or a dead letter as it is listed.
type final struct {
	engine.Decision
	Stage     string
	WindowID  string
	Message   string
	Attempts  int
	Permanent bool
}

// finals waits until so many windows have come to their end, and returns them,
// oldest first.
func (d *judged) finals(n int) []final {
	d.t.Helper()
	var all struct{ Decisions []final }
	d.until(fmt.Sprintf("%d windows come to their end", n), func() bool {
		_, body := d.call(http.MethodGet, "/v1/decisions?limit=1000&kinds=decision,deadLetter", "")
		if err := json.Unmarshal([]byte(body), &all); err != nil {
			d.t.Fatalf("%v: %s", err, body)
		}
		return len(all.Decisions) >= n
	})
	if len(all.Decisions) > n {
		d.t.Errorf("%d windows came to their end, want %d", len(all.Decisions), n)
	}
	return all.Decisions
}

// until waits for what must come.
func (d *judged) until(what string, holds func() bool) {
	d.t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			d.t.Fatalf("after %v: not so: %s\n%s", patience, what, d.stderr.String())
		}
		tick := time.NewTimer(10 * time.Millisecond)
		select {
		case <-tick.C:
		case <-d.t.Context().Done():
			d.t.Fatal(d.t.Context().Err())
		}
	}
}

// calls are the exchanges with judges in the story of a window, oldest first.
func (d *judged) calls(window string) []engine.Exchange {
	d.t.Helper()
	_, body := d.call(http.MethodGet, "/v1/decisions/"+window, "")
	var story any
	if err := json.Unmarshal([]byte(body), &story); err != nil {
		d.t.Fatalf("%v: %s", err, body)
	}
	var calls []engine.Exchange
	gatherCalls(story, &calls)
	return calls
}

// gatherCalls finds what is called calls, wherever it stands.
func gatherCalls(v any, into *[]engine.Exchange) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			gatherCalls(item, into)
		}
	case map[string]any:
		if found, ok := v["calls"].([]any); ok {
			b, _ := json.Marshal(found) // it was read from JSON
			var calls []engine.Exchange
			if json.Unmarshal(b, &calls) == nil {
				*into = append(*into, calls...)
			}
		}
		if steps, ok := v["steps"]; ok {
			gatherCalls(steps, into)
		}
		for _, key := range []string{"step", "verdict", "failed"} {
			gatherCalls(v[key], into)
		}
	}
}

// keepsTheKey looks for the key in everything that the daemon shows: what it
// logs, its metrics, the story of each window, the log, and what check says.
func (d *judged) keepsTheKey(windows ...string) {
	d.t.Helper()
	shown := map[string]string{"the daemon's log": d.stderr.String()}
	_, shown["/metrics"] = d.call(http.MethodGet, "/metrics", "")
	for _, path := range []string{"/v1/decisions?kinds=decision,deadLetter", "/v1/deadletters", "/v1/scopes"} {
		_, shown[path] = d.call(http.MethodGet, path, "")
	}
	for _, id := range windows {
		_, shown["the story of "+id] = d.call(http.MethodGet, "/v1/decisions/"+id, "")
	}
	store := "sqlite:" + filepath.Join(d.dir, "attend.db")
	config := filepath.Join(d.dir, "attend.yaml")
	for _, args := range [][]string{
		{"log", "export", "--store", store}, {"check", "--config", config}, {"check", "--config", config, "--output", "json"},
	} {
		code, out, errs := runMain(d.t, append(withoutAttend(os.Environ()), "MY_KEY="+daemonKey), args...)
		if code != exitOK {
			d.t.Errorf("%q: exit %d: %s", args, code, errs)
		}
		shown[strings.Join(args, " ")] = out + errs
	}
	for where, text := range shown { //arch:sorted each by itself
		if text == "" {
			d.t.Errorf("%s: nothing is there to look at", where)
		}
		if at := strings.Index(text, daemonKey); at >= 0 {
			d.t.Errorf("the key is in %s: …%s…", where, text[max(0, at-100):min(len(text), at+100)])
		}
	}
}
