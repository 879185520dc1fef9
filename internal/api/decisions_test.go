package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
)

func TestDecisions_OldestFirstFromTheOldestKept(t *testing.T) {
	w := newWorld(t)
	w.whole("chat:1", "w1", engine.Interrupt)
	w.whole("chat:2", "w2", engine.Skip)
	w.letter("chat:3", "w3", nil, 1)
	w.whole("chat:1", "w4", engine.Queue)

	got := w.page("")
	if got.ids() != "w1 w2 w4" {
		t.Errorf("decisions %q, want every route, no dead letter, in log order", got.ids())
	}
	if got.Truncated {
		t.Error("truncated, though nothing is missing")
	}
	if again := w.page("?after=" + got.Cursor); again.ids() != "" || again.Cursor != got.Cursor {
		t.Errorf("after the last one: %q, cursor %q; want nothing and %q", again.ids(), again.Cursor, got.Cursor)
	}
}

func TestDecisions_Filters(t *testing.T) {
	w := newWorld(t)
	w.whole("chat:1", "w1", engine.Interrupt)
	w.whole("repo:1", "w2", engine.Queue)
	w.whole("chat:2", "w3", engine.Note)
	letter := w.letter("chat:3", "w4", nil, 1)
	for _, c := range []struct{ query, want string }{
		{"?scope=chat:*", "w1 w3"},
		{"?scope=chat:1&scope=repo:*", "w1 w2"},
		{"?route=note", "w3"},
		{"?route=queue,interrupt", "w1 w2"},
		{"?route=queue&route=interrupt", "w1 w2"},
		{"?kinds=deadLetter", letter},
		{"?kinds=decision,deadLetter", "w1 w2 w3 " + letter},
		{"?kinds=deadLetter&scope=repo:*", ""},
		{"?after=now", ""},
	} {
		if got := w.page(c.query).ids(); got != c.want {
			t.Errorf("%s: %q, want %q", c.query, got, c.want)
		}
	}
}

func TestDecisions_PagesByCursorLoseNothing(t *testing.T) {
	w := newWorld(t)
	var want []string
	for i := range 7 {
		id := fmt.Sprintf("w%d", i)
		w.whole("chat:1", id, engine.Queue)
		want = append(want, id)
	}
	var got []string
	query := "?limit=3"
	for range 4 {
		p := w.page(query)
		got = append(got, strings.Fields(p.ids())...)
		query = "?limit=3&after=" + p.Cursor
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("decisions of all pages (-want +got):\n%s", diff)
	}
}

func TestDecisions_DataStandsBesideItsEventAsItWasSent(t *testing.T) {
	w := newWorld(t)
	const data = `{"n":12345678901234567890123,"tag":"<a>&","n":2}`
	p1 := w.event("chat:1", "e1", "one", data)
	p2 := w.event("chat:1", "e2", "two", "")
	w.settle("chat:1", "w1", "", p1, p2)
	w.decide("chat:1", "w1", engine.Queue, "e1", "e2")

	a := w.get("/v1/decisions")
	if !strings.Contains(a.body, data) {
		t.Errorf("the data is not in the answer byte for byte: %s", a.body)
	}
	events := w.page("").Decisions[0].Events
	if string(events[0].Data) != data || events[1].Data != nil {
		t.Errorf("data %s and %s, want it with the first event alone", events[0].Data, events[1].Data)
	}
	// What is in the log is shared by all readers.
	steps, err := w.store.Steps(t.Context(), store.StepQuery{ID: "w1"})
	if err != nil || steps[0].Step.Decision.Events[0].Data != nil {
		t.Errorf("the step in the log was changed (%v)", err)
	}
}

func TestDecisions_APageOfDataIsBounded(t *testing.T) {
	w := newWorld(t)
	big := `"` + strings.Repeat("x", 3<<20) + `"`
	for i := range 5 {
		id := fmt.Sprintf("w%d", i)
		w.settle("chat:1", id, "", w.event("chat:1", "e-"+id, "", big))
		w.decide("chat:1", id, engine.Queue, "e-"+id)
	}
	first := w.page("")
	second := w.page("?after=" + first.Cursor)
	third := w.page("?after=" + second.Cursor)
	if first.ids() != "w0 w1" || second.ids() != "w2 w3" || third.ids() != "w4" {
		t.Errorf("pages %q, %q, %q; want two of 3 MiB in each page of 8 MiB", first.ids(), second.ids(), third.ids())
	}
}

func TestDecisions_RefusesWhatItDoesNotUnderstand(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ query, code, says string }{
		{"?rout=queue", "invalidParameter", `unknown parameter "rout": this route takes scope, route`},
		{"?route=later", "invalidParameter", `unknown route "later"`},
		{"?route=wait", "invalidParameter", "a held window has no decision yet"},
		{"?kinds=event", "invalidParameter", `unknown kind "event"`},
		{"?limit=0", "invalidParameter", "from 1 to 1000"},
		{"?limit=1001", "invalidParameter", "from 1 to 1000"},
		{"?limit=ten", "invalidParameter", `limit is "ten"`},
		{"?limit=1&limit=2", "invalidParameter", "may stand once"},
		{"?waitMs=30001", "invalidParameter", "from 0 to 30000"},
		{"?after=abc", "invalidCursor", "after: cursor: malformed"},
		{"?scope=%zz", "invalidParameter", "query string"},
		{"?scope=" + strings.Repeat("x", 513), "invalidParameter", "513 bytes"},
		{"?" + strings.Repeat("scope=x&", 101), "invalidParameter", "scope stands 101 times"},
	} {
		if detail := w.get("/v1/decisions"+c.query).problem(http.StatusBadRequest, c.code); !strings.Contains(detail, c.says) {
			t.Errorf("%.40s: %q, want it to say %q", c.query, detail, c.says)
		}
	}
}

func TestDecisions_StaleCursorIsTruncatedAndStartsAtTheHead(t *testing.T) {
	w := newWorld(t)
	w.whole("chat:1", "w1", engine.Queue)
	for name, stale := range map[string]func(store.Head) feed.Cursor{
		"another epoch":     func(store.Head) feed.Cursor { return feed.Cursor{Epoch: "other", Position: 1} },
		"ahead of the head": func(h store.Head) feed.Cursor { return feed.Cursor{Epoch: h.Epoch, Position: h.Position + 1} },
	} {
		head, err := w.store.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		p := w.page("?waitMs=30000&after=" + stale(head).Encode()) // it does not wait either
		if !p.Truncated || p.ids() != "" {
			t.Errorf("%s: truncated %v with %q", name, p.Truncated, p.ids())
		}
		w.whole("chat:1", "after "+name, engine.Queue)
		if next := w.page("?after=" + p.Cursor); next.ids() != "after "+name || next.Truncated {
			t.Errorf("%s: the fresh cursor leads to %q (truncated %v)", name, next.ids(), next.Truncated)
		}
	}
}

func TestDecisions_WaitEndsWithWhatComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.whole("chat:1", "old", engine.Queue)
		began := time.Now()
		done := make(chan page)
		go func() { done <- w.page("?after=now&waitMs=30000&scope=chat:*") }()
		synctest.Wait()
		time.Sleep(time.Second) //arch:sleep the bubble's clock
		w.whole("repo:1", "other", engine.Queue)
		time.Sleep(time.Second) //arch:sleep the bubble's clock
		w.whole("chat:1", "new", engine.Queue)
		if got := (<-done).ids(); got != "new" {
			t.Errorf("got %q, want what matched", got)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("it took %v of 2 s", took)
		}
	})
}

func TestDecisions_WaitEndsEmpty(t *testing.T) {
	for name, c := range map[string]struct {
		stop bool
		took time.Duration
	}{
		"when the time is up":   {false, 5 * time.Second},
		"when the daemon stops": {true, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.whole("chat:1", "old", engine.Queue)
				began := time.Now()
				if c.stop {
					time.AfterFunc(time.Second, func() { close(w.stopping) })
				}
				p := w.page("?waitMs=5000&scope=repo:*")
				if p.ids() != "" || p.Truncated {
					t.Errorf("got %q, truncated %v", p.ids(), p.Truncated)
				}
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				w.whole("repo:1", "later", engine.Queue)
				if next := w.page("?after=" + p.Cursor); next.ids() != "later" {
					t.Errorf("its cursor leads to %q, want what came later", next.ids())
				}
			})
		})
	}
}

func TestDecisions_WaitsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { w.page("?waitMs=10000") })
		}
		synctest.Wait()
		a := w.get("/v1/decisions?waitMs=10000")
		if a.problem(http.StatusTooManyRequests, "tooManyWaits"); a.header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		w.page("") // who does not wait is answered
		all.Wait()
		w.page("?waitMs=1")
	})
}

// deadlines notes the read deadlines that a handler sets.
type deadlines struct {
	*httptest.ResponseRecorder
	began time.Time
	read  []string
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.read = append(d.read, fmt.Sprintf("%v after %v", time.Until(at), time.Since(d.began)))
	return nil
}

// A read deadline that passes while a request waits ends its context: the
// server reads on, to see whether the caller is still there.
func TestDecisions_AWaitHasNoReadDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := &deadlines{ResponseRecorder: httptest.NewRecorder(), began: time.Now()}
		w.handler.ServeHTTP(d, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/decisions?waitMs=30000", nil))
		if diff := cmp.Diff([]string{"15s after 30s"}, d.read); diff != "" {
			t.Errorf("read deadlines (-want +got):\n%s", diff)
		}
	})
}

func TestDecisions_AStoreThatDoesNotAnswerIsTriedAgain(t *testing.T) {
	w := newWorld(t)
	_ = w.store.Close()
	a := w.get("/v1/decisions")
	a.problem(http.StatusServiceUnavailable, "unavailable")
	if a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
}

func TestStory_TellsAllOfAWindow(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("long ", 2000)
	p1 := w.event("chat:1", "e1", long, `{"a":1}`)
	p2 := w.event("chat:1", "e2", "two", "")
	w.settle("chat:1", "w1", "", p1, p2)
	w.step("chat:1", engine.Step{Kind: engine.StepCall, Window: "w1", Call: &engine.Call{Attempt: 1, Judge: "llm", TimeoutMs: 5}})
	w.step("chat:1", engine.Step{Kind: engine.StepFailed, Window: "w1", Failed: &engine.Failed{Attempt: 1, Why: "timeout"}})
	w.decide("chat:1", "w1", engine.Interrupt, "e1") // D was cut to one event

	var got struct {
		ID, Kind, State, Route string
		Cut                    int
		Windows                []string
		Events                 []struct {
			ID, Text string
			Data     json.RawMessage
		}
		Steps []struct {
			Kind    string
			Window  string
			At      int64
			Call    *engine.Call
			Failed  *engine.Failed
			Verdict *struct {
				Route         string
				Probabilities map[string]float64
			}
		}
	}
	w.get("/v1/decisions/w1").want(http.StatusOK, &got)
	if got.ID != "w1" || got.Kind != "decision" || got.State != "decided" || got.Route != "interrupt" {
		t.Errorf("head %+v", got)
	}
	if len(got.Events) != 2 || got.Cut != 0 || got.Events[0].Text != long || string(got.Events[0].Data) != `{"a":1}` {
		t.Errorf("%d events, cut %d: want both, whole", len(got.Events), got.Cut)
	}
	var kinds []string
	for _, s := range got.Steps {
		kinds = append(kinds, s.Kind)
		if s.Window != "w1" || s.At == 0 {
			t.Errorf("step %+v", s)
		}
	}
	if diff := cmp.Diff([]string{"settled", "call", "failed", "decision"}, kinds); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if v := got.Steps[3].Verdict; v.Route != "interrupt" || v.Probabilities["interrupt"] != 1 || len(v.Probabilities) != 6 {
		t.Errorf("the verdict: %+v", v)
	}
	if got.Steps[1].Call.Judge != "llm" || got.Steps[2].Failed.Why != "timeout" {
		t.Errorf("the call and its failure: %+v, %+v", got.Steps[1].Call, got.Steps[2].Failed)
	}
}

func TestStory_AHeldIDLeadsToTheDecisionThatTookItIn(t *testing.T) {
	w := newWorld(t)
	p1 := w.event("chat:1", "e1", "one", "")
	w.settle("chat:1", "w1", "", p1)
	w.step("chat:1", engine.Step{Kind: engine.StepWait, Window: "w1", Verdict: &engine.Verdict{Window: "w1", Route: engine.Wait}})

	var held struct {
		ID, Kind, State string
		Windows         []string
	}
	w.get("/v1/decisions/w1").want(http.StatusOK, &held)
	if held.ID != "w1" || held.Kind != "window" || held.State != "held" {
		t.Errorf("while it is held: %+v", held)
	}

	w.whole("chat:1", "between", engine.Queue) // a requeued window may come first
	p2 := w.event("chat:1", "e2", "two", "")
	w.settle("chat:1", "w2", "w1", p1, p2)
	w.step("chat:1", engine.Step{Kind: engine.StepWait, Window: "w2", Verdict: &engine.Verdict{Window: "w2", Route: engine.Wait}})
	p3 := w.event("chat:1", "e3", "three", "")
	w.settle("chat:1", "w3", "w2", p1, p2, p3)
	w.decide("chat:1", "w3", engine.Interrupt, "e1", "e2", "e3")

	whole := w.get("/v1/decisions/w3").body
	for _, id := range []string{"w1", "w2"} {
		if got := w.get("/v1/decisions/" + id).body; got != whole {
			t.Errorf("%s does not lead to w3:\n%s\n%s", id, got, whole)
		}
	}
	var got struct {
		ID, State string
		Windows   []string
		Events    []struct{ ID string }
		Steps     []struct{ Window string }
	}
	w.get("/v1/decisions/w1").want(http.StatusOK, &got)
	if diff := cmp.Diff([]string{"w1", "w2", "w3"}, got.Windows); diff != "" || got.ID != "w3" || len(got.Events) != 3 || len(got.Steps) != 6 {
		t.Errorf("id %s, %d events, %d steps, windows (-want +got):\n%s", got.ID, len(got.Events), len(got.Steps), diff)
	}
}

func TestStory_AHeldWindowMayBeJudgedAgainUnderItsOwnID(t *testing.T) {
	w := newWorld(t)
	p1 := w.event("chat:1", "e1", "one", "")
	w.settle("chat:1", "w1", "", p1)
	w.step("chat:1", engine.Step{Kind: engine.StepWait, Window: "w1", Verdict: &engine.Verdict{Window: "w1", Route: engine.Wait}})
	w.settle("chat:1", "w1", "w1", p1) // its horizon came, and nothing had been added
	w.decide("chat:1", "w1", engine.Queue, "e1")
	var got struct {
		ID, State string
		Windows   []string
		Steps     []struct{ Kind string }
	}
	w.get("/v1/decisions/w1").want(http.StatusOK, &got)
	if got.ID != "w1" || got.State != "decided" || len(got.Windows) != 1 || len(got.Steps) != 4 {
		t.Errorf("story %+v", got)
	}
}

func TestStory_WithoutADecision(t *testing.T) {
	w := newWorld(t)
	w.settle("chat:1", "judged", "", w.event("chat:1", "e1", "one", `{"a":1}`))
	settled := w.settle("chat:2", "dead", "", w.event("chat:2", "e2", "two", ""))
	w.letter("chat:2", "dead", settled, 1)
	for id, state := range map[string]string{"judged": "judging", "dead": "deadLetter"} {
		var got struct {
			ID, Kind, State, Route string
			Events                 []struct{ ID, Text string }
		}
		a := w.get("/v1/decisions/" + id)
		a.want(http.StatusOK, &got)
		if got.ID != id || got.Kind != "window" || got.State != state || got.Route != "" || len(got.Events) != 1 || got.Events[0].Text == "" {
			t.Errorf("%s: %s", id, a.body)
		}
	}
	detail := w.get("/v1/decisions/nothing").problem(http.StatusNotFound, "notFound")
	if !strings.Contains(detail, `decision "nothing"`) {
		t.Errorf("detail %q", detail)
	}
	w.get("/v1/decisions/w1?x=1").problem(http.StatusBadRequest, "invalidParameter")
}

func TestAnswers_AreOneLineOfJSONThatNobodyKeeps(t *testing.T) {
	w := newWorld(t)
	w.whole("chat:1", "w1", engine.Queue)
	a := w.get("/v1/decisions")
	if bytes.Count([]byte(a.body), []byte("\n")) != 1 || !strings.HasSuffix(a.body, "\n") {
		t.Errorf("body %q", a.body)
	}
	if a.header.Get("Cache-Control") != "no-store" || a.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("header %v", a.header)
	}
}
