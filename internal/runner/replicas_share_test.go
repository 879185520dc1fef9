package runner_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

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
