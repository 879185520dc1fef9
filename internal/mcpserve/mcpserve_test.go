package mcpserve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/fields"
	"attend/internal/store"
	"attend/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The two eras, by the revision that the tests speak in each.
const (
	legacy = "2025-11-25"
	modern = "2026-07-28"
)

// daemon is a served /mcp over a log whose decisions the test writes.
type daemon struct {
	t      fataler
	store  *memory.Store
	fence  store.Fence
	last   map[string]engine.Position
	made   int
	server *Server
	url    string
	http   *http.Client
	push   *pushes
	flush  *flushes
	scopes *scopes
	reg    *prometheus.Registry
	log    *logs

	consumers *feed.Consumers
	stopping  chan struct{}
	stopOnce  sync.Once
}

// stop begins to stop the daemon: what waits is answered.
func (d *daemon) stop() {
	d.stopOnce.Do(func() {
		close(d.stopping)
		d.consumers.Close()
	})
}

// settings change a daemon before it starts.
type settings struct {
	options func(*Options)
	wrap    func(http.Handler) http.Handler
	store   *memory.Store                 // of a daemon before it; nil is a new one
	log     func(*memory.Store) feedStore // between the daemon and its store
	serve   func(*http.Server)
	streams int // of one principal; 0 is the default
	fields  func(*memory.Store) *fields.Service
}

// feedStore is what the feed needs of a store.
type feedStore = feed.Store

// fataler is what *testing.T, *testing.B and *rapid.T are.
type fataler interface {
	Helper()
	Context() context.Context
	Cleanup(func())
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
}

func newDaemon(t *testing.T, set settings) *daemon {
	t.Helper()
	d := newBare(t, set)
	var handler http.Handler = d.server
	if set.wrap != nil {
		handler = set.wrap(handler)
	}
	srv := httptest.NewUnstartedServer(handler)
	if set.serve != nil {
		set.serve(srv.Config)
	}
	srv.Start()
	d.url = srv.URL
	d.http = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		d.stop()
		d.http.CloseIdleConnections()
		srv.Close()
	})
	return d
}

// newBare makes a daemon that is not on the network.
func newBare(t fataler, set settings) *daemon {
	t.Helper()
	d := &daemon{
		t: t, store: cmp.Or(set.store, memory.New(memory.Options{})), last: map[string]engine.Position{},
		push: &pushes{}, flush: &flushes{marked: []string{}}, scopes: &scopes{}, reg: prometheus.NewPedanticRegistry(), log: &logs{},
		stopping: make(chan struct{}),
	}
	fence, err := d.store.Own(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	d.fence = fence
	var log feedStore = d.store
	if set.log != nil {
		log = set.log(d.store)
	}
	reader := feed.NewReader(log)
	d.consumers = feed.NewConsumers(log, reader, feed.ConsumersOptions{})
	streams, err := feed.NewStreams(d.reg, set.streams)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Reader: reader, Consumers: d.consumers, Streams: streams, Stopping: d.stopping,
		Push: d.push, Flush: d.flush, Scopes: d.scopes, Registerer: d.reg, Version: "1.2.3",
		Logger: slog.New(slog.NewTextHandler(d.log, nil)),
	}
	if set.fields != nil {
		service := set.fields(d.store)
		o.Fields = service
		t.Cleanup(service.Close)
	}
	if set.options != nil {
		set.options(&o)
	}
	if d.server, err = New(o); err != nil {
		t.Fatal(err)
	}
	return d
}

// logs collects what is logged.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// pushes records what was pushed.
type pushes struct {
	mu     sync.Mutex
	events []string
	answer Pushed
	err    error
}

func (p *pushes) Push(_ context.Context, events []json.RawMessage) (Pushed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range events {
		p.events = append(p.events, string(e))
	}
	return p.answer, p.err
}

// flushes records which scopes were flushed.
type flushes struct {
	mu     sync.Mutex
	scopes []string
	marked []string
}

func (f *flushes) Flush(_ context.Context, scope string) ([]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scopes = append(f.scopes, scope)
	return f.marked, nil
}

// scopes are views by name, each a JSON object without its braces and name.
type scopes struct {
	names []string
	views map[string]string
	asked int // how many views were asked for
}

func (s *scopes) Scope(_ context.Context, scope string) (ScopeView, error) {
	s.asked++
	inside := s.views[scope]
	if inside == "" {
		inside = `"open":null,"held":null,"judging":null,"lanes":null,"silences":[],"policy":1`
	}
	return ScopeView{scope, json.RawMessage(fmt.Sprintf(`{"scope":%q,%s}`, scope, inside))}, nil
}

func (s *scopes) Scopes(ctx context.Context, after string, limit int) ([]ScopeView, error) {
	var views []ScopeView
	for _, name := range s.names {
		if name > after && len(views) < limit {
			v, err := s.Scope(ctx, name)
			if err != nil {
				return nil, err
			}
			views = append(views, v)
		}
	}
	return views, nil
}

func (d *daemon) write(scope string, step engine.Step) {
	d.t.Helper()
	receipts, err := d.store.Append(context.Background(), store.Entry{
		Scope: scope, Steps: []engine.Step{step}, Fence: d.fence, After: d.last[scope],
	})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		d.t.Fatal(err)
	}
	d.last[scope] = receipts[0].Last
}

// decide appends a decision with one event.
func (d *daemon) decide(scope string, route engine.Route, change func(*engine.Decision)) {
	d.t.Helper()
	d.made++
	judged := route
	dec := &engine.Decision{
		ID: fmt.Sprintf("d%d", d.made), Kind: "decision", Scope: scope, Route: route, JudgedRoute: &judged,
		Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, Notice: "the build failed",
		Probabilities: map[string]float64{"interrupt": 0, "queue": 1, "note": 0, "ask": 0, "skip": 0, "wait": 0},
		At:            1764547200123,
		Events: []engine.EventView{{
			ID: "e1", Name: "build.failed", Kind: engine.Closing, SeenAt: 1764547200000, Text: "the build failed",
			Data: engine.RawJSON(`{"secret":"sauce"}`),
		}},
		Judge: &engine.JudgeName{Name: "rule"},
	}
	if change != nil {
		change(dec)
	}
	d.write(scope, engine.Step{Kind: engine.StepDecision, Window: dec.ID, ID: dec.ID, Route: route, Decision: dec})
}

// giveUp appends a dead letter.
func (d *daemon) giveUp(scope string) {
	d.t.Helper()
	d.made++
	l := &engine.DeadLetter{
		ID: fmt.Sprintf("l%d", d.made), Kind: "deadLetter", Stage: "judge", Scope: scope, WindowID: "w1",
		Message: "no answer", Attempts: 5, At: 1764547200123, Number: 1,
		Settled: &engine.Settled{Window: "w1", Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline},
		Events:  []engine.EventView{{ID: "e1", Name: "x", Kind: engine.Closing, Data: engine.RawJSON(`{"secret":"sauce"}`)}},
	}
	d.write(scope, engine.Step{Kind: engine.StepDeadLetter, Window: "w1", ID: l.ID, DeadLetter: l})
}

// reply is what came back to a raw request.
type reply struct {
	status int
	header http.Header
	body   string
	msg    struct {
		ID     json.RawMessage `json:"id"`
		Result map[string]any  `json:"result"`
		Error  *struct {
			Code    int64          `json:"code"`
			Message string         `json:"message"`
			Data    map[string]any `json:"data"`
		} `json:"error"`
	}
}

// send makes one HTTP request.
func (d *daemon) send(ctx context.Context, method string, header http.Header, body string) (*reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, values := range header { //arch:sorted into a map
		req.Header[name] = values
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	r := &reply{status: resp.StatusCode, header: resp.Header, body: string(b)}
	payload := r.body
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		_, data, _ := strings.Cut(payload, "data: ")
		payload, _, _ = strings.Cut(data, "\n")
	}
	_ = json.Unmarshal([]byte(payload), &r.msg) // what is not JSON-RPC has no msg
	return r, nil
}

func (d *daemon) post(header http.Header, body string) *reply {
	d.t.Helper()
	r, err := d.send(d.t.Context(), http.MethodPost, header, body)
	if err != nil {
		d.t.Fatal(err)
	}
	return r
}

// headers makes a header of name, value pairs.
func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

const metaModern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"0"},"io.modelcontextprotocol/clientCapabilities":{}}`

// request is a call in an era; params is the inside of a JSON object.
func request(era, method, params string) (http.Header, string) {
	return requestID(era, method, params, "1")
}

func requestID(era, method, params, id string) (http.Header, string) {
	h := headers(headerVersion, era)
	if era == modern {
		h.Set(headerMethod, method)
		if params != "" {
			params += ","
		}
		params += metaModern
	}
	return h, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":{%s}}`, id, method, params)
}

// call makes a request in an era.
func (d *daemon) call(era, method, params string) *reply {
	d.t.Helper()
	h, body := request(era, method, params)
	return d.post(h, body)
}

// tool calls a tool in an era; args is a JSON object.
func (d *daemon) tool(era, name, args string) *reply {
	d.t.Helper()
	h, body := request(era, "tools/call", fmt.Sprintf(`"name":%q,"arguments":%s`, name, args))
	h.Set("Mcp-Name", name)
	return d.post(h, body)
}

// eventually waits for a condition, for as long as a loaded machine may take.
func eventually(t fataler, what string, cond func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !cond() {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
		<-tick.C
	}
}

// waiting is the number of attend_wait calls in progress.
func (d *daemon) waiting() float64 { return d.gauge("attend_mcp_waits") }

func (d *daemon) gauge(name string) float64 {
	d.t.Helper()
	families, err := d.reg.Gather()
	if err != nil {
		d.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	d.t.Fatal(errors.New("no metric " + name))
	return 0
}
