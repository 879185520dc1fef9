package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
	"attend/internal/store"
)

func (w *world) stepsOf(scope string) []engine.Record {
	w.t.Helper()
	recs, err := w.store.Steps(context.Background(), store.StepQuery{Scope: scope})
	if err != nil {
		w.t.Fatal(err)
	}
	return recs
}

// callFacts are the facts that the calls of a scope stand in the log with.
func (w *world) callFacts(scope string) (facts []string) {
	w.t.Helper()
	for _, r := range w.stepsOf(scope) {
		if r.Step.Call != nil {
			facts = append(facts, string(r.Step.Call.Facts))
		}
	}
	return facts
}

func TestRunner_FactsAreFetchedForEveryCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: []any{errors.New("no route to host"), engine.Queue}}
		var fetches atomic.Int32
		facts := func(_ context.Context, scope string) (judge.Context, error) {
			return judge.Context{Facts: fmt.Appendf(nil, `{"scope":%q,"fetch":%d}`, scope, fetches.Add(1))}, nil
		}
		w := start(t, open(t), policy("script", kinds), runner.Options{Judge: s, Context: facts, Record: true})
		w.push("a", "ask")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		w.want("a", "settled flush 1", "call 1", "failed error", "call 2", "decision queue")
		for i, want := range []string{`{"scope":"a","fetch":1}`, `{"scope":"a","fetch":2}`} {
			if got := string(s.seen[i].Facts); got != want {
				t.Errorf("call %d: the judge saw %s, want %s", i+1, got, want)
			}
			if got := w.callFacts("a")[i]; got != want {
				t.Errorf("call %d stands in the log with %s, want %s", i+1, got, want)
			}
		}
	})
}

func TestRunner_FactsNeverFailACall(t *testing.T) {
	type hook = func(context.Context, string) (judge.Context, error)
	hang := func(ctx context.Context, _ string) (judge.Context, error) {
		<-ctx.Done()
		return judge.Context{Facts: json.RawMessage(`{"late":1}`)}, ctx.Err()
	}
	deaf := func(context.Context, string) (judge.Context, error) {
		time.Sleep(time.Hour)
		return judge.Context{}, nil
	}
	give := func(s string, err error) hook {
		return func(context.Context, string) (judge.Context, error) {
			return judge.Context{Facts: json.RawMessage(s)}, err
		}
	}
	for _, c := range []struct {
		name  string
		facts hook
		trace string
		seen  string
	}{
		{"nothing", give("", nil), "", ""},
		{"failed", give("", errors.New("the Field\ncannot be read")), `the Field\ncannot be read`, ""},
		{"failed in part", give(`{"half":1}`, errors.New("the Field cannot be read")), "the Field cannot be read", `{"half":1}`},
		{"late", hang, "no answer within contextTimeoutMs (2000)", ""},
		{"deaf", deaf, "no answer within contextTimeoutMs (2000)", ""},
		{"not an object", give("[1]", nil), "the facts are not a JSON object", ""},
		{"not JSON", give("{", nil), "the facts are not a JSON object", ""},
		{"too large", give(`{"a":"`+strings.Repeat("x", 64<<10)+`"}`, nil), "the facts have 65544 bytes: at most 65536", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{reply: []any{engine.Queue}}
				w := start(t, open(t), policy("script", kinds), runner.Options{Judge: s, Context: c.facts})
				w.push("a", "ask")
				time.Sleep(3 * time.Second)
				synctest.Wait()
				w.end()
				want := []string{"settled flush 1", "call 1", "decision queue"}
				if c.trace != "" {
					want = []string{"settled flush 1", "trace", "call 1", "decision queue"}
				}
				w.want("a", want...)
				if got := string(s.seen[0].Facts); got != c.seen {
					t.Errorf("the judge saw %s, want %s", got, c.seen)
				}
				for _, r := range w.stepsOf("a") {
					if r.Step.Trace != nil && !strings.Contains(r.Step.Trace.Message, c.trace) {
						t.Errorf("the trace says %q, want %q in it", r.Step.Trace.Message, c.trace)
					}
				}
				time.Sleep(2 * time.Hour) // who is deaf ends, too
			})
		})
	}
}

// Questions of a hook have a bound, each and together: what passes it is left out
// and told, and the rest is asked.
func TestRunner_QuestionsAreBounded(t *testing.T) {
	many := func(n, bytes int) (all []engine.Predicate) {
		for i := range n {
			all = append(all, engine.Predicate{Name: fmt.Sprintf("q%03d", i), Question: strings.Repeat("x", bytes-4)})
		}
		return all
	}
	for _, c := range []struct {
		name  string
		asks  []engine.Predicate
		asked int
		trace string
	}{
		{"all fit", many(4, 4<<10), 4, ""},
		{"a long one", append(many(1, 4<<10+1), engine.Predicate{Name: "short", Question: "Is it?"}), 1, `of the context hook's questions 1 are left out, "q000" first: one may have 4096 bytes, all together 16384`},
		{"a long name", []engine.Predicate{{Name: strings.Repeat("n", 1<<20), Question: "Is it?"}}, 0, `1 are left out, "nnn`},
		{"many", many(199, 1<<10), 16, `183 are left out, "q016" first`},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{reply: []any{engine.Queue}}
				w := start(t, open(t), policy("script", kinds), runner.Options{Judge: s, Context: func(context.Context, string) (judge.Context, error) {
					return judge.Context{Predicates: c.asks}, nil
				}})
				w.push("a", "ask")
				synctest.Wait()
				w.end()
				if n := len(s.seen[0].Predicates); n != c.asked {
					t.Errorf("%d questions are asked, want %d", n, c.asked)
				}
				var told []string
				for _, r := range w.stepsOf("a") {
					if r.Step.Trace != nil {
						told = append(told, r.Step.Trace.Message)
					}
				}
				if c.trace == "" && len(told) > 0 || c.trace != "" && (len(told) != 1 || !strings.Contains(told[0], c.trace)) {
					t.Errorf("told %.300q, want %q", told, c.trace)
				}
			})
		})
	}
}

// A flush that comes while facts are fetched for a window neither calls twice
// nor loses anything, and a stop leaves the window for the next start.
func TestRunner_StopWhileFactsAreFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t)
		slowly := func(ctx context.Context, _ string) (judge.Context, error) {
			select {
			case <-time.After(time.Second):
				return judge.Context{Facts: json.RawMessage(`{"slow":true}`)}, nil
			case <-ctx.Done():
				return judge.Context{}, ctx.Err()
			}
		}
		s := &script{reply: []any{engine.Queue}}
		w := start(t, st, policy("script", kinds), runner.Options{Judge: s, Context: slowly})
		w.push("a", "ask")
		time.Sleep(500 * time.Millisecond)
		w.push("a", "ask")
		synctest.Wait()
		w.want("a", "settled flush 1")
		w.end()
		w.want("a", "settled flush 1")
		w = start(t, st, policy("script", kinds), runner.Options{Judge: s, Context: slowly})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.want("a", "settled flush 1", "call 1", "decision queue", "settled flush 1", "call 1", "decision queue")
		if len(s.seen) != 2 {
			t.Errorf("%d calls, want 2", len(s.seen))
		}
	})
}

// A pure judge is asked by the fold, and is shown nothing.
func TestRunner_FactsAreNotFetchedForAPureJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		facts := func(context.Context, string) (judge.Context, error) {
			t.Error("the facts were fetched")
			return judge.Context{}, nil
		}
		w := start(t, open(t), policy("rule", kinds), runner.Options{Context: facts, Compile: judge.Compile})
		w.push("a", "ask")
		synctest.Wait()
		w.want("a", "settled flush 1", "decision interrupt")
	})
}
