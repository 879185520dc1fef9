package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// link is one replica's way to the store that all share. It can be cut, as
// when the process dies, or held, as when the process is suspended: then what
// was under way goes on when it wakes.
type link struct {
	*memory.Store
	mu      sync.Mutex
	dead    bool
	noLease bool          // claims alone fail
	crawl   time.Duration // what it takes to read one record; 0 for no time
	held    chan struct{} // closed when it wakes; nil when it runs
	hung    chan struct{} // the same, for what it appends alone
	entries []store.Entry // accepted from this replica, under a fence
	fenced  int           // entries refused for their fence
	saves   int           // of states, accepted
}

func (l *link) pass(ctx context.Context) error {
	l.mu.Lock()
	held := l.held
	l.mu.Unlock()
	if held != nil {
		<-held
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return store.ErrUnavailable
	}
	return ctx.Err()
}

func (l *link) Append(ctx context.Context, e ...store.Entry) ([]store.Receipt, error) {
	l.mu.Lock()
	hung := l.hung
	l.mu.Unlock()
	if hung != nil {
		<-hung
		ctx = context.WithoutCancel(ctx) // it is on its way
	}
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	receipts, err := l.Store.Append(ctx, e...)
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range receipts {
		switch err := receipts[i].Err; {
		case errors.Is(err, store.ErrFenced):
			l.fenced++
		case err == nil && e[i].Owned():
			l.entries = append(l.entries, e[i])
		}
	}
	return receipts, err
}

func (l *link) SaveStates(ctx context.Context, f store.Fence, rows []store.StateRow, p engine.Position) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	err := l.Store.SaveStates(ctx, f, rows, p)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil && len(rows) > 0 {
		l.saves++
	}
	return err
}

func (l *link) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	if err := l.pass(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	crawl := l.crawl
	l.mu.Unlock()
	if crawl > 0 {
		time.Sleep(crawl)
		limit = 1
	}
	return l.Store.Read(ctx, after, limit)
}

func (l *link) Claim(ctx context.Context, replica string, ttl time.Duration) (store.Claimed, error) {
	if err := l.pass(ctx); err != nil {
		return store.Claimed{}, err
	}
	l.mu.Lock()
	failing := l.noLease
	l.mu.Unlock()
	if failing {
		return store.Claimed{}, store.ErrUnavailable
	}
	return l.Store.Claim(ctx, replica, ttl)
}

func (l *link) Release(ctx context.Context, replica string) error {
	if err := l.pass(ctx); err != nil {
		return err
	}
	return l.Store.Release(ctx, replica)
}

func (l *link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

// written is how many entries the store took from the replica under a fence.
func (l *link) written() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.entries)
}

// replica is one runner of many on a store.
type replica struct {
	*world
	*link
	registry *prometheus.Registry
	ended    bool
}

// join starts a runner beside others, on its link or on what is put before it.
func join(t *testing.T, st *memory.Store, name string, p engine.Policy, opt runner.Options, before ...func(*link) store.Store) *replica {
	t.Helper()
	if err := p.Compile(); err != nil {
		t.Fatal(err)
	}
	if err := runner.EnsurePolicy(t.Context(), st, &p); err != nil {
		t.Fatal(err)
	}
	r := &replica{link: &link{Store: st}, registry: prometheus.NewRegistry()}
	opt.Store, opt.Leases, opt.Replica, opt.Registerer = r.link, r.link, name, r.registry
	for _, put := range before {
		opt.Store = put(r.link)
		opt.Leases = opt.Store.(store.Leases) //nolint:forcetypeassert // the link is both
	}
	opt.Compile = judge.Compile
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.world = &world{t: t, store: st, stop: cancel, ended: make(chan error, 1), Runner: runner.New(opt)}
	if err := r.Restore(ctx); err != nil {
		t.Fatal(err)
	}
	go func() { r.world.ended <- r.Run(ctx) }()
	t.Cleanup(r.leave)
	return r
}

// leave stops the runner in order.
func (r *replica) leave() {
	if !r.ended {
		r.ended = true
		r.wake()
		r.end()
	}
}

// kill ends the runner without a word to the store.
func (r *replica) kill() {
	r.set(func() { r.dead = true })
	r.leave()
}

// suspend stops it where it next turns to the store.
func (r *replica) suspend() { r.wake(); r.set(func() { r.held = make(chan struct{}) }) }

// hang stops it at its next append, after all that it looks at before one.
func (r *replica) hang() { r.wake(); r.set(func() { r.hung = make(chan struct{}) }) }

func (r *replica) wake() {
	r.set(func() {
		for _, c := range []*chan struct{}{&r.held, &r.hung} {
			if *c != nil {
				close(*c)
				*c = nil
			}
		}
	})
}

func (r *replica) owned() int {
	r.t.Helper()
	return int(value(r.t, r.registry, "attend_shards_owned"))
}

// cluster is a store and scopes spread over its shards.
func cluster(t *testing.T) (st *memory.Store, scopes []string) {
	t.Helper()
	st = memory.New(memory.Options{})
	t.Cleanup(func() { _ = st.Close() })
	for i := range 40 {
		scopes = append(scopes, fmt.Sprint("scope-", i))
	}
	return st, scopes
}

// settle waits until the replicas have shared the shards out.
func settle() {
	time.Sleep(4 * time.Second)
	synctest.Wait()
}

// slow is a judge that takes its time.
func slow(d time.Duration, route engine.Route) *script {
	return &script{after: []time.Duration{d}, reply: []any{route}}
}

// labelled reads a counter by its one label's value.
func labelled(t *testing.T, g prometheus.Gatherer, name, label string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && m.GetLabel()[0].GetValue() == label {
				return m.GetCounter().GetValue()
			}
		}
	}
	t.Fatalf("no metric %s of %s", name, label)
	return 0
}
