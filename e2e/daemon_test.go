//go:build e2e

// Package e2e holds the end-to-end tests: clients that others wrote (curl, the
// SDKs of MCP for JavaScript and Go, the protocol's conformance tool) against
// the binary that users run. They need npm packages besides Go, so they have a
// build tag of their own and a target: make e2e.
package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long a test waits for what must come.
	patience = 30 * time.Second
	// token is the daemon's, where it has one.
	token = "secret-of-sixteen-bytes"
	// kinds make every message a decision of its own.
	kinds = `{"message.*": "flush"}`
)

// binary is the daemon, built once, before any test.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "attend-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// A process that the race detector looks at ends with its first finding, and
	// does not sleep before it ends.
	os.Setenv("GORACE", "halt_on_error=1 atexit_sleep_ms=0")
	binary = filepath.Join(dir, "attend")
	build := exec.Command("go", append(append([]string{"build"}, raceFlags...), "-o", binary, "attend/cmd/attend")...)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "build the daemon:", err)
		return 1
	}
	return m.Run()
}

// daemon is a process of the binary, on a file and a port that it keeps when
// it is started again.
type daemon struct {
	t     *testing.T
	url   string
	token string
	dir   string
	port  string
	log   *output
	cmd   *exec.Cmd // nil while it does not run
	env   []string  // more of its variables
	// excused are errors that the log may hold.
	excused []string
}

// start runs a daemon until the test ends. With a token, whoever asks must
// bring it.
func start(t *testing.T, token string) *daemon {
	t.Helper()
	d := prepare(t, token)
	d.start()
	return d
}

// prepare makes a daemon that the test starts, and that runs until it ends.
func prepare(t *testing.T, token string) *daemon {
	t.Helper()
	d := &daemon{t: t, token: token, dir: t.TempDir(), port: "0", log: new(output)}
	t.Cleanup(func() {
		if d.cmd != nil {
			d.terminate()
		}
		d.checkLog()
		if t.Failed() {
			t.Logf("the daemon's log:\n%s", d.log)
		}
	})
	return d
}

// start starts it, and returns when it listens.
func (d *daemon) start() {
	d.t.Helper()
	d.cmd = exec.Command(binary, "serve", "--store", "sqlite:attend.db", "--port", d.port, "--kinds", kinds)
	d.cmd.Dir = d.dir
	// Whatever the environment says of other daemons is not meant for this one.
	d.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "ATTEND_") })
	d.cmd.Env = append(append(d.cmd.Env, "ATTEND_TOKEN="+d.token), d.env...)
	d.cmd.Stderr = d.log
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "attend: listening on ")
	at, bad := url.Parse(address)
	if err != nil || !found || bad != nil {
		d.t.Fatalf("it said %q in place of where it listens: %v\n%s", line, err, d.log)
	}
	d.url, d.port = address, at.Port()
}

// kill is kill -9.
func (d *daemon) kill() {
	d.t.Helper()
	_ = d.cmd.Process.Kill()
	if err := d.cmd.Wait(); err == nil {
		d.t.Error("the daemon ended well, although it was killed")
	}
	d.cmd = nil
}

// terminate is SIGTERM: the daemon must end well, and within its grace.
func (d *daemon) terminate() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		d.t.Error(err)
	}
	slow := time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() })
	defer slow.Stop()
	if err := d.cmd.Wait(); err != nil {
		d.t.Errorf("told to stop, the daemon ended with %v", err)
	}
	d.cmd = nil
}

// checkLog looks for what no client should be able to cause.
func (d *daemon) checkLog() {
	for line := range strings.Lines(d.log.String()) {
		excused := slices.ContainsFunc(d.excused, func(text string) bool { return strings.Contains(line, text) })
		for _, bad := range []string{"level=ERROR", "panic", "DATA RACE", token} {
			if strings.Contains(line, bad) && !excused {
				d.t.Errorf("the daemon's log says %s", line)
			}
		}
	}
}

// do sends a request with the token and returns the body of a good answer.
func (d *daemon) do(method, path, kind, body string) []byte {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		d.t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, got, err)
	}
	return got
}

// push sends one event per text, each of which is decided at once, and returns
// the ids of the decisions when they are made.
func (d *daemon) push(scope string, texts ...string) []string {
	d.t.Helper()
	var at struct{ Cursor string }
	d.read(d.do(http.MethodGet, "/v1/decisions?after=now", "", ""), &at)
	var body strings.Builder
	for _, text := range texts {
		line, err := json.Marshal(map[string]string{"scope": scope, "name": "message.created", "id": scope + "/" + text, "text": text})
		if err != nil {
			d.t.Fatal(err)
		}
		fmt.Fprintf(&body, "%s\n", line)
	}
	var taken struct{ Accepted int }
	d.read(d.do(http.MethodPost, "/v1/ingest", "application/x-ndjson", body.String()), &taken)
	if taken.Accepted != len(texts) {
		d.t.Fatalf("%d events were accepted, want %d", taken.Accepted, len(texts))
	}
	var page struct{ Decisions []struct{ ID string } }
	query := url.Values{"scope": {scope}, "after": {at.Cursor}}
	eventually(d.t, "all is decided", func() bool {
		page.Decisions = nil
		d.read(d.do(http.MethodGet, "/v1/decisions?"+query.Encode(), "", ""), &page)
		return len(page.Decisions) == len(texts)
	})
	var ids []string
	for _, decision := range page.Decisions {
		ids = append(ids, decision.ID)
	}
	return ids
}

func (d *daemon) read(body []byte, into any) {
	d.t.Helper()
	if err := json.Unmarshal(body, into); err != nil {
		d.t.Fatalf("%v: %s", err, body)
	}
}

// metric reads a metric that has no labels.
func (d *daemon) metric(name string) float64 {
	d.t.Helper()
	_, rest, found := strings.Cut(string(d.do(http.MethodGet, "/metrics", "", "")), "\n"+name+" ")
	var value float64
	if _, err := fmt.Sscan(rest, &value); !found || err != nil {
		d.t.Fatalf("no metric %s", name)
	}
	return value
}

// becomes waits until a metric has a value.
func (d *daemon) becomes(name string, value float64) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%s is %v", name, value), func() bool { return d.metric(name) == value })
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatalf("it never came to be that %s", what)
		}
		time.Sleep(2 * time.Millisecond) //arch:sleep the poll of a condition
	}
}

// output keeps what a process writes while others read it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
