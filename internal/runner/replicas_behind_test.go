package runner_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

// TestReplicas_NothingIsDoneBeforeTheTakeOverIsApplied: who takes a shard over
// acts on it only when it has applied all that stood in the log by then.
func TestReplicas_NothingIsDoneBeforeTheTakeOverIsApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("script", kinds), runner.Options{Judge: slow(time.Second, engine.Queue)})
		b := join(t, st, "b", policy("script", kinds), runner.Options{Judge: slow(time.Second, engine.Queue)})
		settle()
		for _, s := range scopes {
			a.push(s, "ask")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		ofA := make(map[string]bool)
		for _, e := range a.entries {
			ofA[e.Scope] = true
		}
		b.set(func() { b.crawl = 50 * time.Millisecond })
		for _, s := range scopes {
			if ofA[s] {
				a.push(s, "log", "done")
			}
		}
		time.Sleep(3*time.Second + 100*time.Millisecond) // decided by a, and b has read half of it
		mine, before := b.written(), value(t, b.registry, "attend_refused_proposals_total")
		a.leave()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := value(t, b.registry, "attend_refused_proposals_total") - before; n != 0 || b.written() != mine {
			t.Errorf("%v proposals were refused, %d taken", n, b.written()-mine)
		}
		for s := range ofA {
			b.want(s, "settled flush 1", "call 1", "decision queue", "settled closing 2", "call 1", "decision queue")
		}
		if b.owned() != engine.Shards || len(ofA) == 0 {
			t.Errorf("it owns %d shards, and has taken %d scopes over", b.owned(), len(ofA))
		}
	})
}

// TestReplicas_RowsFromFurtherOnAreNotDamage: a scope that left memory comes
// back from the row of a replica that has read more of the log, and that knows
// newer policies.
func TestReplicas_RowsFromFurtherOnAreNotDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))
		p := policy("rule", kinds)
		a := join(t, st, "a", p, runner.Options{CheckpointRecords: 1})
		b := join(t, st, "b", p, runner.Options{MaxScopes: 1, CheckpointInterval: 2 * time.Second, Logger: logger})
		settle()
		for _, s := range scopes {
			a.push(s, "done")
		}
		time.Sleep(time.Minute) // in b's memory no longer
		synctest.Wait()
		if n := value(t, b.registry, "attend_scopes_in_memory"); n > 1 {
			t.Fatalf("%v scopes are in memory", n)
		}
		b.set(func() { b.crawl = 20 * time.Millisecond })
		p.Default.MaxEvents = 7
		if err := p.Compile(); err != nil {
			t.Fatal(err)
		}
		if err := runner.EnsurePolicy(t.Context(), st, &p); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for range 3 {
			for _, s := range scopes {
				a.push(s, "log", "done")
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		b.set(func() { b.crawl = 0 })
		a.kill()
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, s := range scopes {
			b.want(s, "settled closing 1", "decision queue", "settled closing 6", "decision queue")
		}
		if log.Len() > 0 {
			t.Errorf("errors were logged:\n%s", log.String())
		}
	})
}

// TestReplicas_ACallThatLeftMemoryIsKnownAsLost: a take-over does not wait for
// the timeout of a call of which it has the row alone.
func TestReplicas_ACallThatLeftMemoryIsKnownAsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		p := policy("script", kinds, func(s *engine.Settings) { s.JudgeTimeoutMs = 600_000 })
		opt := runner.Options{MaxScopes: 1, CheckpointInterval: 2 * time.Second, Judge: slow(time.Hour, engine.Queue)}
		a := join(t, st, "a", p, opt)
		opt.Judge = slow(time.Second, engine.Queue)
		b := join(t, st, "b", p, opt)
		settle()
		for _, s := range scopes {
			a.push(s, "ask")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		a.kill()
		time.Sleep(14 * time.Second)
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
		if lost == 0 {
			t.Error("nothing was taken over")
		}
	})
}

// between lets another replica append in the middle of a look at the log.
type between struct {
	store.Store
	once func()
}

func (b *between) Append(ctx context.Context, e ...store.Entry) ([]store.Receipt, error) {
	if b.once != nil {
		f := b.once
		b.once = nil
		f()
	}
	return b.Store.Append(ctx, e...)
}

// TestEnsurePolicy_BesideAnother: the number that both take is the first one's,
// and the other's policy is recorded under the next.
func TestEnsurePolicy_BesideAnother(t *testing.T) {
	st := open(t)
	mine, other := policy("rule", kinds), policy("rule", kinds, func(s *engine.Settings) { s.MaxEvents = 7 })
	ensure := func(log store.Log, p *engine.Policy) {
		if err := p.Compile(); err != nil {
			t.Fatal(err)
		}
		if err := runner.EnsurePolicy(t.Context(), log, p); err != nil {
			t.Fatal(err)
		}
	}
	ensure(&between{st, func() { ensure(st, &other) }}, &mine)
	rules := engine.NewRules(nil)
	recs, err := st.Read(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recs {
		if err := rules.Apply(r); err != nil {
			t.Fatal(err)
		}
	}
	if got := rules.Latest(); got.Number != 2 || got.Default.MaxEvents != mine.Default.MaxEvents {
		t.Errorf("in force is policy %d with maxEvents %d", got.Number, got.Default.MaxEvents)
	}
}
