package app_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"attend/internal/app"
	"attend/internal/config"
)

const kinds = `{"message.*":"flush","build.*":"closing","log.*":"consequence"}`

// patience is how long a test waits for what must come; nothing waits for it
// to pass.
const patience = 30 * time.Second

// running is a daemon in this process, and a client of it.
type running struct {
	t      *testing.T
	url    string
	token  string
	client *http.Client
	log    *record
	app    *app.App
	stop   func() error // ends the daemon, once, and returns what Run returned
}

// configure reads a configuration as the command does.
func configure(t *testing.T, env []string, args ...string) *config.Config {
	t.Helper()
	cfg, err := loads(t, env, args...)()
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// loads reads a configuration as often as it is called.
func loads(t *testing.T, env []string, args ...string) func() (*config.Config, error) {
	t.Helper()
	flags := pflag.NewFlagSet("attend", pflag.ContinueOnError)
	config.Flags(flags)
	all := append([]string{"--store", "memory", "--kinds", kinds}, args...)
	if !slices.Contains(args, "--socket") {
		all = append([]string{"--port", "0"}, all...)
	}
	if err := flags.Parse(all); err != nil {
		t.Fatal(err)
	}
	return func() (*config.Config, error) { return config.Load(flags, env) }
}

// run starts a daemon; it is stopped at the end of the test at the latest.
func run(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	load := loads(t, env, args...)
	cfg, err := load()
	if err != nil {
		t.Fatal(err)
	}
	transport := new(http.Transport)
	if cfg.Socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", cfg.Socket)
		}
	}
	d := &running{
		t: t, token: cfg.Token.Reveal(), log: new(record),
		client: &http.Client{Transport: transport, Timeout: patience},
	}
	listening := make(chan net.Addr, 1)
	a, err := app.New(t.Context(), cfg, app.Options{
		Logger:    slog.New(slog.NewTextHandler(d.log, nil)),
		Registry:  prometheus.NewPedanticRegistry(),
		Listening: func(at net.Addr) { listening <- at },
		Load:      load,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.app = a
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var result error
	stopped := false
	d.stop = func() error {
		if !stopped {
			stopped = true
			cancel()
			result = <-ended
			d.client.CloseIdleConnections()
		}
		return result
	}
	t.Cleanup(func() {
		if err := d.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	select {
	case at := <-listening:
		d.url = "http://" + at.String()
		if cfg.Socket != "" {
			d.url = "http://localhost"
		}
		if a.Addr() != at {
			t.Errorf("Addr is %v, it listens on %v", a.Addr(), at)
		}
	case err := <-ended:
		ended <- err
		t.Fatalf("it does not start: %v", err)
	}
	return d
}

// sqliteIn names a store in a folder.
func sqliteIn(dir string) string { return "sqlite:" + filepath.Join(dir, "attend.db") }

// inEachStore runs a test once for each kind of store.
func inEachStore(t *testing.T, test func(t *testing.T, store string)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { test(t, "memory") })
	t.Run("sqlite", func(t *testing.T) { test(t, sqliteIn(t.TempDir())) })
}

// response is a whole answer.
type response struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

// ask sends a request with the daemon's token; change may alter it.
func (d *running) ask(method, path, body string, change ...func(*http.Request)) response {
	d.t.Helper()
	r, err := d.send(method, path, body, change...)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

func (d *running) send(method, path, body string, change ...func(*http.Request)) (response, error) {
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		return response{}, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if path == "/v1/ingest" {
		req.Header.Set("Content-Type", "application/x-ndjson")
	}
	if d.token != "" {
		req.Header.Set("Authorization", "Bearer "+d.token)
	}
	for _, c := range change {
		c(req)
	}
	resp, err := d.client.Do(req)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return response{d.t, resp.StatusCode, resp.Header, string(b)}, err
}

// want checks the status and decodes the body, unless into is nil.
func (r response) want(status int, into any) response {
	r.t.Helper()
	if r.status != status {
		r.t.Fatalf("status %d, want %d: %s", r.status, status, r.body)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(r.body), into); err != nil {
			r.t.Fatalf("%v in %s", err, r.body)
		}
	}
	return r
}

// problem checks an error answer.
func (r response) problem(status int, code string) response {
	r.t.Helper()
	var p struct{ Code string }
	if r.status != status || r.header.Get("Content-Type") != "application/problem+json" ||
		json.Unmarshal([]byte(r.body), &p) != nil || p.Code != code {
		r.t.Errorf("status %d, want the problem %d %s: %s", r.status, status, code, r.body)
	}
	return r
}

// ingest sends lines that must all be taken, and returns how many were
// duplicates.
func (d *running) ingest(lines ...string) (duplicates int) {
	d.t.Helper()
	var got struct{ Accepted, Duplicates, Rejected int }
	d.ask(http.MethodPost, "/v1/ingest", strings.Join(lines, "\n")+"\n").want(http.StatusOK, &got)
	if got.Accepted+got.Duplicates != len(lines) || got.Rejected != 0 {
		d.t.Fatalf("of %d lines: %+v", len(lines), got)
	}
	return got.Duplicates
}

// decision is D, as far as the tests look.
type decision struct {
	ID, Scope, Route, Reason, Notice string
	Events                           []struct {
		ID   string
		Data json.RawMessage
	}
}

// next waits for decisions after a cursor ("" is the oldest).
func (d *running) next(after string) (decisions []decision, cursor string) {
	d.t.Helper()
	var page struct {
		Decisions []decision
		Cursor    string
	}
	path := "/v1/decisions?waitMs=20000"
	if after != "" {
		path += "&after=" + after
	}
	d.ask(http.MethodGet, path, "").want(http.StatusOK, &page)
	if len(page.Decisions) == 0 {
		d.t.Fatalf("no decision came:\n%s", d.log)
	}
	return page.Decisions, page.Cursor
}
