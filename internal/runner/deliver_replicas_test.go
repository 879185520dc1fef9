package runner_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/runner"
)

// Three replicas share a store and one sink. Whatever becomes of them, the sink
// is never called for a scope by two at once, what comes first arrives first,
// and everything arrives.
func TestDeliver_ByOneOfThreeReplicas(t *testing.T) {
	for name, ill := range map[string]func(r *replica){
		"killed":    (*replica).kill,
		"stopped":   (*replica).leave,
		"suspended": (*replica).suspend,
		"hanging":   (*replica).hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, scopes := cluster(t)
				d := &door{takes: 20 * time.Second}
				p := delivered()
				opt := runner.Options{Deliver: d}
				var all []*replica
				for i := range 3 {
					all = append(all, join(t, st, fmt.Sprint("r", i), p, opt))
				}
				settle()
				for range 2 {
					for _, scope := range scopes {
						all[0].push(scope, "ask")
					}
					time.Sleep(15 * time.Second)
				}
				ill(all[1])
				time.Sleep(time.Minute)
				all[1].wake()
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				took := d.check(t)
				for _, scope := range scopes {
					checkArrived(t, all[0].decisions(scope), took)
				}
			})
		})
	}
}

// checkArrived: each decision has arrived, the first time in its order.
func checkArrived(t *testing.T, ids, took []string) {
	t.Helper()
	last := -1
	for _, id := range ids {
		at := -1
		for i := range took {
			if took[i] == id {
				at = i
				break
			}
		}
		if at < 0 || at < last {
			t.Errorf("decision %s arrives as number %d, the one before as number %d", id, at, last)
		}
		last = at
	}
}

// A shard that moves in good order moves with its deliveries: who had it breaks
// them off, and who takes it over waits until their time is over.
func TestDeliver_ShardsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		d := &door{takes: 20 * time.Second}
		p := delivered()
		first := join(t, st, "r0", p, runner.Options{Deliver: d})
		settle()
		for _, scope := range scopes {
			first.push(scope, "ask")
		}
		time.Sleep(time.Second)
		join(t, st, "r1", p, runner.Options{Deliver: d})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		took, lost := d.check(t), 0
		for _, scope := range scopes {
			ids := first.decisions(scope)
			checkArrived(t, ids, took)
			for _, r := range first.stepsOf(scope) {
				if s := r.Step.Delivery; s != nil && s.Failed != nil && s.Failed.Why == "lost" {
					lost++
				}
			}
		}
		if lost == 0 {
			t.Error("no delivery has moved")
		}
	})
}
