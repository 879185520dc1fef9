package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/judge"
	"attend/internal/runner"
)

// An outage of ten minutes, and 200 scopes that wait for its end. However often
// it is looked whether the judge is back, hooks are asked for calls alone, and a
// window that waits leaves one trace.
func TestRunner_HeldWindowsLeaveOneTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scopes = 200
		var down atomic.Bool
		down.Store(true)
		h := &host{took: 10 * time.Millisecond, answer: func(string, int) error {
			if down.Load() {
				return errors.New("connection refused")
			}
			return nil
		}}
		limited, err := judge.Limit("host", h, judge.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		j, err := judge.Compose(judge.Composition{{Name: "host", Judge: limited}})
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int64
		hook := func(context.Context, string) (judge.Context, error) {
			asked.Add(1)
			return judge.Context{}, nil
		}
		w := start(t, open(t), policy("host", kinds), runner.Options{Judge: j, Context: hook, MaxCalls: 5})
		for i := range scopes {
			w.push(fmt.Sprint("s", i), "ask")
		}
		time.Sleep(10 * time.Minute)
		down.Store(false)
		time.Sleep(12 * time.Minute)
		synctest.Wait()
		w.end()
		calls, traces := 0, 0
		for i := range scopes {
			all := w.steps(fmt.Sprint("s", i))
			if all[len(all)-1] != "decision queue" {
				t.Errorf("s%d ended with %v", i, all)
			}
			for _, step := range all {
				if strings.HasPrefix(step, "call") {
					calls++
				}
				if step == "trace" {
					traces++
				}
			}
		}
		if n := len(h.order); calls > n+5 {
			t.Errorf("%d calls stand in the log, and the judge was asked %d times", calls, n)
		}
		if got := asked.Load(); got != int64(calls) {
			t.Errorf("the hook was asked %d times for %d calls", got, calls)
		}
		if traces > scopes+20 { // one more for each attempt that a probe took
			t.Errorf("%d traces of %d windows", traces, scopes)
		}
	})
}

// A window that waits at the gate is told of once, by its reason, and called
// when the time has come.
func TestRunner_HeldByABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited, err := judge.Limit("host", &host{}, judge.Limits{DailyCalls: 1})
		if err != nil {
			t.Fatal(err)
		}
		w := start(t, open(t), policy("host", kinds), runner.Options{Judge: judge.Named("host", limited)})
		w.push("a", "ask")
		synctest.Wait()
		w.push("b", "ask")
		time.Sleep(23 * time.Hour)
		synctest.Wait()
		w.want("b", "settled flush 1", "trace")
		trace := w.stepsOf("b")[1].Step.Trace
		if trace.Name != "judgeHeld" || !strings.Contains(trace.Message, "dailyCalls are spent") || trace.Fields["retryAfterMs"] != "60000" {
			t.Errorf("the trace says %+v", trace)
		}
		time.Sleep(time.Hour + 2*time.Minute)
		synctest.Wait()
		w.want("b", "settled flush 1", "trace", "call 1", "decision queue")
	})
}
