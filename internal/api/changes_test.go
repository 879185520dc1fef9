package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
)

type flushed struct {
	Scope  string
	Marked []string
}

func TestFlush_IsOneStepAndSaysWhatItMarked(t *testing.T) {
	w := newWorld(t)
	w.marks.marked = []string{"open", "held"}
	var got flushed
	w.do(http.MethodPost, "/v1/flush", `{"scope":"chat:42"}`).want(http.StatusAccepted, &got)
	if diff := cmp.Diff(flushed{"chat:42", []string{"open", "held"}}, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	records, err := w.store.Read(t.Context(), 0, 10)
	if err != nil || len(records) != 1 || records[0].Step.Kind != engine.StepFlush || records[0].Scope != "chat:42" {
		t.Fatalf("log %+v (%v)", records, err)
	}
	if w.marks.at != records[0].Position {
		t.Errorf("asked about position %d, the step is at %d", w.marks.at, records[0].Position)
	}
}

func TestFlush_PathIsDecodedOnce(t *testing.T) {
	w := newWorld(t)
	for _, scope := range []string{"chat:42", "repo:acme/shop", "100%", "a%2Fb", "a b+c", "ünï", "?#"} {
		var got flushed
		w.do(http.MethodPost, "/v1/scopes/"+url.PathEscape(scope)+"/flush", "").want(http.StatusAccepted, &got)
		if got.Scope != scope {
			t.Errorf("scope %q, want %q", got.Scope, scope)
		}
	}
}

func TestFlush_NothingThereIsAnEmptyList(t *testing.T) {
	w := newWorld(t)
	a := w.do(http.MethodPost, "/v1/flush", `{"scope":"nobody"}`)
	if a.status != http.StatusAccepted || a.body != `{"scope":"nobody","marked":[]}`+"\n" {
		t.Errorf("status %d: %s", a.status, a.body)
	}
}

func TestFlush_WhatIsNotKnownInTimeIsNull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.marks.block = true
		began := time.Now()
		a := w.do(http.MethodPost, "/v1/flush", `{"scope":"slow"}`)
		if a.status != http.StatusAccepted || a.body != `{"scope":"slow","marked":null}`+"\n" {
			t.Errorf("status %d: %s", a.status, a.body)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("it waited %v, want 1 s", took)
		}
	})
}

func TestFlush_Refuses(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		body   string
		status int
		code   string
		says   string
	}{
		{`{"scope":""}`, 400, "invalidParameter", "scope is empty"},
		{`{}`, 400, "invalidParameter", "scope is empty"},
		{`{"scope":"a\u0000b"}`, 400, "invalidParameter", "control character"},
		{`{"scope":"` + strings.Repeat("x", 513) + `"}`, 400, "invalidParameter", "513 bytes"},
		{`{"scope":"x","wait":1}`, 400, "invalidBody", "wait"},
		{`{"scope":"x","scope":"y"}`, 400, "invalidBody", "scope"},
		{`{"scope":"x"} {}`, 400, "invalidBody", "it should look like"},
		{`["x"]`, 400, "invalidBody", "it should look like"},
		{`{"scope":`, 400, "invalidBody", "it should look like"},
		{`{"scope":"` + strings.Repeat("x", 70_000) + `"}`, 413, "bodyTooLarge", "65536 bytes"},
	} {
		if detail := w.do(http.MethodPost, "/v1/flush", c.body).problem(c.status, c.code); !strings.Contains(detail, c.says) {
			t.Errorf("%.30s: %q, want it to say %q", c.body, detail, c.says)
		}
	}
	w.do(http.MethodPost, "/v1/scopes/%00/flush", "").problem(http.StatusBadRequest, "invalidParameter")
	w.do(http.MethodPost, "/v1/scopes/%FF/flush", "").problem(http.StatusBadRequest, "invalidParameter")

	// A page may send these types without asking first.
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded"} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/flush", strings.NewReader(`{"scope":"x"}`))
		r.Header.Set("Content-Type", media)
		if detail := w.send(r).problem(http.StatusUnsupportedMediaType, "unsupportedMediaType"); !strings.Contains(detail, "curl") {
			t.Errorf("%q: %q shows no line that works", media, detail)
		}
	}
	if head, err := w.store.Head(t.Context()); err != nil || head.Position != 0 {
		t.Errorf("something was written: %+v (%v)", head, err)
	}
}

func TestScopes_PagesByName(t *testing.T) {
	w := newWorld(t)
	w.scopes.names = []string{"a", "b", "c/d", "e"}
	var got []string
	for query := "?limit=2"; ; {
		var p struct {
			Scopes []struct{ Scope string }
			Cursor *string
		}
		w.get("/v1/scopes"+query).want(http.StatusOK, &p)
		for _, s := range p.Scopes {
			got = append(got, s.Scope)
		}
		if p.Cursor == nil {
			break
		}
		query = "?limit=2&after=" + *p.Cursor
	}
	if diff := cmp.Diff(w.scopes.names, got); diff != "" {
		t.Errorf("scopes (-want +got):\n%s", diff)
	}
	for _, bad := range []string{"b", "s1.", "s1.%21", "s1.AA"} {
		w.get("/v1/scopes?after="+bad).problem(http.StatusBadRequest, "invalidCursor")
	}
	w.scopes.names = nil
	if a := w.get("/v1/scopes"); a.body != `{"scopes":[],"cursor":null}`+"\n" {
		t.Errorf("with none: %s", a.body)
	}
}

func TestScopes_One(t *testing.T) {
	w := newWorld(t)
	var got struct{ Scope string }
	w.get("/v1/scopes/repo:acme%2Fshop").want(http.StatusOK, &got)
	if got.Scope != "repo:acme/shop" {
		t.Errorf("scope %q", got.Scope)
	}
	w.scopes.err = fmt.Errorf("look: %w", store.ErrNotFound)
	w.get("/v1/scopes/nobody").problem(http.StatusNotFound, "notFound")
	w.scopes.err = fmt.Errorf("disk on fire at /secret/path")
	if detail := w.get("/v1/scopes/nobody").problem(http.StatusInternalServerError, "internal"); strings.Contains(detail, "secret") {
		t.Errorf("the answer tells what is the operator's: %q", detail)
	}
}

func TestDeadLetters_ListAndShow(t *testing.T) {
	w := newWorld(t)
	settled := w.settle("chat:1", "w1", "", w.event("chat:1", "e-w1", "one", `{"a":1}`))
	id := w.letter("chat:1", "w1", settled, 1)
	w.whole("chat:1", "w2", engine.Queue)

	var list struct {
		DeadLetters []map[string]any
		Cursor      string
	}
	w.get("/v1/deadletters").want(http.StatusOK, &list)
	var one map[string]any
	w.get("/v1/deadletters/"+id).want(http.StatusOK, &one)
	if len(list.DeadLetters) != 1 || list.Cursor == "" {
		t.Fatalf("list %+v", list)
	}
	if diff := cmp.Diff(list.DeadLetters[0], one); diff != "" {
		t.Errorf("the list and the one differ:\n%s", diff)
	}
	if one["id"] != id || one["kind"] != "deadLetter" || one["windowId"] != "w1" || one["decision"] != nil {
		t.Errorf("dead letter %v", one)
	}
	if one["settled"] != nil || one["members"] != nil {
		t.Errorf("it shows what is for a requeue alone: %v", one)
	}
	events := one["events"].([]any)
	if diff := cmp.Diff(map[string]any{"a": 1.0}, events[0].(map[string]any)["data"]); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	w.get("/v1/deadletters/none").problem(http.StatusNotFound, "notFound")
	w.get("/v1/deadletters/w2").problem(http.StatusNotFound, "notFound") // a decision's id
	w.get("/v1/deadletters?route=queue").problem(http.StatusBadRequest, "invalidParameter")
}

func TestRequeue_AppendsWhatTheDeadLetterKept(t *testing.T) {
	w := newWorld(t)
	settled := w.settle("chat:1", "w1", "", w.event("chat:1", "e-w1", "one", ""))
	id := w.letter("chat:1", "w1", settled, 1)
	var got struct {
		ID, Scope, WindowID string
		At                  int64
	}
	w.do(http.MethodPost, "/v1/deadletters/"+id+"/requeue", "").want(http.StatusAccepted, &got)
	if got.ID != id || got.Scope != "chat:1" || got.WindowID != "w1" || got.At == 0 {
		t.Errorf("answer %+v", got)
	}
	first := w.requeues("w1")
	if len(first) != 1 || first[0].Step.Requeue.DeadLetter != id || first[0].Step.Requeue.Number != 1 ||
		first[0].Scope != "chat:1" || len(first[0].Step.Requeue.Members) != 1 {
		t.Fatalf("steps %+v", first)
	}
	if diff := cmp.Diff(*settled, first[0].Step.Requeue.Settled); diff != "" {
		t.Errorf("settled (-want +got):\n%s", diff)
	}

	again := got
	w.do(http.MethodPost, "/v1/deadletters/"+id+"/requeue", "").want(http.StatusAccepted, &again)
	if diff := cmp.Diff(got, again); diff != "" || len(w.requeues("w1")) != 1 {
		t.Errorf("asking again: %d steps, answer (-first +second):\n%s", len(w.requeues("w1")), diff)
	}
	var story struct{ State string }
	w.get("/v1/decisions/w1").want(http.StatusOK, &story)
	if story.State != "judging" {
		t.Errorf("state %q after a requeue", story.State)
	}
}

func (w *world) requeues(window string) []engine.Record {
	w.t.Helper()
	steps, err := w.store.Steps(w.t.Context(), store.StepQuery{Window: window, Kinds: []engine.StepKind{engine.StepRequeue}})
	if err != nil {
		w.t.Fatal(err)
	}
	return steps
}

func TestRequeue_Refuses(t *testing.T) {
	w := newWorld(t)
	// Position 99 holds no event (any longer).
	gone := w.letter("chat:1", "w1", &engine.Settled{Window: "w1", Events: []engine.Position{w.event("chat:1", "e1", "", ""), 99}}, 1)
	detail := w.do(http.MethodPost, "/v1/deadletters/"+gone+"/requeue", "").problem(http.StatusConflict, "expired")
	if !strings.Contains(detail, "1 of the window's 2 events") {
		t.Errorf("detail %q", detail)
	}
	w.do(http.MethodPost, "/v1/deadletters/none/requeue", "").problem(http.StatusNotFound, "notFound")
	if n := len(w.requeues("w1")); n != 0 {
		t.Errorf("%d requeues were written", n)
	}
}

func TestAdmin_GuardsWhatItMust(t *testing.T) {
	w := newWorld(t)
	w.who = access.Anonymous(false)
	for _, c := range []struct{ method, path string }{
		{http.MethodPost, "/v1/deadletters/x/requeue"},
		{http.MethodDelete, "/v1/consumers/x"},
	} {
		if a := w.do(c.method, c.path, ""); a.status != http.StatusForbidden {
			t.Errorf("%s %s: status %d without the right", c.method, c.path, a.status)
		}
	}
}

func TestConsumers(t *testing.T) {
	w := newWorld(t)
	if a := w.get("/v1/consumers"); a.body != `{"consumers":[]}`+"\n" {
		t.Errorf("with none: %s", a.body)
	}
	for _, name := range []string{"b", "a/1"} {
		if _, err := w.consumers.Wait(t.Context(), feed.Call{Consumer: name}); err != nil {
			t.Fatal(err)
		}
	}
	var list struct{ Consumers []struct{ Name string } }
	w.get("/v1/consumers").want(http.StatusOK, &list)
	if len(list.Consumers) != 2 || list.Consumers[0].Name != "a/1" || list.Consumers[1].Name != "b" {
		t.Errorf("consumers %+v", list)
	}
	var one struct{ Name string }
	w.get("/v1/consumers/a%2F1").want(http.StatusOK, &one)
	if one.Name != "a/1" {
		t.Errorf("consumer %+v", one)
	}
	if a := w.do(http.MethodDelete, "/v1/consumers/a%2F1", ""); a.status != http.StatusNoContent || a.body != "" {
		t.Errorf("delete: status %d, %q", a.status, a.body)
	}
	w.get("/v1/consumers/a%2F1").problem(http.StatusNotFound, "notFound")
	w.do(http.MethodDelete, "/v1/consumers/a%2F1", "").problem(http.StatusNotFound, "notFound")
}

// undelivered puts a dead letter of stage sink into the log and returns its id.
func (w *world) undelivered(scope, window string, decision *engine.Decision) string {
	w.t.Helper()
	id := engine.DeadLetterID(window, engine.StageSink, 1)
	w.step(scope, engine.Step{Kind: engine.StepDeadLetter, Window: window, ID: id, DeadLetter: &engine.DeadLetter{
		ID: id, Kind: "deadLetter", Stage: engine.StageSink, Scope: scope, WindowID: window, Message: "gone", Attempts: 5, At: 5000, Number: 1, Decision: decision,
	}})
	return id
}

// A dead letter of stage sink has its decision delivered again, where a sink
// takes its route.
func TestRequeue_OfASink(t *testing.T) {
	w := newWorld(t)
	id := w.undelivered("chat:1", "w1", &engine.Decision{ID: "w1", Route: engine.Queue})
	lost := w.undelivered("chat:1", "w2", nil)
	if detail := w.do(http.MethodPost, "/v1/deadletters/"+id+"/requeue", "").problem(http.StatusConflict, "notRequeueable"); !strings.Contains(detail, "no sink takes the route queue") {
		t.Errorf("detail %q", detail)
	}
	w.do(http.MethodPost, "/v1/deadletters/"+lost+"/requeue", "").problem(http.StatusConflict, "expired")
	w.step("", engine.Step{Kind: engine.StepPolicy, Policy: &engine.Policy{Number: 7, Default: engine.Defaults(), Sinks: map[engine.Route]string{engine.Queue: "agent"}}})
	w.do(http.MethodPost, "/v1/deadletters/"+id+"/requeue", "").want(http.StatusAccepted, new(any))
	steps := w.requeues("w1")
	if len(steps) != 1 || steps[0].Step.Requeue.Stage != engine.StageSink || steps[0].Step.Requeue.Route != engine.Queue || steps[0].Step.Requeue.Position != 1 {
		t.Errorf("requeues %+v", steps)
	}
}

// A filter selects dead letters by scope, stage and time, a page at a time, and
// each is requeued once.
func TestRequeueMany(t *testing.T) {
	w := newWorld(t)
	w.step("", engine.Step{Kind: engine.StepPolicy, Policy: &engine.Policy{Number: 7, Default: engine.Defaults(), Sinks: map[engine.Route]string{engine.Queue: "agent"}}})
	var all []string
	for i := range 5 {
		all = append(all, w.undelivered(fmt.Sprint("chat:", i), fmt.Sprint("w", i), &engine.Decision{ID: fmt.Sprint("w", i), Route: engine.Queue}))
	}
	w.undelivered("chat:9", "w9", nil)
	w.letter("chat:1", "j1", &engine.Settled{Window: "j1", Events: []engine.Position{w.event("chat:1", "e1", "", "")}}, 1)
	type answer struct {
		Requeued []struct{ ID, Scope, WindowID string }
		Skipped  int
		Cursor   string
		More     bool
	}
	ask := func(body string) (a answer) {
		t.Helper()
		w.do(http.MethodPost, "/v1/deadletters/requeue", body).want(http.StatusAccepted, &a)
		return a
	}
	if a := ask(`{"scope":"chat:1","stage":"sink"}`); len(a.Requeued) != 1 || a.Requeued[0].ID != all[1] || a.Skipped != 0 || a.More {
		t.Errorf("one scope: %+v", a)
	}
	if a := ask(`{"before":5000}`); len(a.Requeued) != 1 || a.Requeued[0].WindowID != "j1" || a.Skipped != 0 { // made at 0
		t.Errorf("by time: %+v", a)
	}
	w.do(http.MethodPost, "/v1/deadletters/requeue", `{"limit":1001}`).problem(http.StatusBadRequest, "invalidParameter")
	w.do(http.MethodPost, "/v1/deadletters/requeue", `{"stage":"ear"}`).problem(http.StatusBadRequest, "invalidParameter")
	for _, nothing := range []string{"null", " null\n", "[]"} { // which is not the filter that selects all
		w.do(http.MethodPost, "/v1/deadletters/requeue", nothing).problem(http.StatusBadRequest, "invalidBody")
	}
	var got []string
	a := ask(`{"stage":"sink","limit":2}`)
	for pages := 1; ; pages++ {
		for _, r := range a.Requeued {
			got = append(got, r.ID)
		}
		if !a.More || pages > 9 {
			break
		}
		a = ask(fmt.Sprintf(`{"stage":"sink","limit":2,"after":%q}`, a.Cursor))
	}
	if diff := cmp.Diff([]string{all[0], all[2], all[3], all[4]}, got); diff != "" {
		t.Errorf("requeued (-want +got):\n%s", diff)
	}
	if a := ask(`{}`); len(a.Requeued) != 0 || a.Skipped != 7 {
		t.Errorf("all that is left: %+v", a)
	}
}
