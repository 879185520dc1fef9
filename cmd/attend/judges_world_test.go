package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// ownJudge is a judge over HTTP that the test decides for.
type ownJudge struct {
	url string

	mu    sync.Mutex
	now   int            // calls at once
	most  int            // the most there were
	asked map[string]int // by scope
	said  map[string]int // by scope, answers that were a route
	total int
}

// judgedBy starts a judge. answer says what to do with a request: hold it as long
// as it takes, and return a status (200 is a route) with headers set.
func judgedBy(t *testing.T, answer func(scope string, w http.ResponseWriter, r *http.Request) (status int)) *ownJudge {
	t.Helper()
	j := &ownJudge{asked: make(map[string]int), said: make(map[string]int)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Scope string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Errorf("the question is no JSON: %v", err)
		}
		j.mu.Lock()
		j.now++
		j.total++
		j.most = max(j.most, j.now)
		j.asked[in.Scope]++
		j.mu.Unlock()
		status := answer(in.Scope, w, r)
		j.mu.Lock()
		j.now--
		if status == http.StatusOK {
			j.said[in.Scope]++
		}
		j.mu.Unlock()
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"route":"queue"}`)) // a caller that has gone is the test's own
	}))
	t.Cleanup(server.Close)
	j.url = server.URL
	return j
}

// count returns how often the judge was asked in all.
func (j *ownJudge) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.total
}

// A daemon that is killed while a judge is asked counts the call as lost, asks
// again at once, and decides once.
func TestJudges_KilledDuringACall(t *testing.T) {
	hang := make(chan struct{})
	first := make(chan struct{}, 1)
	first <- struct{}{}
	j := judgedBy(t, func(_ string, _ http.ResponseWriter, r *http.Request) int {
		select {
		case <-first:
			select {
			case <-r.Context().Done():
			case <-hang:
			}
			return http.StatusServiceUnavailable
		default:
			return http.StatusOK
		}
	})
	defer close(hang)
	// A second attempt that waited for its rung would come too late.
	d := withJudges(t, "policy: {retryBackoffMs: [3600000], judgeTimeoutMs: 600000}\njudge: {type: http, url: \""+j.url+"\"}\n")
	d.send([2]string{"chat:1", "stop"})
	d.until("the judge is asked", func() bool { return j.count() == 1 })
	d.kill()
	d.start()
	got := d.finals(1)[0]
	if got.Kind != "decision" || got.Route.String() != "queue" || j.count() != 2 {
		t.Errorf("a %s %s after %d calls, want one decision after 2", got.Kind, got.Route, j.count())
	}
	if _, story := d.call(http.MethodGet, "/v1/decisions/"+got.ID, ""); !strings.Contains(story, `"why":"lost"`) || !strings.Contains(story, `"attempt":2`) {
		t.Errorf("the story tells of no lost call: %s", story)
	}
	d.kill()
	d.start()
	if again := d.finals(1); again[0].ID != got.ID || j.count() != 2 {
		t.Errorf("after another start: %d calls, decision %s", j.count(), again[0].ID)
	}
}

// While a judge hangs its scope takes so much and no more, and says so; when the
// judge answers, what was refused is taken.
func TestJudges_FullWindowWhileAJudgeHangs(t *testing.T) {
	hang := make(chan struct{})
	j := judgedBy(t, func(_ string, _ http.ResponseWriter, r *http.Request) int {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
		return http.StatusOK
	})
	d := withJudges(t, "policy: {maxEvents: 2, judgeTimeoutMs: 600000}\njudge: {type: http, url: \""+j.url+"\"}\n")
	d.send([2]string{"chat:1", "stop"})
	d.until("the judge is asked", func() bool { return j.count() == 1 })
	taken, refused := 0, ""
	for i := 0; refused == ""; i++ {
		status, body := d.call(http.MethodPost, "/v1/ingest", fmt.Sprintf(`{"scope":"chat:1","name":"done","id":"more-%d"}`, i))
		switch {
		case status == http.StatusOK:
			taken++
		case status == http.StatusTooManyRequests && strings.Contains(body, `"windowFull"`):
			refused = fmt.Sprintf("more-%d", i)
		default:
			t.Fatalf("status %d: %s", status, body)
		}
		if taken > 100 {
			t.Fatal("nothing is ever refused")
		}
	}
	if taken != 20 { // ten times maxEvents
		t.Errorf("%d were taken, want 20", taken)
	}
	d.send([2]string{"chat:2", "log"}) // others are not concerned
	close(hang)
	d.until("what was refused is taken", func() bool {
		status, _ := d.call(http.MethodPost, "/v1/ingest", `{"scope":"chat:1","name":"done","id":"`+refused+`"}`)
		return status == http.StatusOK
	})
	d.until("every event is decided", func() bool {
		_, body := d.call(http.MethodGet, "/v1/decisions?limit=1000", "")
		return strings.Count(body, `"id":"more-`) == taken+1
	})
}

// Many windows settle at once, on a judge that takes no more requests for a
// while: it is asked by few at a time, and each window is decided once.
func TestJudges_Storm(t *testing.T) {
	const scopes, places, refusals = 200, 4, 7
	var mu sync.Mutex
	refused := 0
	j := judgedBy(t, func(_ string, w http.ResponseWriter, _ *http.Request) int {
		mu.Lock()
		defer mu.Unlock()
		if refused < refusals {
			refused++
			w.Header().Set("Retry-After", "1")
			return http.StatusTooManyRequests
		}
		return http.StatusOK
	})
	d := withJudges(t, fmt.Sprintf("policy: {retryBackoffMs: [200, 400, 800, 1600, 3200, 6400], judgeTimeoutMs: 60000}\njudge: {type: http, url: %q, concurrency: %d}\n", j.url, places))
	events := make([][2]string, scopes)
	for i := range events {
		events[i] = [2]string{fmt.Sprintf("chat:%d", i), "stop"}
	}
	d.send(events...)
	seen := make(map[string]bool)
	for _, f := range d.finals(scopes) {
		if f.Kind != "decision" || seen[f.Scope] {
			t.Errorf("%s comes to its end as %s, again: %v", f.Scope, f.Kind, seen[f.Scope])
		}
		seen[f.Scope] = true
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.most > places {
		t.Errorf("%d calls at once, want at most %d", j.most, places)
	}
	for scope, n := range j.said { //arch:sorted each by itself
		if n != 1 {
			t.Errorf("%s was answered %d times", scope, n)
		}
	}
	if want := scopes + refusals; j.total != want {
		t.Errorf("the judge was asked %d times, want %d: one answer for each scope, and those it refused", j.total, want)
	}
	if got := len(seen); got != scopes {
		t.Errorf("%d scopes were decided", got)
	}
	_, metrics := d.call(http.MethodGet, "/metrics", "")
	if !strings.Contains(metrics, `attend_judge_breaker_open{judge="http"} 0`) || !strings.Contains(metrics, `attend_judge_held_total{judge="http",why="breaker"}`) {
		t.Error("the metrics do not tell of the breaker")
	}
}
