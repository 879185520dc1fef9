package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"attend/internal/engine"
	"attend/internal/store"
)

// world is a daemon's part of a source, and a server that does as a test says.
// It lives in a bubble.
type world struct {
	t       *testing.T
	source  Source
	others  []Source // of the same server
	policy  *engine.Policy
	service *Service
	log     bytes.Buffer
	stop    func()

	mu      sync.Mutex
	rows    map[string][]byte
	batches []Batch
	ids     map[string]bool // of events that were taken
	fence   store.Fence     // in force; the zero Fence is another's
	refuse  func(b *Batch) error
	reject  func(e *Event) string

	list   func() ([]EventType, error)
	poll   func(ctx context.Context, r Request) (Page, error)
	stream func(ctx context.Context, r Request, hear func(Notification)) error
	dial   func() error
	behind []place  // where events stand, for story
	asked  []string // "poll c1", "stream -": what the server was asked, in order
	open   int      // sessions
}

// taken are all events that were committed.
func (w *world) taken() (all []Event) {
	for i := range w.batches {
		all = append(all, w.batches[i].Events...)
	}
	return all
}

// place is the cursor behind an event.
type place struct{ id, cursor string }

// inBubble runs a test whose source streams x into the scope s, unless set says
// otherwise.
func inBubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		policy := &engine.Policy{Default: engine.Defaults()}
		policy.Default.RetryJitter = 0
		if err := policy.Compile(); err != nil {
			t.Fatal(err)
		}
		w := &world{
			t: t, policy: policy, rows: make(map[string][]byte), ids: make(map[string]bool), fence: store.Fence{Shard: -1, Token: 1},
			source: Source{Name: "ci", Server: "https://ci.example.com/mcp", Origin: "ci", Event: "x", Scope: "s"},
			list:   func() ([]EventType, error) { return []EventType{{Name: "x", Delivery: []string{"poll", "push"}}}, nil },
			stream: silent, dial: func() error { return nil },
			poll: func(context.Context, Request) (Page, error) { return Page{}, nil },
		}
		test(w)
		if w.stop != nil {
			w.stop()
		}
		if w.open != 0 {
			t.Errorf("%d sessions stay open", w.open)
		}
	})
}

// silent is a stream that says nothing.
func silent(ctx context.Context, _ Request, _ func(Notification)) error {
	<-ctx.Done()
	return ctx.Err()
}

// start runs the source.
func (w *world) start() {
	w.t.Helper()
	w.source.Dialer = w
	var err error
	w.service, err = New(Options{
		Sources: append([]Source{w.source}, w.others...), Rows: w, Intake: w, Policy: func() *engine.Policy { return w.policy },
		Fence: func(int) (store.Fence, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.fence, w.fence.Token != 0
		},
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Registerer: prometheus.NewPedanticRegistry(),
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.service.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.stop = func() {
		cancel()
		<-done
		w.stop = nil
	}
	synctest.Wait()
}

// pass lets time go by.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Dial implements Dialer.
func (w *world) Dial(_ context.Context, _ func()) (Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, "dial")
	if err := w.dial(); err != nil {
		return nil, err
	}
	w.open++
	return &fakeSession{w}, nil
}

// Redact implements Dialer.
func (w *world) Redact(text string) string { return strings.ReplaceAll(text, theToken, "[hidden]") }

type fakeSession struct{ w *world }

func (s *fakeSession) note(what string, r *Request) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if r != nil {
		cursor := r.Cursor
		if cursor == "" {
			cursor = "-"
		}
		what += " " + cursor
	}
	s.w.asked = append(s.w.asked, what)
}

// Find implements Session.
func (s *fakeSession) Find(_ context.Context, name string) (EventType, error) {
	s.note("list", nil)
	types, err := s.w.list()
	for _, t := range types {
		if t.Name == name {
			return t, err
		}
	}
	return EventType{}, err
}

// Poll implements Session.
func (s *fakeSession) Poll(ctx context.Context, r Request) (Page, error) {
	s.note("poll", &r)
	return s.w.poll(ctx, r)
}

// Stream implements Session.
func (s *fakeSession) Stream(ctx context.Context, r Request, hear func(Notification)) error {
	s.note("stream", &r)
	return s.w.stream(ctx, r, hear)
}

// Close implements Session.
func (s *fakeSession) Close() {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	s.w.open--
}

// Row implements store.Rows.
func (w *world) Row(_ context.Context, space, key string) ([]byte, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b, ok := w.rows[space+"/"+key]; ok {
		return b, nil
	}
	return nil, store.ErrNotFound
}

// Rows implements store.Rows.
func (w *world) Rows(context.Context, string) ([]store.Put, error) { return nil, nil }

// Take implements Intake.
func (w *world) Take(_ context.Context, b *Batch) (Taken, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.Fence != w.fence {
		return Taken{}, fmt.Errorf("append: %w", store.ErrFenced)
	}
	if w.refuse != nil {
		if err := w.refuse(b); err != nil {
			return Taken{}, err
		}
	}
	var taken Taken
	for i := range b.Events {
		why := ""
		if w.reject != nil {
			why = w.reject(&b.Events[i])
		}
		switch id := b.Events[i].ID; {
		case why != "":
			taken.Refused++
			taken.Reasons = append(taken.Reasons, why)
		case w.ids[id]:
			taken.Duplicates++
		default:
			w.ids[id] = true
			taken.Accepted++
		}
	}
	w.rows[b.Put.Space+"/"+b.Put.Key] = b.Put.Value
	w.batches = append(w.batches, *b)
	return taken, nil
}

// status is how the source stands.
func (w *world) status() Status { return w.service.Statuses()[0] }

// committed lists the commits: gaps, then events, then the cursor, as
// "gap:s a b @c2".
func (w *world) committed() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, b := range w.batches {
		var words []string
		for _, g := range b.Gaps {
			words = append(words, "gap:"+g)
		}
		for _, e := range b.Events {
			words = append(words, e.ID)
		}
		var r row
		if err := json.Unmarshal(b.Put.Value, &r); err != nil {
			w.t.Error(err)
		}
		all = append(all, strings.Join(append(words, "@"+r.Cursor), " "))
	}
	return all
}

// story is all that was committed in order, as one commit: how a stream's
// notifications are cut into commits depends on who is faster. The cursor of
// each commit must stand behind its last event.
func (w *world) story() string {
	w.t.Helper()
	var words []string
	cursor := ""
	for _, c := range w.committed() {
		before, at, _ := strings.Cut(c, "@")
		words, cursor = append(words, strings.Fields(before)...), at
		for _, b := range w.behind {
			if slices.Contains(strings.Fields(before), b.id) && at < b.cursor {
				w.t.Errorf("the commit %q has a cursor before that of %s, %s", c, b.id, b.cursor)
			}
		}
	}
	return strings.Join(append(words, "@"+cursor), " ")
}

// requests lists what the server was asked since the last look.
func (w *world) requests() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := strings.Join(w.asked, ", ")
	w.asked = nil
	return all
}

// errors is how often a kind of trouble was counted.
func (w *world) errors(kind string) float64 {
	return testutil.ToFloat64(w.service.metrics.errors.WithLabelValues("ci", kind))
}

// The notifications of a stream.

func active(cursor string, truncated bool) Notification {
	return told("active", fmt.Sprintf(`{"cursor":%q,"truncated":%t}`, cursor, truncated))
}

func event(id, cursor string) Notification { return told("event", occurs(id, cursor)) }

func beat(cursor string) Notification {
	return told("heartbeat", fmt.Sprintf(`{"cursor":%q}`, cursor))
}

func told(kind, params string) Notification {
	return Notification{Kind: kind, Params: json.RawMessage(params)}
}

// occurs is an occurrence. Its cursor is left out where it is "".
func occurs(id, cursor string) string {
	more := ""
	if cursor != "" {
		more = fmt.Sprintf(`,"cursor":%q`, cursor)
	}
	return fmt.Sprintf(`{"eventId":%q,"name":"x.happened","timestamp":"1970-01-01T00:00:01Z","data":{"n":1}%s}`, id, more)
}

// says is a stream that tells something and then says nothing.
func says(all ...Notification) func(context.Context, Request, func(Notification)) error {
	return func(ctx context.Context, r Request, hear func(Notification)) error {
		for _, n := range all {
			hear(n)
		}
		return silent(ctx, r, hear)
	}
}

// page is the answer of a poll.
func page(cursor string, events ...string) Page {
	p := Page{Cursor: &cursor}
	for _, e := range events {
		p.Events = append(p.Events, json.RawMessage(e))
	}
	return p
}

// rest is how a server takes its time.
func rest(d time.Duration) { time.Sleep(d) }
