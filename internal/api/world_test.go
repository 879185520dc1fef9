package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/access"
	"attend/internal/api"
	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/silences"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// maxStreams is how many streams a world lets be open.
const maxStreams = 1000

// world is a memory store written to by hand, with the handlers over it.
type world struct {
	t         *testing.T
	store     *memory.Store
	fence     store.Fence
	last      map[string]engine.Position // scope → its last owner's step
	scopes    *fakeScopes
	marks     *fakeMarks
	sources   []api.SourceView
	consumers *feed.Consumers
	streams   *feed.Streams
	ids       int
	registry  *prometheus.Registry
	stopping  chan struct{}
	fields    *fakeFields
	who       *access.Principal // who sends the requests
	log       logged
	handler   http.Handler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOver(t, func(st *memory.Store) store.Log { return st })
}

// newWorldOver reads through whatever is put before the store.
func newWorldOver(t *testing.T, before func(*memory.Store) store.Log) *world {
	t.Helper()
	w := &world{
		t: t, store: memory.New(memory.Options{}), last: make(map[string]engine.Position),
		registry: prometheus.NewPedanticRegistry(),
		scopes:   &fakeScopes{}, marks: &fakeMarks{}, fields: &fakeFields{}, stopping: make(chan struct{}),
		who: access.Anonymous(true),
	}
	t.Cleanup(func() { _ = w.store.Close() })
	var err error
	if w.fence, err = w.store.Own(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := before(w.store)
	reader := feed.NewReader(log)
	w.consumers = feed.NewConsumers(w.store, reader, feed.ConsumersOptions{})
	if w.streams, err = feed.NewStreams(w.registry, maxStreams); err != nil {
		t.Fatal(err)
	}
	handlers, err := api.New(api.Options{
		Log: log, Feed: reader, Scopes: w.scopes, Marks: w.marks, Consumers: w.consumers, Sources: w,
		Silences: silences.New(log, w.store.Now),
		Reload:   func(context.Context) (*api.Reloaded, error) { return nil, &api.ReloadRefused{Why: "it is a test"} },
		Streams:  w.streams, Fields: w.fields, Stopping: w.stopping, Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	r := chi.NewRouter()
	r.Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(rw, r.WithContext(access.With(r.Context(), w.who)))
		})
	})
	handlers.Register(r)
	w.handler = r
	return w
}

// Sources returns those of the moment.
func (w *world) Sources() []api.SourceView { return w.sources }

// event appends an event and returns its position.
func (w *world) event(scope, id, text, data string) engine.Position {
	w.t.Helper()
	e := engine.Event{ID: id, Name: "message.created", Kind: engine.Flush, Policy: 1, Text: text}
	if data != "" {
		e.Data = []byte(data)
	}
	return w.append(store.Entry{Events: []store.NewEvent{{Scope: scope, Event: e}}})
}

// step appends a step as its owner, or as anyone where the kind allows it.
func (w *world) step(scope string, s engine.Step) engine.Position {
	w.t.Helper()
	if s.Kind.Outside() {
		return w.append(store.Entry{Scope: scope, Steps: []engine.Step{s}})
	}
	head, err := w.store.Head(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	at := w.append(store.Entry{
		Scope: scope, Steps: []engine.Step{s}, Fence: w.fence, After: w.last[scope], Applied: head.Position,
	})
	w.last[scope] = at
	return at
}

func (w *world) append(e store.Entry) engine.Position {
	w.t.Helper()
	receipts, err := w.store.Append(w.t.Context(), e)
	if err := errors.Join(err, receipts[0].Err); err != nil {
		w.t.Fatal(err)
	}
	return receipts[0].First
}

// settle records that a window closed; held is the window that it took in.
func (w *world) settle(scope, window, held string, events ...engine.Position) *engine.Settled {
	w.t.Helper()
	s := &engine.Settled{Window: window, Reason: engine.ReasonFlush, Trigger: engine.TriggerDeadline, Events: events, Held: held, Due: 7, SettledAt: 8}
	w.step(scope, engine.Step{Kind: engine.StepSettled, Window: window, Settled: s})
	return s
}

// decide records a decision whose D shows the events with the ids given.
func (w *world) decide(scope, window string, route engine.Route, ids ...string) engine.Position {
	w.t.Helper()
	d := &engine.Decision{ID: window, Kind: "decision", Scope: scope, Route: route, Reason: engine.ReasonFlush, Notice: "hello"}
	for _, id := range ids {
		d.Events = append(d.Events, engine.EventView{ID: id, Name: "message.created", Kind: engine.Flush})
	}
	return w.step(scope, engine.Step{
		Kind: engine.StepDecision, Window: window, ID: window, Route: route, Decision: d,
		Verdict: &engine.Verdict{Window: window, Route: route, At: 9, Probabilities: &engine.Probabilities{1}},
	})
}

// whole settles and decides a window of one event, whose id is "e-" + window.
func (w *world) whole(scope, window string, route engine.Route) engine.Position {
	w.t.Helper()
	w.settle(scope, window, "", w.event(scope, "e-"+window, "text of "+window, `{"n":1}`))
	return w.decide(scope, window, route, "e-"+window)
}

// letter records a dead letter of a judged window.
func (w *world) letter(scope, window string, settled *engine.Settled, number int) string {
	w.t.Helper()
	id := engine.DeadLetterID(window, engine.StageJudge, number)
	w.step(scope, engine.Step{Kind: engine.StepDeadLetter, Window: window, ID: id, DeadLetter: &engine.DeadLetter{
		ID: id, Kind: "deadLetter", Stage: engine.StageJudge, Scope: scope, WindowID: window, Message: "no answer",
		Attempts: 5, Number: number, Settled: settled, Events: []engine.EventView{{ID: "e-" + window, Name: "message.created", Kind: engine.Flush}},
		Members: engine.Members{{Position: 1, Name: "message.created", Kind: engine.Flush}},
	}})
	return id
}

// logged keeps what was logged.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// answer is what a request brought.
type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   string
}

func (w *world) get(path string) answer { w.t.Helper(); return w.do(http.MethodGet, path, "") }

// do sends a request; a body is JSON.
func (w *world) do(method, path, body string) answer {
	w.t.Helper()
	var payload io.Reader = http.NoBody
	if body != "" {
		payload = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, payload)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return w.send(r)
}

func (w *world) send(r *http.Request) answer {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.handler.ServeHTTP(rec, r)
	return answer{w.t, rec.Code, rec.Header(), rec.Body.String()}
}

// want decodes a 2xx answer of the status given.
func (a answer) want(status int, into any) {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		a.t.Errorf("Content-Type %q", got)
	}
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		a.t.Fatalf("%v in %s", err, a.body)
	}
}

// problem checks an error answer and returns its detail.
func (a answer) problem(status int, code string) string {
	a.t.Helper()
	var p struct {
		Status int
		Code   string
		Detail string
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil || a.header.Get("Content-Type") != "application/problem+json" {
		a.t.Fatalf("no problem (status %d, %v): %s", a.status, err, a.body)
	}
	if a.status != status || p.Status != status || p.Code != code {
		a.t.Errorf("status %d, code %q; want %d, %q: %s", a.status, p.Code, status, code, a.body)
	}
	return p.Detail
}

// page is an answer of GET /v1/decisions.
type page struct {
	Decisions []struct {
		ID, Kind, Scope, Route string
		Events                 []struct {
			ID, Text string
			Data     json.RawMessage
		}
	}
	Cursor    string
	Truncated bool
}

func (w *world) page(query string) page {
	w.t.Helper()
	var p page
	w.get("/v1/decisions"+query).want(http.StatusOK, &p)
	return p
}

func (p page) ids() string {
	ids := make([]string, len(p.Decisions))
	for i := range p.Decisions {
		ids[i] = p.Decisions[i].ID
	}
	return strings.Join(ids, " ")
}

// fakeScopes shows made-up views.
type fakeScopes struct {
	names []string
	err   error
}

type fakeView struct {
	Scope string `json:"scope"`
}

func (f *fakeScopes) Scope(_ context.Context, scope string) (api.ScopeView, error) {
	return api.ScopeView{Scope: scope, View: fakeView{scope}}, f.err
}

func (f *fakeScopes) Scopes(_ context.Context, after string, limit int) ([]api.ScopeView, error) {
	var out []api.ScopeView
	for _, name := range f.names {
		if name > after && len(out) < limit {
			out = append(out, api.ScopeView{Scope: name, View: fakeView{name}})
		}
	}
	return out, f.err
}

// fakeMarks answers what a flush call marked.
type fakeMarks struct {
	marked []string
	block  bool // until the context ends
	at     engine.Position
}

func (f *fakeMarks) Marked(ctx context.Context, at engine.Position) ([]string, error) {
	f.at = at
	if f.block {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return f.marked, nil
}
