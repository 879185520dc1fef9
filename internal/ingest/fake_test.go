package ingest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

	"attend/internal/engine"
	"attend/internal/store"
)

// memoryLog keeps what is appended, and can be told to fail.
type memoryLog struct {
	store.Log // nothing but Append is used

	// before is asked before every append, the first being 1. Its error is the
	// append's.
	before func(call int, e *store.Entry) error

	mu     sync.Mutex
	calls  int
	groups []int // events of each append that succeeded
	events []store.NewEvent
	grown  chan struct{} // closed when something is appended
}

func (l *memoryLog) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.calls++
	call := l.calls
	l.mu.Unlock()
	if l.before != nil {
		if err := l.before(call, &entries[0]); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &entries[0]
	first := engine.Position(len(l.events) + 1)
	l.events = append(l.events, e.Events...)
	l.groups = append(l.groups, len(e.Events))
	if l.grown != nil {
		close(l.grown)
		l.grown = nil
	}
	return []store.Receipt{{First: first, Last: engine.Position(len(l.events))}}, nil
}

func (l *memoryLog) all() []store.NewEvent {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.events[:len(l.events):len(l.events)]
}

func (l *memoryLog) sizes() []int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups[:len(l.groups):len(l.groups)]
}

// waitFor returns once the log holds n events.
func (l *memoryLog) waitFor(t testing.TB, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		l.mu.Lock()
		have := len(l.events)
		if l.grown == nil {
			l.grown = make(chan struct{})
		}
		grown := l.grown
		l.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-grown:
		case <-ctx.Done():
			t.Fatalf("the log holds %d events, and %d did not come", have, n)
		}
	}
}

// foldOwner decides duplicates by the log alone, as the fold does.
type foldOwner struct {
	log    *memoryLog
	policy *engine.Policy
	blind  bool // Remembers never knows
	broken error
	refuse func(scope string, k engine.Kind) string

	mu      sync.Mutex
	applied int
	seen    map[idKey]bool
	dup     []bool // of each position, from 1
}

func (o *foldOwner) Policy() *engine.Policy { return o.policy }

func (o *foldOwner) Refuses(scope string, k engine.Kind) string {
	if o.refuse == nil {
		return ""
	}
	return o.refuse(scope, k)
}

func (o *foldOwner) apply() {
	for _, e := range o.log.all()[o.applied:] {
		key := idKey{e.Scope, engine.DigestOf(e.ID)}
		o.dup = append(o.dup, o.seen[key])
		o.seen[key] = true
		o.applied++
	}
}

func (o *foldOwner) Remembers(scope string, d engine.Digest) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.apply()
	return !o.blind && o.seen[idKey{scope, d}]
}

func (o *foldOwner) Duplicates(ctx context.Context, first, last engine.Position) (int, error) {
	if err := cmp.Or(o.broken, ctx.Err()); err != nil {
		return 0, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.apply()
	n := 0
	for _, dup := range o.dup[first-1 : last] {
		if dup {
			n++
		}
	}
	return n, nil
}

// world is a handler and what it stands on.
type world struct {
	*Handler
	log   *memoryLog
	owner *foldOwner
	reg   *prometheus.Registry
	out   *bytes.Buffer // what was logged, one JSON object a line
}

func testPolicy(t testing.TB, change func(p *engine.Policy)) *engine.Policy {
	t.Helper()
	p := &engine.Policy{
		Number:  7,
		Kinds:   map[string]engine.Kind{"message.*": engine.Flush, "build.failed": engine.Closing, "n": engine.Passive},
		Default: engine.Defaults(),
	}
	if change != nil {
		change(p)
	}
	if err := p.Compile(); err != nil {
		t.Fatal(err)
	}
	return p
}

// newWorld makes a handler over an empty log. Each change may alter the
// options, whose Log and Owner are those of the world. Groups are cut by size
// and by the body's end alone, however slow the machine is.
func newWorld(t testing.TB, changes ...func(w *world, o *Options)) *world {
	t.Helper()
	w := &world{log: new(memoryLog), reg: prometheus.NewPedanticRegistry(), out: new(bytes.Buffer)}
	w.owner = &foldOwner{log: w.log, policy: testPolicy(t, nil), seen: make(map[idKey]bool)}
	var logged io.Writer = &lockedWriter{w: w.out}
	o := Options{Log: w.log, Owner: w.owner, Registerer: w.reg, Logger: slog.New(slog.NewJSONHandler(logged, nil))}
	o.Limits.GroupWait = time.Hour
	for _, change := range changes {
		change(w, &o)
	}
	h, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = h
	return w
}

// impatient lets groups wait for as long as they do by default.
func impatient(_ *world, o *Options) { o.Limits.GroupWait = 0 }

type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// reply is an answer as a client reads it.
type reply struct {
	Status int
	Header http.Header
	Body   wire
}

// wire is every member that an answer can have.
type wire struct {
	Type, Title, Detail, Code, Note string
	Status                          int
	Accepted, Duplicates, Rejected  int
	Errors                          []LineError
}

// post sends a body without a network.
func (w *world) post(t testing.TB, body io.Reader, changes ...func(r *http.Request)) reply {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/v1/ingest", body)
	r.Header.Set("Content-Type", typeLines)
	for _, change := range changes {
		change(r)
	}
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	return readReply(t, rec.Result())
}

func (w *world) send(t testing.TB, body string, changes ...func(r *http.Request)) reply {
	t.Helper()
	return w.post(t, strings.NewReader(body), changes...)
}

func asJSON(r *http.Request) { r.Header.Set("Content-Type", typeJSON) }

func readReply(t testing.TB, res *http.Response) reply {
	t.Helper()
	defer res.Body.Close()
	out := reply{Status: res.StatusCode, Header: res.Header}
	d := json.NewDecoder(res.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&out.Body); err != nil {
		t.Fatalf("read the answer (status %d): %v", res.StatusCode, err)
	}
	return out
}

// counts words the numbers of an answer.
func (r *reply) counts() string {
	return fmt.Sprintf("%d: %d accepted, %d duplicates, %d rejected", r.Status, r.Body.Accepted, r.Body.Duplicates, r.Body.Rejected)
}

// codes words the errors of an answer.
func codes(errs []LineError) string {
	var b strings.Builder
	for i, e := range errs {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d:%s", e.Line, e.Code)
	}
	return b.String()
}

// ids words the ids of events, in the log's order.
func ids(events []store.NewEvent) string {
	var all []string
	for _, e := range events {
		all = append(all, e.ID)
	}
	return strings.Join(all, " ")
}
