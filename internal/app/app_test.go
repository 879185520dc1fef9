package app_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"attend/internal/app"
)

func TestDaemon_FromEventToDecision(t *testing.T) {
	inEachStore(t, func(t *testing.T, store string) {
		d := run(t, nil, "--store", store)
		d.ingest(
			`{"scope":"repo:a/b","id":"1","name":"log.line","text":"exit status 1"}`,
			`{"scope":"repo:a/b","id":"2","name":"message.created","text":"help","data":{"from":"ada"}}`,
		)
		got, cursor := d.next("")
		if len(got) != 1 || got[0].Route != "interrupt" || got[0].Reason != "flush" || got[0].Notice != "exit status 1\nhelp" {
			t.Fatalf("decisions %+v", got)
		}
		if string(got[0].Events[1].Data) != `{"from":"ada"}` {
			t.Errorf("data %s", got[0].Events[1].Data)
		}
		var story struct{ State string }
		d.ask(http.MethodGet, "/v1/decisions/"+got[0].ID, "").want(http.StatusOK, &story)
		if story.State != "decided" {
			t.Errorf("state %q", story.State)
		}
		if n := d.ingest(`{"scope":"repo:a/b","id":"2","name":"message.created","text":"help"}`); n != 1 {
			t.Errorf("a copy counted as %d duplicates", n)
		}

		// A flush call does not wait for the deadline of what is open.
		d.ingest(`{"scope":"repo:a/b","id":"3","name":"build.failed","text":"red"}`)
		var marked struct{ Marked []string }
		d.ask(http.MethodPost, "/v1/scopes/repo:a%2Fb/flush", "").want(http.StatusAccepted, &marked)
		if len(marked.Marked) != 1 || marked.Marked[0] != "open" {
			t.Errorf("marked %q, want what is open", marked.Marked)
		}
		got, _ = d.next(cursor)
		if len(got) != 1 || got[0].Route != "queue" || got[0].Reason != "forced" {
			t.Errorf("decisions %+v", got)
		}
		var scopes struct{ Scopes []struct{ Scope string } }
		d.ask(http.MethodGet, "/v1/scopes", "").want(http.StatusOK, &scopes)
		if len(scopes.Scopes) != 1 || scopes.Scopes[0].Scope != "repo:a/b" {
			t.Errorf("scopes %+v", scopes)
		}
	})
}

func TestDaemon_AnswersMCP(t *testing.T) {
	d := run(t, nil)
	call := func(tool, arguments string) string {
		t.Helper()
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
		return d.ask(http.MethodPost, "/mcp", body, func(r *http.Request) {
			r.Header.Set("Accept", "application/json, text/event-stream")
			r.Header.Set("Mcp-Protocol-Version", "2025-11-25")
		}).want(http.StatusOK, nil).body
	}
	if got := call("attend_push", `{"events":[{"scope":"chat:2","id":"2","name":"build.done","text":"pushed"}]}`); !strings.Contains(got, `"accepted":1`) {
		t.Fatalf("push: %s", got)
	}
	if got := call("attend_flush", `{"scope":"chat:2"}`); !strings.Contains(got, `"marked":["open"]`) {
		t.Fatalf("flush: %s", got)
	}
	if got, _ := d.next(""); got[0].Notice != "pushed" {
		t.Errorf("decisions %+v", got)
	}
}

func TestDaemon_KeepsEverythingOverARestart(t *testing.T) {
	dir := t.TempDir()
	first := run(t, nil, "--store", sqliteIn(dir))
	line := `{"scope":"chat:1","id":"1","name":"message.created","text":"help"}`
	first.ingest(line)
	first.ingest(`{"scope":"chat:1","id":"open","name":"log.line"}`)
	before, cursor := first.next("")
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}

	second := run(t, nil, "--store", sqliteIn(dir))
	after, _ := second.next("")
	if before[0].ID != after[0].ID || len(after) != 1 {
		t.Errorf("decision %s before, %+v after", before[0].ID, after)
	}
	if n := second.ingest(line); n != 1 {
		t.Error("the id of an event was forgotten")
	}
	second.ingest(`{"scope":"chat:1","id":"2","name":"message.created"}`)
	got, _ := second.next(cursor)
	if len(got) != 1 || len(got[0].Events) != 2 || got[0].Events[0].ID != "open" {
		t.Errorf("what was open did not go into the next window: %+v", got)
	}
}

func TestDaemon_RecordsThePolicyWhenItDiffers(t *testing.T) {
	dir := t.TempDir()
	number := func(kinds string) int {
		t.Helper()
		d := run(t, nil, "--store", sqliteIn(dir), "--kinds", kinds)
		var s struct{ Policy int }
		d.ask(http.MethodGet, "/v1/scopes/any", "").want(http.StatusOK, &s)
		if err := d.stop(); err != nil {
			t.Fatal(err)
		}
		return s.Policy
	}
	got := []int{number(`{"a":"flush"}`), number(`{"a":"flush"}`), number(`{"a":"closing"}`), number(`{"a":"flush"}`)}
	if fmt.Sprint(got) != "[1 1 2 3]" {
		t.Errorf("policies %v, want a new number for each change alone", got)
	}
}

func TestDaemon_WarnsThatNothingCanWakeAnyone(t *testing.T) {
	d := run(t, nil, "--kinds", "")
	if log := d.log.String(); !strings.Contains(log, "noKinds") {
		t.Errorf("no warning:\n%s", log)
	}
	// It starts all the same.
	d.ask(http.MethodGet, "/readyz", "").want(http.StatusOK, nil)
}

func TestDaemon_StopAnswersThoseWhoWait(t *testing.T) {
	inEachStore(t, func(t *testing.T, store string) {
		d := run(t, nil, "--store", store)
		answered := make(chan response, 1)
		go func() {
			r, err := d.send(http.MethodGet, "/v1/decisions?after=now&waitMs=30000", "")
			if err != nil {
				r.body = err.Error()
			}
			answered <- r
		}()
		d.untilWaiting(1)
		if err := d.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
		if r := <-answered; r.status != http.StatusOK || !strings.Contains(r.body, `"decisions":[]`) {
			t.Errorf("status %d: %s", r.status, r.body)
		}
		if _, err := d.send(http.MethodGet, "/healthz", ""); err == nil {
			t.Error("it still answers")
		}
	})
}

// untilWaiting returns when so many requests wait in the daemon, as the number
// of its goroutines in a wait of the feed tells.
func (d *running) untilWaiting(n int) {
	d.t.Helper()
	until(d.t, "requests that wait", func() bool {
		return strings.Count(stacks(), "feed.(*Reader).Wait") >= n
	})
}

func TestDaemon_StopCutsOffWhatDoesNotEnd(t *testing.T) {
	d := run(t, []string{"ATTEND_SHUTDOWN_GRACE_MS=1500"})
	body, feeder := io.Pipe()
	defer feeder.Close()
	ended := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+"/v1/ingest", body)
		if err != nil {
			ended <- err
			return
		}
		req.ContentLength = 1 << 20 // a body with a length is read to its end
		req.Header.Set("Content-Type", "application/x-ndjson")
		resp, err := d.client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		ended <- err
	}()
	if _, err := io.WriteString(feeder, `{"scope":"a","id":"1","name":"message.created"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	d.next("") // the body is being read
	if err := d.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	_ = feeder.CloseWithError(io.ErrUnexpectedEOF)
	<-ended
	if !strings.Contains(d.log.String(), "requests were cut off") {
		t.Errorf("log:\n%s", d.log)
	}
}

func TestDaemon_LeavesNothingBehindWhenItCannotBeBuilt(t *testing.T) {
	store := sqliteIn(t.TempDir())
	cfg := configure(t, nil, "--store", store)
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "attend_log_position", Help: "Something else."}))
	if _, err := app.New(t.Context(), cfg, app.Options{Registry: taken}); err == nil {
		t.Fatal("it was built over metrics that are not its own")
	}
	run(t, nil, "--store", store).ask(http.MethodGet, "/readyz", "").want(http.StatusOK, nil)
}

func TestDaemon_LeavesNothingBehindWhenItCannotStart(t *testing.T) {
	first := run(t, nil)
	store := sqliteIn(t.TempDir())
	port := first.url[strings.LastIndex(first.url, ":")+1:]
	second, err := app.New(t.Context(), configure(t, nil, "--store", store, "--port", port), app.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "listen") {
		t.Fatalf("start on a port that is taken: %v", err)
	}
	if err := second.Stop(t.Context()); err != nil {
		t.Errorf("stop after a start that failed: %v", err)
	}
	if err := second.Start(t.Context()); err == nil {
		t.Error("it was started twice")
	}
	run(t, nil, "--store", store) // the file is free again
	first.ask(http.MethodGet, "/readyz", "").want(http.StatusOK, nil)
}

func TestDaemon_RefusesASecondOnOneFile(t *testing.T) {
	store := sqliteIn(t.TempDir())
	run(t, nil, "--store", store)
	if _, err := app.New(t.Context(), configure(t, nil, "--store", store), app.Options{}); err == nil || !strings.Contains(err.Error(), "another attend") {
		t.Errorf("a second daemon: %v", err)
	}
}

func TestDaemon_StoreFileIsPrivate(t *testing.T) {
	dir := t.TempDir()
	run(t, nil, "--store", sqliteIn(dir))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatalf("%d files (%v)", len(entries), err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v (%v)", e.Name(), info.Mode(), err)
		}
	}
}

func TestOpenLog(t *testing.T) {
	dir := t.TempDir()
	cfg := configure(t, nil, "--store", sqliteIn(dir))
	if _, err := app.OpenLog(t.Context(), cfg.Store); err == nil {
		t.Error("a file that is not there was opened")
	}
	d := run(t, nil, "--store", sqliteIn(dir))
	d.ingest(`{"scope":"chat:1","id":"1","name":"message.created","text":"help"}`)
	d.next("")
	log, err := app.OpenLog(t.Context(), cfg.Store)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	records, err := log.Read(t.Context(), 0, 100)
	if err != nil || len(records) != 4 { // policy, event, settled, decision
		t.Errorf("%d records (%v)", len(records), err)
	}
	if _, err := app.OpenLog(t.Context(), configure(t, nil).Store); err == nil || !strings.Contains(err.Error(), "over HTTP") {
		t.Errorf("a memory store: %v", err)
	}
}

func TestMetrics_FollowTheRulesOfPrometheus(t *testing.T) {
	cfg := configure(t, nil)
	reg := prometheus.NewPedanticRegistry()
	a, err := app.New(t.Context(), cfg, app.Options{Registry: reg})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := a.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	names := make(map[string]bool)
	for _, f := range families {
		names[f.GetName()] = true
	}
	for _, name := range []string{
		"attend_build_info", "attend_log_position", "attend_open_windows", "attend_consumer_lag_records",
		"attend_ingest_events_total", "go_goroutines", "process_open_fds",
	} {
		if !names[name] {
			t.Errorf("no metric %s", name)
		}
	}
}
