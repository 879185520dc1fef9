package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"attend/internal/guard"
	"attend/internal/store"
	"attend/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a service over a store in memory, with a feed and receivers that the
// test plays. It runs within a bubble, so its clock is the bubble's.
type world struct {
	t     *testing.T
	store *memory.Store
	fence store.Fence
	owns  atomic.Bool
	net   *network
	feed  *source
	opt   func(*Options)
	s     *Service
	stop  func()
}

func newWorld(t *testing.T, opt func(*Options)) *world {
	t.Helper()
	w := &world{t: t, store: memory.New(memory.Options{}), net: &network{}, feed: newSource(), opt: opt}
	fence, err := w.store.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.fence = fence
	w.owns.Store(true)
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start runs a service, a new one on the store after a stop.
func (w *world) start() {
	w.t.Helper()
	o := Options{
		Store: w.store, Fence: func(int) (store.Fence, bool) { return w.fence, w.owns.Load() }, Client: w.net,
		Durable: true, Now: w.store.Now, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewPedanticRegistry(),
	}
	if w.opt != nil {
		w.opt(&o)
	}
	s, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx, w.feed) }()
	w.s = s
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
}

const callback = "https://hooks.example.com/a"

func secretOf(fill byte) string {
	return "whsec_" + base64.StdEncoding.EncodeToString(append(make([]byte, 31), fill))
}

// signatureOf is what Standard Webhooks says a signature is, written out.
func signatureOf(id string, at time.Time, body []byte, keys ...[]byte) string {
	all := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
		all[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(all, " ")
}

func keyOf(fill byte) []byte { return append(make([]byte, 31), fill) }

func request(url string, change func(*Request)) Request {
	r := Request{Key: Key{Principal: "ana", URL: url, Name: "e"}, Secret: secretOf(1), Start: "0"}
	if change != nil {
		change(&r)
	}
	return r
}

func (w *world) subscribe(url string, change func(*Request)) *Granted {
	w.t.Helper()
	g, err := w.s.Subscribe(w.t.Context(), request(url, change))
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

// settle lets everything that can happen now happen.
func settle() { synctest.Wait() }

// pass lets time pass.
func pass(d time.Duration) {
	t := time.NewTimer(d)
	<-t.C
	synctest.Wait()
}

// exchange is one request as a receiver saw it.
type exchange struct {
	at        time.Time
	url       string
	id        string
	signature string
	stamp     int64
	body      []byte
	kind      string // of a control body
	cursor    string
}

// network are all receivers: one function answers.
type network struct {
	mu     sync.Mutex
	all    []exchange
	flying map[string]int
	most   map[string]int
	answer func(ctx context.Context, e *exchange) (status int, header http.Header, err error)
	check  error
	deaf   string // hosts with this in their names answer no challenge
}

func (n *network) Check(context.Context, string) error { return n.check }

func (n *network) Do(req *http.Request, _ int64) (*guard.Answer, error) {
	e := exchange{at: time.Now(), url: req.URL.String(), id: req.Header.Get("webhook-id"), signature: req.Header.Get("webhook-signature")}
	e.stamp, _ = strconv.ParseInt(req.Header.Get("webhook-timestamp"), 10, 64)
	if req.Body != nil {
		e.body, _ = io.ReadAll(req.Body)
	}
	var body struct{ Type, Challenge, Cursor string }
	_ = json.Unmarshal(e.body, &body)
	e.kind, e.cursor = body.Type, body.Cursor
	n.mu.Lock()
	n.all = append(n.all, e)
	if n.flying == nil {
		n.flying, n.most = map[string]int{}, map[string]int{}
	}
	n.flying[e.url]++
	n.most[e.url] = max(n.most[e.url], n.flying[e.url])
	answer := n.answer
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.flying[e.url]--
	}()
	if e.kind == "verification" {
		if n.deaf != "" && strings.Contains(e.url, n.deaf) {
			ctx, cancel := context.WithTimeout(req.Context(), 5*time.Second)
			defer cancel()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		echo, err := json.Marshal(map[string]string{"challenge": body.Challenge})
		return &guard.Answer{Status: 200, Body: echo}, err
	}
	if answer == nil {
		return &guard.Answer{Status: 204}, nil
	}
	ctx, cancel := context.WithTimeout(req.Context(), 5*time.Second) // as the client has it
	defer cancel()
	status, header, err := answer(ctx, &e)
	if err != nil {
		return nil, err
	}
	return &guard.Answer{Status: status, Header: header}, nil
}

func (n *network) respond(answer func(ctx context.Context, e *exchange) (int, http.Header, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.answer = answer
}

// always answers with a status.
func (n *network) always(status int) {
	n.respond(func(context.Context, *exchange) (int, http.Header, error) { return status, nil, nil })
}

// posts are the exchanges with a receiver that were no challenges.
func (n *network) posts(url string) []exchange {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []exchange
	for _, e := range n.all {
		if e.url == url && e.kind != "verification" {
			out = append(out, e)
		}
	}
	return out
}

func (n *network) ids(url string) []string {
	var out []string
	for _, e := range n.posts(url) {
		out = append(out, e.id)
	}
	return out
}

// source is what happens: occurrence n has the cursor n behind it.
type source struct {
	mu     sync.Mutex
	count  int
	oldest int // up to which nothing is kept any longer
	grown  chan struct{}
	latest bool
	ended  *Ended
	fails  error
}

func newSource() *source { return &source{grown: make(chan struct{})} }

func (s *source) stir(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	close(s.grown)
	s.grown = make(chan struct{})
}

func (s *source) happen(n int) { s.stir(func() { s.count += n }) }

// Open implements Feeds.
func (s *source) Open(_ context.Context, _ Key, cursor string) (Feed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended != nil {
		return nil, s.ended
	}
	at, err := strconv.Atoi(cursor)
	return &reading{s: s, at: at}, err
}

type reading struct {
	s  *source
	at int
}

func (r *reading) Latest() bool { return r.s.latest }
func (r *reading) Close()       {}

func (r *reading) Next(ctx context.Context) (Page, error) {
	for {
		r.s.mu.Lock()
		count, oldest, grown, latest, ended, fails := r.s.count, r.s.oldest, r.s.grown, r.s.latest, r.s.ended, r.s.fails
		r.s.mu.Unlock()
		switch {
		case ended != nil:
			return Page{}, ended
		case fails != nil:
			return Page{}, fails
		}
		var p Page
		if r.at < oldest {
			r.at = oldest
			p.Gap, p.GapCursor = true, strconv.Itoa(oldest)
		}
		if latest && count > r.at {
			r.at = count - 1
		}
		for r.at < count && len(p.Occurrences) < 8 {
			r.at++
			p.Occurrences = append(p.Occurrences, Occurrence{ID: id(r.at), Body: json.RawMessage(fmt.Sprintf(`{"eventId":%q}`, id(r.at))), Cursor: strconv.Itoa(r.at)})
		}
		if p.Gap || len(p.Occurrences) > 0 {
			p.Cursor = strconv.Itoa(r.at)
			return p, nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return Page{}, context.Cause(ctx)
		}
	}
}

func id(n int) string { return fmt.Sprintf("e%d", n) }
