package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
)

// host is a judge that takes its time and counts who is with it.
type host struct {
	mu     sync.Mutex
	took   time.Duration
	answer func(scope string, call int) error // nil answers queue
	inside int
	most   int
	order  []string               // scopes, as they were asked
	at     map[string][]time.Time // of each scope's calls
}

func (h *host) Judge(ctx context.Context, in *judge.Input) (judge.Reply, error) {
	h.mu.Lock()
	h.inside++
	h.most = max(h.most, h.inside)
	h.order = append(h.order, in.Scope)
	if h.at == nil {
		h.at = make(map[string][]time.Time)
	}
	h.at[in.Scope] = append(h.at[in.Scope], time.Now())
	call := len(h.at[in.Scope])
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.inside--
		h.mu.Unlock()
	}()
	select {
	case <-time.After(h.took):
	case <-ctx.Done():
		return judge.Reply{}, ctx.Err()
	}
	if h.answer != nil {
		if err := h.answer(in.Scope, call); err != nil {
			return judge.Reply{}, err
		}
	}
	return judge.Reply{Answer: engine.Answer{Route: engine.Queue}}, nil
}

// A judge that is too busy is asked by no more than maxCalls at once, and those
// that it sent away with the same time do not come back together.
func TestRunner_StormOfScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scopes, places = 200, 16
		h := &host{took: 20 * time.Millisecond, answer: func(_ string, call int) error {
			if call == 1 {
				return &judge.Error{Class: judge.Transient, Message: "too many requests", Status: 429, RetryAfter: 30 * time.Second}
			}
			return nil
		}}
		w := start(t, open(t), policy("host", kinds), runner.Options{Judge: h, MaxCalls: places})
		for i := range scopes {
			w.push(fmt.Sprint("s", i), "ask")
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.end()
		if h.most != places {
			t.Errorf("%d calls ran at once, want %d", h.most, places)
		}
		seconds := make(map[int64]int)
		for i := range scopes {
			scope := fmt.Sprint("s", i)
			w.want(scope, "settled flush 1", "call 1", "failed error", "call 2", "decision queue")
			calls := h.at[scope]
			if waited := calls[1].Sub(calls[0]); waited < 30*time.Second || waited > 37*time.Second {
				t.Errorf("%s came back after %v", scope, waited)
			}
			seconds[calls[1].Unix()]++
		}
		for at, n := range seconds { //arch:sorted each is looked at by itself
			if n > scopes*2/3 {
				t.Errorf("%d of %d came back in second %d", n, scopes, at)
			}
		}
	})
}

// Windows get their places in the order in which they have become due; what is
// tried again stands in line anew. Waiting takes none of a call's time.
func TestRunner_PlacesGoByTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{took: 900 * time.Millisecond, answer: func(scope string, call int) error {
			if scope == "a" && call == 1 {
				return errors.New("reset")
			}
			return nil
		}}
		w := start(t, open(t), policy("host", kinds, func(s *engine.Settings) {
			s.JudgeTimeoutMs, s.RetryBackoffMs = 1000, []int64{0}
		}), runner.Options{Judge: h, MaxCalls: 1})
		for _, scope := range []string{"a", "b", "c", "d"} {
			w.push(scope, "ask")
			synctest.Wait()
		}
		w.want("d", "settled flush 1") // a call that waits does not stand in the log
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a", "b", "c", "d", "a"}, h.order); diff != "" {
			t.Errorf("order (-want +got):\n%s", diff)
		}
		w.want("a", "settled flush 1", "call 1", "failed error", "call 2", "decision queue")
		for _, scope := range []string{"b", "c", "d"} {
			w.want(scope, "settled flush 1", "call 1", "decision queue")
		}
	})
}

// A window that waits for a place is left to the next start as it is.
func TestRunner_StopWhileWindowsWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t)
		h := &host{took: time.Hour}
		slow := policy("host", kinds, func(s *engine.Settings) { s.JudgeTimeoutMs = 7200_000 })
		w := start(t, st, slow, runner.Options{Judge: h, MaxCalls: 1})
		w.push("a", "ask")
		synctest.Wait()
		w.push("b", "ask")
		time.Sleep(time.Second)
		synctest.Wait()
		w.end()
		w.want("a", "settled flush 1", "call 1", "failed stopped")
		w.want("b", "settled flush 1")
		w = start(t, st, slow, runner.Options{Judge: &host{took: time.Second}, MaxCalls: 1})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		w.want("a", "settled flush 1", "call 1", "failed stopped", "call 1", "decision queue")
		w.want("b", "settled flush 1", "call 1", "decision queue")
	})
}

// Flushes that arrive while a judge is down cut one wait short, and no more: the
// ladder is not burnt by them.
func TestRunner_OutageWithFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{took: 10 * time.Millisecond, answer: func(string, int) error { return errors.New("connection refused") }}
		w := start(t, open(t), policy("host", kinds), runner.Options{Judge: h})
		w.push("a", "ask")
		for range 1200 {
			time.Sleep(100 * time.Millisecond)
			w.push("a", "ask")
			synctest.Wait()
		}
		w.end()
		var first []string
		for _, step := range w.steps("a")[1:] {
			if first = append(first, step); step == "deadLetter" {
				break
			}
		}
		calls := 0
		for _, step := range first {
			if len(step) > 4 && step[:4] == "call" {
				calls++
			}
		}
		if want := len(engine.Defaults().RetryBackoffMs) + 2; calls != want || !slices.Contains(first, "deadLetter") {
			t.Errorf("%d calls about the first window, want %d: %v", calls, want, first)
		}
	})
}

// A judge that cannot be asked for a while takes no attempt from the window.
func TestRunner_HeldAttemptsDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{answer: func(_ string, call int) error {
			if call <= 10 {
				return &judge.Error{Class: judge.Held, Message: "the breaker is open", RetryAfter: 10 * time.Second}
			}
			return nil
		}}
		w := start(t, open(t), policy("host", kinds), runner.Options{Judge: h})
		w.push("a", "ask")
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		want := []string{"settled flush 1"}
		for range 10 {
			want = append(want, "call 1", "failed held")
		}
		w.want("a", append(want, "call 1", "decision queue")...)
	})
}
