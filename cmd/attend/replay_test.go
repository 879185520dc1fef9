package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/examples"
)

// The log of a daemon, replayed, gives the decisions that the daemon made: all
// of them but for the times at which they were written down.
func TestReplay_OfALiveLog(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	store := "sqlite:" + filepath.Join(dir, "attend.db")
	const rules = "policy: {closingGraceMs: 20, streamGapMs: 15, passiveQuietMs: 40, maxWindowMs: 80, maxEvents: 5}\n"
	if err := os.WriteFile("attend.yaml", []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	kinds := `{"push": "closing", "pull_request.*": "closing", "issue_comment.*": "flush", "issues.*": "continuous", "release.*": "passive"}`
	d, err := serve(dir, append(withoutAttend(os.Environ()), "ATTEND_PORT=0"), "--store", store, "--kinds", kinds)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.end(syscall.SIGTERM); err != nil {
			t.Errorf("the daemon ended with %v\n%s", err, d.stderr)
		}
	}()
	events, err := examples.Files.ReadFile("events/github.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(events, []byte("\n"))
	const scope = "repo:acme/service-03"
	for n := 0; n < len(lines); n += 7 {
		post(t, d.url+"/v1/ingest", "application/x-ndjson", bytes.Join(lines[n:min(n+7, len(lines))], nil))
		if n%5 == 0 {
			post(t, d.url+"/v1/flush", "application/json", fmt.Appendf(nil, `{"scope":%q}`, scope))
		}
	}

	// Until the daemon has written everything that is due.
	for end := time.Now().Add(patience); ; {
		live, replayed := liveAndReplayed(t, store)
		diff := cmp.Diff(live, replayed)
		if diff == "" && len(live[scope]) > 10 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d decisions of %s (-live +replayed):\n%s", len(live[scope]), scope, diff)
		}
		time.Sleep(20 * time.Millisecond) //arch:sleep the poll of a condition
	}
}

func post(t *testing.T, url, contentType string, body []byte) {
	t.Helper()
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	res, err := client.Post(url, contentType, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("%s: %s", url, res.Status)
	}
}

// liveAndReplayed are the decisions in a store, and those that a replay of its
// log makes.
func liveAndReplayed(t *testing.T, store string) (live, replayed map[string][]string) {
	t.Helper()
	code, log, stderr := runMain(t, withoutAttend(os.Environ()), "log", "export", "--store", store)
	if code != exitOK {
		t.Fatal(stderr)
	}
	if err := os.WriteFile("log.ndjson", []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	code, again, stderr := runMain(t, withoutAttend(os.Environ()), "replay", "log.ndjson", "--output", "json")
	if code != exitOK || stderr != "" {
		t.Fatalf("%d: %s", code, stderr)
	}
	return decisionsIn(t, log), decisionsIn(t, again)
}

// decisionsIn lists the decisions of each scope, without at and settledAt. In
// what order two scopes were written is up to the daemon.
func decisionsIn(t *testing.T, log string) map[string][]string {
	t.Helper()
	out := make(map[string][]string)
	for line := range strings.Lines(log) {
		var rec struct {
			Scope string `json:"scope"`
			Step  struct {
				Decision map[string]any `json:"decision"`
			} `json:"step"`
		}
		if err := json.Unmarshal([]byte(line), &rec); err != nil {
			t.Fatal(err)
		}
		d := rec.Step.Decision
		if d == nil {
			continue
		}
		delete(d, "at")
		delete(d, "settledAt")
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		out[rec.Scope] = append(out[rec.Scope], string(b))
	}
	return out
}
