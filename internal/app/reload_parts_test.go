package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/source"
)

// An event that was accepted before a reload keeps the deadline of its policy;
// the next one gets that of the new.
func TestReload_OpenEventsKeepTheirDeadlines(t *testing.T) {
	d, file := withFile(t, "policy: {closingGraceMs: 60000}\n")
	deadlines := func(scope string) (ms []int64) {
		var s struct {
			Open *struct {
				Since     int64
				Deadlines []struct {
					Reason string
					At     int64
				}
			}
		}
		d.ask(http.MethodGet, "/v1/scopes/"+scope, "").want(http.StatusOK, &s)
		for _, at := range s.Open.Deadlines {
			if at.Reason == "closing" {
				ms = append(ms, at.At-s.Open.Since)
			}
		}
		return ms
	}
	d.ingest(`{"scope":"before","id":"1","name":"build.failed"}`)
	reconfigure(t, file, adminToken+"policy: {closingGraceMs: 90000}\n")
	if got := d.reload(); got.Policy != 2 {
		t.Fatalf("policy %d", got.Policy)
	}
	d.ingest(`{"scope":"after","id":"1","name":"build.failed"}`)
	if got := deadlines("before"); !slices.Equal(got, []int64{60000}) {
		t.Errorf("what was open is due after %v ms", got)
	}
	if got := deadlines("after"); !slices.Equal(got, []int64{90000}) {
		t.Errorf("what came is due after %v ms", got)
	}
}

// asked is a judge over HTTP that answers with its name as the route; asking
// tells of each call, and none is answered before release is closed.
type asked struct {
	*httptest.Server
	asking  chan string
	release chan struct{}
}

func newAsked(t *testing.T, route engine.Route) *asked {
	t.Helper()
	a := &asked{asking: make(chan string, 100), release: make(chan struct{})}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Scope string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		a.asking <- in.Scope
		<-a.release
		_ = json.NewEncoder(w).Encode(map[string]any{"route": route})
	}))
	t.Cleanup(a.Close)
	return a
}

// comesTo waits for the first decision of a scope.
func (d *running) comesTo(scope string) decision {
	d.t.Helper()
	for cursor := ""; ; {
		var page []decision
		page, cursor = d.next(cursor)
		for i := range page {
			if page[i].Scope == scope {
				return page[i]
			}
		}
	}
}

// A judge that is changed takes the next window; what was asked before is
// answered by who was asked.
func TestReload_AChangedJudgeTakesTheNextWindow(t *testing.T) {
	first, second := newAsked(t, engine.Note), newAsked(t, engine.Queue)
	judge := func(a *asked) string { return fmt.Sprintf("judge: {type: http, url: %q}\n", a.URL) }
	const more = "floor: {}\n"
	d, file := withFile(t, more+judge(first))
	d.ingest(`{"scope":"one","id":"1","name":"message.created"}`)
	if got := <-first.asking; got != "one" {
		t.Fatalf("it is asked about %q", got)
	}
	reconfigure(t, file, adminToken+more+judge(second))
	if got := d.reload(); !slices.Equal(got.Changed, []string{"judges"}) || got.Policy != 1 {
		t.Errorf("changed: %+v", got)
	}
	d.ingest(`{"scope":"two","id":"1","name":"message.created"}`)
	if got := <-second.asking; got != "two" {
		t.Errorf("the new judge is asked about %q", got)
	}
	close(second.release)
	if got := d.comesTo("two"); got.Route != "queue" {
		t.Errorf("the next window: %+v", got)
	}
	close(first.release)
	if got := d.comesTo("one"); got.Route != "note" {
		t.Errorf("the window before: %+v", got)
	}
	if len(first.asking)+len(second.asking) != 0 {
		t.Error("somebody was asked twice")
	}
}

// What a judge has spent today is not forgotten by reloads that leave it as it is;
// one that raises its budget is felt at once.
func TestReload_AnUnchangedJudgeKeepsItsBudget(t *testing.T) {
	one := newAsked(t, engine.Note)
	close(one.release)
	config := func(guidance string, calls int) string {
		return fmt.Sprintf("floor: {}\nguidance: %s\njudge: {type: http, url: %q, dailyCalls: %d}\n", guidance, one.URL, calls)
	}
	d, file := withFile(t, config("first", 1))
	d.ingest(`{"scope":"one","id":"1","name":"message.created"}`)
	d.comesTo("one")
	for i := range 3 {
		reconfigure(t, file, adminToken+config(fmt.Sprint("other", i), 1))
		d.reload()
	}
	d.ingest(`{"scope":"two","id":"1","name":"message.created"}`)
	until(t, "the call is held", func() bool {
		return d.metric(`attend_judge_held_total{judge="http",why="dailyCalls"}`) > 0
	})
	if n := len(one.asking); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	reconfigure(t, file, adminToken+config("other2", 5))
	began := time.Now()
	d.reload()
	if d.comesTo("two"); time.Since(began) > patience/2 {
		t.Error("the window waits although the judge may be asked")
	}
}

// A source that is unchanged keeps its stream over reloads; one that is changed
// or gone ends, and one that comes starts.
func TestReload_Sources(t *testing.T) {
	a := run(t, []string{"ATTEND_TOKEN=" + tokenOfA})
	file := writeConfig(t, adminToken+"sources:\n"+follows(a, ""))
	b := run(t, []string{"A_TOKEN=" + tokenOfA}, "--config", file)
	b.token = everyRight
	streams := func(s *source.Status) bool { return s.State == source.Streaming && s.Cursor }
	before := b.comes("it follows", streams)
	for range 100 {
		b.reload()
	}
	a.ingest(`{"scope":"x","name":"message.a","id":"1"}`)
	after := b.comes("an event comes", func(s *source.Status) bool { return s.Counts.Accepted == 1 })
	if after.Since != before.Since || after.State != source.Streaming || after.Counts.Retries != 0 {
		t.Errorf("it has connected anew: %+v, then %+v", before, after)
	}

	reconfigure(t, file, adminToken+"sources:\n"+follows(a, ", maxBuffered: 7"))
	if got := b.reload(); !slices.Equal(got.Changed, []string{"sources"}) {
		t.Errorf("changed: %v", got.Changed)
	}
	b.comes("it follows again", streams)
	a.ingest(`{"scope":"x","name":"message.b","id":"2"}`)
	if s := b.comes("the next comes", func(s *source.Status) bool { return s.Counts.Accepted > 0 }); s.Counts.Accepted != 1 || s.Counts.Duplicates != 0 {
		t.Errorf("it does not go on from its cursor: %+v", s.Counts)
	}

	reconfigure(t, file, adminToken)
	b.reload()
	if all := b.sources(); len(all) != 0 {
		t.Errorf("it is gone, and shown: %+v", all)
	}
	until(t, "its stream is closed", func() bool { return a.metric("attend_event_streams") == 0 })
}

// metric reads a metric, with its labels; one that is not there is 0.
func (d *running) metric(name string) (value float64) {
	d.t.Helper()
	body := d.ask(http.MethodGet, "/metrics", "").body
	for line := range strings.Lines(body) {
		if n, _ := fmt.Sscanf(line, name+" %f", &value); n == 1 {
			return value
		}
	}
	return 0
}

// Reloads take turns, and each loads what is there when its turn comes.
func TestReload_TakeTurns(t *testing.T) {
	d, file := withFile(t, "")
	done := make(chan response, 20)
	for i := range cap(done) {
		if i == cap(done)/2 {
			reconfigure(t, file, adminToken+"guidance: another\n")
		}
		go func() {
			r, err := d.send(http.MethodPost, "/v1/reload", "")
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
	}
	changed := 0
	for range cap(done) {
		var got reloaded
		(<-done).want(http.StatusOK, &got)
		changed += len(got.Changed)
	}
	if got := d.reload(); changed+len(got.Changed) != 1 || got.Policy != 2 {
		t.Errorf("%d changes were seen; then %+v", changed, got)
	}
}
