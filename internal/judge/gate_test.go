package judge_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
)

// heldFor is how long a judge's gate holds calls, 0 for not at all.
func heldFor(t *testing.T, j judge.Judge) time.Duration {
	t.Helper()
	e := judge.HeldBy(j)
	if e == nil {
		return 0
	}
	if e.Class != judge.Held || e.RetryAfter <= 0 {
		t.Fatalf("got %+v, want a call that is held", e)
	}
	return e.RetryAfter
}

// When a pause is over one of many is let through to be the probe.
func TestGate_Breaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := true
		h := &host{answer: func(int) error {
			if down {
				return busy(time.Minute)
			}
			return nil
		}}
		j := limit(t, h, judge.Limits{})
		if got := heldFor(t, j); got != 0 {
			t.Errorf("held for %v before any call", got)
		}
		ask(t, j, "s", time.Second)
		if got := heldFor(t, j); got != time.Minute {
			t.Errorf("held for %v, want the pause", got)
		}
		time.Sleep(time.Minute)
		let := 0
		for range 200 {
			if heldFor(t, j) == 0 {
				let++
			}
		}
		if let != 1 {
			t.Errorf("%d of 200 were let through, want one", let)
		}
		time.Sleep(5 * time.Second) // that one has not come
		if got := heldFor(t, j); got != 0 {
			t.Errorf("held for %v: nobody can be the probe", got)
		}
		down = false
		if e := ask(t, j, "s", time.Second); e != nil {
			t.Fatal(e)
		}
		if got := heldFor(t, j); got != 0 {
			t.Errorf("held for %v after an answer", got)
		}
	})
}

func TestGate_Budget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := limit(t, &host{}, judge.Limits{DailyCalls: 1})
		ask(t, j, "s", time.Second)
		if got := heldFor(t, j); got != 24*time.Hour {
			t.Errorf("held for %v, want until midnight", got)
		}
	})
}

func TestGate_Composition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spent := func(pause time.Duration) judge.Judge {
			j := limit(t, &host{answer: func(int) error { return busy(pause) }}, judge.Limits{})
			ask(t, j, "s", time.Second)
			return j
		}
		short, long, free := spent(time.Minute), spent(3*time.Minute), says(engine.Note)
		for name, c := range map[string]struct {
			of   judge.Composition
			want time.Duration
		}{
			"one":                          {judge.Composition{{Name: "a", Judge: long}}, 3 * time.Minute},
			"all, the shortest counts":     {judge.Composition{{Name: "a", Judge: long, OnErrorNext: true}, {Name: "b", Judge: short}}, time.Minute},
			"the last is free":             {judge.Composition{{Name: "a", Judge: long, OnErrorNext: true}, {Name: "b", Judge: free}}, 0},
			"the first is free":            {judge.Composition{{Name: "a", Judge: free, Below: 0.5}, {Name: "b", Judge: long}}, 0},
			"the first ends the attempt":   {judge.Composition{{Name: "a", Judge: long, Below: 0.5}, {Name: "b", Judge: free}}, 3 * time.Minute},
			"it may be another's turn":     {judge.Composition{{Name: "a", Judge: long, When: when(true, nil)}, {Name: "b", Judge: free}}, 0},
			"whoever's turn it is is held": {judge.Composition{{Name: "a", Judge: long, When: when(true, nil)}, {Name: "b", Judge: short}}, time.Minute},
		} {
			if got := heldFor(t, compose(t, c.of)); got != c.want {
				t.Errorf("%s: held for %v, want %v", name, got, c.want)
			}
		}
	})
}

// Windows for which there is no turn come back one by one, each when there may
// be one, and not all together again and again.
func TestLimit_TurnedAwayInTurn(t *testing.T) {
	for name, limits := range map[string]judge.Limits{"perSecond": {PerSecond: 2}, "concurrency": {Concurrency: 1}} {
		synctest.Test(t, func(t *testing.T) {
			h := &host{takes: 500 * time.Millisecond}
			j := limit(t, h, limits)
			const windows = 200
			var wg sync.WaitGroup
			var mu sync.Mutex
			held := 0
			for range windows {
				wg.Go(func() {
					for {
						e := ask(t, j, "s", 20*time.Second)
						if e == nil {
							return
						}
						mu.Lock()
						held++
						mu.Unlock()
						time.Sleep(e.RetryAfter)
					}
				})
			}
			start := time.Now()
			wg.Wait()
			if took := time.Since(start); took > 130*time.Second {
				t.Errorf("%s: took %v for 200 calls at two a second", name, took)
			}
			if held > windows {
				t.Errorf("%s: %d calls were held for %d windows", name, held, windows)
			}
		})
	}
}

// A judge without a gate holds nothing.
func TestGate_NoGate(t *testing.T) {
	if e := judge.HeldBy(judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
		return judge.Reply{}, errors.New("no")
	})); e != nil {
		t.Errorf("got %v", e)
	}
}
