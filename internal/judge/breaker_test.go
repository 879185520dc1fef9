package judge_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/judge"
)

func TestLimit_OutageIsProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		down := true
		h := &host{takes: time.Millisecond, answer: func(int) error {
			if down {
				return errors.New("connection refused")
			}
			return nil
		}}
		j := limit(t, h, judge.Limits{})
		stop := start.Add(30 * time.Minute)
		for time.Now().Before(stop) { // a window every second
			ask(t, j, "s", 20*time.Second)
			time.Sleep(time.Second)
		}
		// Five that open it; probes after 10, 20, 40, 80, 160, then every 300 s.
		if want := 5 + 5 + 4; len(h.starts) != want {
			t.Errorf("%d calls in half an hour of outage, want %d", len(h.starts), want)
		}
		for i, pause := range []float64{10, 20, 40, 80, 160, 300, 300} {
			if gap := h.starts[5+i].Sub(h.starts[4+i]).Seconds(); gap < pause || gap > pause+2 {
				t.Errorf("probe %d came after %v s, want %v", i+1, gap, pause)
			}
		}
		down = false
		e := ask(t, j, "s", 20*time.Second)
		for e != nil {
			time.Sleep(e.RetryAfter)
			e = ask(t, j, "s", 20*time.Second)
		}
		for range 20 { // it is back, for everyone
			if e := ask(t, j, "s", 20*time.Second); e != nil {
				t.Fatal(e)
			}
		}
	})
}

func TestLimit_WhatOpensTheBreaker(t *testing.T) {
	transient := errors.New("reset by peer")
	for _, c := range []struct {
		name   string
		answer func(n int) error
		calls  int // that reach the judge, of ten
	}{
		{"five in a row", func(int) error { return transient }, 5},
		{"an answer between", func(n int) error {
			if n == 5 {
				return nil
			}
			return transient
		}, 10},
		{"refusals", func(int) error { return &judge.Error{Class: judge.Refused} }, 10},
		{"a wrong key", func(int) error { return &judge.Error{Class: judge.Permanent, Status: 401} }, 10},
		{"nonsense", func(int) error { return &judge.Error{Class: judge.Malformed} }, 10},
		{"a 429 with Retry-After", func(int) error { return busy(time.Minute) }, 1},
		{"a 503 with Retry-After", func(int) error {
			return &judge.Error{Class: judge.Transient, Status: 503, RetryAfter: time.Minute}
		}, 1},
		{"a 500 with Retry-After", func(int) error {
			return &judge.Error{Class: judge.Transient, Status: 500, RetryAfter: time.Minute}
		}, 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := &host{answer: c.answer}
			j := limit(t, h, judge.Limits{})
			for range 10 {
				ask(t, j, "s", time.Second)
			}
			if len(h.starts) != c.calls {
				t.Errorf("%s: %d calls, want %d", c.name, len(h.starts), c.calls)
			}
		})
	}
}

func TestLimit_PauseOnRequestIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{answer: func(n int) error {
			if n == 1 {
				return busy(72 * time.Hour)
			}
			return nil
		}}
		j := limit(t, h, judge.Limits{})
		ask(t, j, "s", time.Second)
		wantHeld(t, ask(t, j, "s", time.Second), "asked for a pause", 5*time.Minute)
		time.Sleep(5 * time.Minute)
		if e := ask(t, j, "s", time.Second); e != nil {
			t.Errorf("after five minutes: %v", e)
		}
	})
}

func TestLimit_OneProbeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{takes: 3 * time.Second, answer: func(n int) error {
			if n == 1 {
				return busy(time.Minute)
			}
			return nil
		}}
		j := limit(t, h, judge.Limits{})
		ask(t, j, "s", time.Minute)
		time.Sleep(time.Minute)
		go func() { ask(t, j, "probe", time.Minute) }()
		synctest.Wait()
		wantHeld(t, ask(t, j, "s", time.Minute), "another call finds out", 5*time.Second)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if e := ask(t, j, "s", time.Minute); e != nil {
			t.Errorf("after the probe: %v", e)
		}
	})
}

func TestLimit_ProbeCalledOffLeavesRoomForTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{takes: time.Second, answer: func(n int) error {
			if n == 1 {
				return busy(time.Minute)
			}
			return nil
		}}
		j := limit(t, h, judge.Limits{})
		ask(t, j, "s", time.Minute)
		time.Sleep(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := j.Judge(ctx, input()); !errors.Is(err, context.Canceled) {
			t.Fatalf("got %v, want that it was called off", err)
		}
		if e := ask(t, j, "s", time.Minute); e != nil {
			t.Errorf("the next: %v", e)
		}
	})
}

// A storm: 200 windows at once on a host that takes ten calls a second and
// answers the rest with 429. Windows come back as the engine lets them: after
// RetryAfter, lengthened by a share of it that follows from the window.
func TestLimit_Storm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var second time.Time
		taken := 0
		h := &host{takes: 150 * time.Millisecond}
		h.answer = func(int) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if now := time.Now().Truncate(time.Second); !now.Equal(second) {
				second, taken = now, 0
			}
			if taken++; taken > 10 {
				return busy(2 * time.Second)
			}
			return nil
		}
		j := limit(t, h, judge.Limits{Concurrency: 4})
		const windows = 200
		var wg sync.WaitGroup
		var mu sync.Mutex
		rungs := map[int]int{} // windows by attempts that counted
		for i := range windows {
			wg.Go(func() {
				counted := 0
				for {
					e := ask(t, j, "s", 20*time.Second)
					if e == nil {
						break
					}
					wait := e.RetryAfter
					if e.Class != judge.Held {
						counted++
						wait = max(wait, time.Second)
					}
					time.Sleep(wait + wait*time.Duration(i)/(5*windows))
				}
				mu.Lock()
				rungs[counted]++
				mu.Unlock()
			})
		}
		start := time.Now()
		wg.Wait()
		if h.most > 4 {
			t.Errorf("%d calls at once, want 4 at most", h.most)
		}
		at := map[time.Time]int{}
		for _, s := range h.starts {
			at[s]++
		}
		for when, n := range at {
			if n > 4 {
				t.Errorf("%d calls began in the instant %v", n, when.Sub(start))
			}
		}
		// The ladder has five attempts: nobody may come near its end.
		for counted, n := range rungs {
			if counted > 3 {
				t.Errorf("%d windows took %d attempts", n, counted)
			}
		}
		if refused := len(h.starts) - windows; refused > windows {
			t.Errorf("%d calls were refused for %d windows", refused, windows)
		}
	})
}

// What a call that began before the opening brings tells nothing new, but that
// the judge asks for more time.
func TestLimit_LateOutcomes(t *testing.T) {
	for _, c := range []struct {
		name string
		late error
		want time.Duration // that the next call is held
	}{
		{"an answer does not close it", nil, 57 * time.Second},
		{"a failure does not open it for longer", errors.New("reset by peer"), 57 * time.Second},
		{"a shorter pause changes nothing", busy(time.Second), 57 * time.Second},
		{"a longer one does", busy(2 * time.Minute), 2 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			j := limit(t, judge.Func(func(_ context.Context, in *judge.Input) (judge.Reply, error) {
				if in.Scope == "late" {
					time.Sleep(3 * time.Second)
					return judge.Reply{}, c.late
				}
				return judge.Reply{}, busy(time.Minute)
			}), judge.Limits{})
			var wg sync.WaitGroup
			wg.Go(func() { ask(t, j, "late", time.Minute) })
			synctest.Wait()
			ask(t, j, "s", time.Minute)
			wg.Wait()
			if e := ask(t, j, "s", time.Minute); e == nil || e.RetryAfter != c.want {
				t.Errorf("%s: got %+v, want it held for %v", c.name, e, c.want)
			}
		})
	}
}
