package main_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"attend/internal/store/postgres/pgtest"
)

// checkAway: a daemon whose store does not write says so, in a way that a
// producer, a reader and a model can act on, and goes on living.
func checkAway(t *testing.T, d *daemon, reads bool) {
	t.Helper()
	type call struct{ method, path, body string }
	calls := []call{
		{http.MethodPost, "/v1/ingest", `{"scope":"away:0","name":"act.closing","id":"while-away"}`},
		{http.MethodPost, "/v1/flush", `{"scope":"away:0"}`},
	}
	if !reads {
		calls = append(calls, call{http.MethodGet, "/v1/decisions", ""}, call{http.MethodGet, "/v1/consumers", ""})
	}
	for _, c := range calls {
		var status int
		var body []byte
		var header http.Header
		eventually(t, time.Minute, c.path+" is not answered with 503", func() bool {
			status, body, header = d.call(t, c.method, c.path, c.body)
			return status == http.StatusServiceUnavailable
		})
		if header.Get("Retry-After") == "" || header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: headers %v, body %s", c.method, c.path, header, body)
		}
	}
	// A model reads the result of its call, and not a status.
	wait := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"attend_wait","arguments":{"consumer":"away","timeoutMs":0}}}`
	if status, body, _ := d.call(t, http.MethodPost, "/mcp", wait); status != http.StatusOK || !bytes.Contains(body, []byte("try again")) || !bytes.Contains(body, []byte(`"isError":true`)) {
		t.Errorf("attend_wait: status %d, %s", status, body)
	}
	if status, _, _ := d.call(t, http.MethodGet, "/healthz", ""); status != http.StatusOK {
		t.Errorf("/healthz has status %d: the process is well", status)
	}
	if !reads {
		if status, body, _ := d.call(t, http.MethodGet, "/readyz", ""); status != http.StatusServiceUnavailable {
			t.Errorf("/readyz has status %d: %s", status, body)
		}
	}
}

// checkBack: it goes on by itself, decides what became due meanwhile, and takes
// what was refused when it is sent again.
func checkBack(t *testing.T, d *daemon, scope string) {
	t.Helper()
	eventually(t, time.Minute, "it is not ready again", func() bool {
		status, _, _ := d.call(t, http.MethodGet, "/readyz", "")
		return status == http.StatusOK
	})
	count := func(scope string) int {
		_, body, _ := d.call(t, http.MethodGet, "/v1/decisions?scope="+scope, "")
		return bytes.Count(body, []byte(`"reason"`))
	}
	eventually(t, time.Minute, "what was due is not decided", func() bool { return count(scope) == 1 })
	again := `{"scope":"away:0","name":"act.closing","id":"while-away"}`
	eventually(t, time.Minute, "what was refused is not taken", func() bool {
		status, _, _ := d.call(t, http.MethodPost, "/v1/ingest", again)
		return status == http.StatusOK
	})
	eventually(t, time.Minute, "what was sent again is not decided", func() bool { return count("away:0") == 1 })
	wait := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"attend_wait","arguments":{"consumer":"away","timeoutMs":0}}}`
	if status, body, _ := d.call(t, http.MethodPost, "/mcp", wait); status != http.StatusOK || bytes.Contains(body, []byte(`"isError":true`)) {
		t.Errorf("attend_wait afterwards: status %d, %s", status, body)
	}
}

// The database is gone for a while: every replica says so, and goes on when it
// is back.
func replicasWithoutDatabase(t *testing.T, f *fleet) {
	f.replicas[0].post(t, "due:0", "act.stream")
	gone := time.Now()
	if err := f.cluster.Stop("immediate"); err != nil {
		t.Fatal(err)
	}
	f.asked = nil
	for _, r := range f.replicas {
		checkAway(t, r.daemon, false)
	}
	// One that starts now says why it cannot, and ends.
	out := run(t, f.replicas[0].binary, "serve", "--port", "0", "--store", withPassword(t, f.address))
	if !strings.Contains(out, "open the store postgres://postgres@127.0.0.1") || strings.Contains(out, "hunter2") {
		t.Errorf("a start without a database says %s", out)
	}
	pause(t.Context(), fleetLease+time.Second) // all leases expire
	if err := f.cluster.Start(); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.replicas {
		checkBack(t, r.daemon, "due:0")
		checkTold(t, r.daemon, time.Since(gone))
	}
	f.balanced(t)
}

// checkTold: the outage is told when it begins, now and then, and when it is
// over, and not for each request that met it.
func checkTold(t *testing.T, d *daemon, lasted time.Duration) {
	t.Helper()
	for path, body := range map[string]string{ //arch:sorted each is for itself
		"/v1/ingest": `{"scope":"away:1","name":"act.closing"}`, "/v1/flush": `{"scope":"away:1"}`, "/v1/decisions": "",
	} {
		method := http.MethodPost
		if body == "" {
			method = http.MethodGet
		}
		if status, answer, _ := d.call(t, method, path, body); status >= http.StatusMultipleChoices {
			t.Errorf("%s is answered with %d: %s", path, status, answer)
		}
	}
	log, err := os.ReadFile(d.logName())
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"ingest", "api"} {
		began, over := `msg="the store does not answer: requests are refused" of=`+of, `msg="the store answers again" of=`+of
		// It may seem over and begin again while the server comes back.
		most := 3 + int(lasted/(10*time.Second))
		if n := bytes.Count(log, []byte(began)); n < 1 || n > most || !bytes.Contains(log, []byte(over)) {
			t.Errorf("%s: in %v the log says %q %d times, want 1 to %d, and that it is over", d.logName(), lasted, began, n, most)
		}
	}
	if bytes.Contains(log, []byte(`\n`)) {
		t.Errorf("%s: an error has more than one line", d.logName())
	}
}

// run runs a command that has to fail, and returns what it says.
func run(t *testing.T, binary string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir, cmd.Env = t.TempDir(), []string{}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("attend %s ends with %v: %s", fmt.Sprint(args), err, out)
	}
	return string(out)
}

func withPassword(t *testing.T, address string) string {
	t.Helper()
	return pgtest.With(t, address, "password=hunter2", "connect_timeout=2")
}
