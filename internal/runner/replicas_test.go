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
	held    chan struct{} // closed when it wakes; nil when it runs
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

// join starts a runner beside others.
func join(t *testing.T, st *memory.Store, name string, p engine.Policy, opt runner.Options) *replica {
	t.Helper()
	if err := p.Compile(); err != nil {
		t.Fatal(err)
	}
	if err := runner.EnsurePolicy(t.Context(), st, &p); err != nil {
		t.Fatal(err)
	}
	r := &replica{link: &link{Store: st}, registry: prometheus.NewRegistry()}
	opt.Store, opt.Leases, opt.Replica, opt.Registerer = r.link, r.link, name, r.registry
	opt.Pure, opt.Logger = judge.Pure(), slog.New(slog.NewTextHandler(t.Output(), nil))
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
func (r *replica) suspend() { r.set(func() { r.held = make(chan struct{}) }) }

func (r *replica) wake() {
	r.set(func() {
		if r.held != nil {
			close(r.held)
			r.held = nil
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

func TestReplicas_ShareTheWork(t *testing.T) {
	for n := 2; n <= 3; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, scopes := cluster(t)
				var all []*replica
				for i := range n {
					all = append(all, join(t, st, fmt.Sprint("r", i), policy("script", kinds), runner.Options{Judge: slow(time.Second, engine.Queue)}))
				}
				settle()
				sum := 0
				for i, r := range all {
					if err := r.Ready(t.Context()); err != nil {
						t.Errorf("replica %d: %v", i, err)
					}
					sum += r.owned()
				}
				if sum != engine.Shards {
					t.Errorf("%d shards are owned", sum)
				}
				for i, s := range scopes {
					all[i%n].push(s, "log", "ask")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				for _, s := range scopes {
					all[0].want(s, "settled flush 2", "call 1", "decision queue")
				}
				settled := 0.0
				for i, r := range all {
					if r.written() == 0 {
						t.Errorf("replica %d did nothing", i)
					}
					settled += labelled(t, r.registry, "attend_settles_total", string(engine.ReasonFlush))
				}
				if int(settled) != len(scopes) {
					t.Errorf("%v settles are counted over all replicas, want %d", settled, len(scopes))
				}
			})
		})
	}
}

func TestReplicas_AnswerFromTheirOwnFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("script", kinds), runner.Options{Judge: slow(time.Second, engine.Queue)})
		b := join(t, st, "b", policy("script", kinds), runner.Options{Judge: slow(time.Second, engine.Queue)})
		settle()
		for _, s := range scopes {
			e := store.NewEvent{Scope: s, Event: engine.Event{ID: "same", Name: "done", Kind: engine.Closing, Policy: 1}}
			a.append(store.Entry{Events: []store.NewEvent{e}})
			r := b.append(store.Entry{Events: []store.NewEvent{e}})
			for _, w := range []*replica{a, b} {
				if n, err := w.Duplicates(t.Context(), r.First, r.Last); n != 1 || err != nil {
					t.Errorf("%s: Duplicates = %d, %v; want 1", s, n, err)
				}
				if v, err := w.Scope(t.Context(), s); err != nil || v.Open == nil || v.Open.Events != 1 {
					t.Errorf("%s: Scope = %+v, %v", s, v, err)
				}
			}
			if got := b.flush(s); len(got) != 1 || got[0] != "open" {
				t.Errorf("%s: marked %v", s, got)
			}
		}
	})
}

func TestReplicas_WhatADeadOneLeftIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("script", kinds), runner.Options{Judge: slow(5*time.Second, engine.Note)})
		b := join(t, st, "b", policy("script", kinds), runner.Options{Judge: slow(5*time.Second, engine.Queue)})
		settle()
		for _, s := range scopes {
			a.push(s, "ask")
		}
		time.Sleep(2 * time.Second)
		a.kill() // with calls running
		mine, before := b.written(), value(t, b.registry, "attend_takeovers_total")
		time.Sleep(10*time.Second + 2*time.Second)
		if b.owned() != engine.Shards {
			t.Errorf("%d shards are owned", b.owned())
		}
		time.Sleep(5*time.Second + time.Millisecond)
		synctest.Wait()
		lost := 0
		for _, s := range scopes {
			if got := b.steps(s); len(got) == 5 {
				b.want(s, "settled flush 1", "call 1", "failed lost", "call 2", "decision queue")
				lost++
			} else {
				b.want(s, "settled flush 1", "call 1", "decision queue")
			}
		}
		if lost == 0 || lost == len(scopes) || mine == 0 {
			t.Errorf("of %d scopes %d were taken over", len(scopes), lost)
		}
		if n := value(t, b.registry, "attend_takeovers_total") - before; n != engine.Shards/2 {
			t.Errorf("%v takeovers are counted", n)
		}
	})
}

func TestReplicas_GoOnAtOnceWhenOneIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("script", kinds), runner.Options{Judge: slow(5*time.Second, engine.Note)})
		b := join(t, st, "b", policy("script", kinds), runner.Options{Judge: slow(5*time.Second, engine.Queue)})
		settle()
		for _, s := range scopes {
			a.push(s, "ask")
		}
		time.Sleep(2 * time.Second)
		a.leave()
		time.Sleep(6*time.Second + time.Millisecond) // a second to notice, five to judge
		synctest.Wait()
		stopped := 0
		for _, s := range scopes {
			if got := b.steps(s); len(got) == 5 {
				b.want(s, "settled flush 1", "call 1", "failed stopped", "call 1", "decision queue")
				stopped++
			} else {
				b.want(s, "settled flush 1", "call 1", "decision queue")
			}
		}
		if stopped == 0 {
			t.Error("the one that was stopped had nothing to do")
		}
	})
}

func TestReplicas_ASuspendedOneWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("rule", kinds), runner.Options{CheckpointRecords: 1})
		b := join(t, st, "b", policy("rule", kinds), runner.Options{})
		settle()
		for _, s := range scopes {
			b.push(s, "done") // due in two seconds
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		before, saves := a.written(), a.saves
		a.suspend() // its appends are on their way when it stops
		time.Sleep(30 * time.Second)
		synctest.Wait()
		for _, s := range scopes {
			b.want(s, "settled closing 1", "decision queue")
		}
		head, err := st.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.wake()
		synctest.Wait()
		if a.written() != before || a.saves != saves {
			t.Errorf("it wrote %d entries and %d states", a.written()-before, a.saves-saves)
		}
		if now, _ := st.Head(t.Context()); now.Position != head.Position {
			t.Errorf("the log grew by %d records", now.Position-head.Position)
		}
		settle()
		if a.owned() != engine.Shards/2 {
			t.Errorf("it came back to %d shards", a.owned())
		}
	})
}

func TestReplicas_NothingIsDoneWithoutTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("rule", kinds), runner.Options{})
		settle()
		a.set(func() { a.noLease = true })
		time.Sleep(7 * time.Second) // the last claim was sent up to a second ago
		for _, s := range scopes {
			a.push(s, "ask")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := a.written(); n != 0 {
			t.Errorf("%d entries were written under leases that could not be renewed", n)
		}
		if err := a.Ready(t.Context()); err == nil {
			t.Error("it calls itself ready")
		}
		if a.owned() != 0 {
			t.Errorf("it calls itself the owner of %d shards", a.owned())
		}
		a.set(func() { a.noLease = false })
		time.Sleep(time.Second)
		synctest.Wait()
		for _, s := range scopes {
			a.want(s, "settled flush 1", "decision interrupt")
		}
		if err := a.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestReplicas_ShareAgainWhenTheyComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		opt := func() runner.Options { return runner.Options{Judge: slow(3*time.Second, engine.Queue)} }
		a := join(t, st, "a", policy("script", kinds), opt())
		settle()
		if a.owned() != engine.Shards {
			t.Errorf("alone it owns %d shards", a.owned())
		}
		for _, s := range scopes {
			a.push(s, "ask")
		}
		time.Sleep(time.Second)
		b := join(t, st, "b", policy("script", kinds), opt())
		c := join(t, st, "c", policy("script", kinds), opt())
		settle()
		for _, r := range []*replica{a, b, c} {
			if n := r.owned(); n < 84 || n > 86 {
				t.Errorf("one of three owns %d shards", n)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		stopped := 0
		for _, s := range scopes { // what is given back under a running call costs no attempt
			if got := a.steps(s); len(got) == 5 {
				a.want(s, "settled flush 1", "call 1", "failed stopped", "call 1", "decision queue")
				stopped++
			} else {
				a.want(s, "settled flush 1", "call 1", "decision queue")
			}
		}
		if stopped == 0 {
			t.Error("no running call was given back")
		}
		a.leave()
		settle()
		if b.owned() != engine.Shards/2 || c.owned() != engine.Shards/2 {
			t.Errorf("the two that stay own %d and %d shards", b.owned(), c.owned())
		}
	})
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
