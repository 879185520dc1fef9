package judge_test

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"attend/internal/engine"
	"attend/internal/judge"
)

// host is a judge that counts who asks it, and when.
type host struct {
	mu     sync.Mutex
	out    int // calls at this moment
	most   int
	starts []time.Time
	order  []string // of the scopes, as their calls began
	answer func(n int) error
	takes  time.Duration
	calls  []engine.Exchange
}

func (h *host) Judge(ctx context.Context, in *judge.Input) (judge.Reply, error) {
	h.mu.Lock()
	h.out++
	h.most = max(h.most, h.out)
	h.starts = append(h.starts, time.Now())
	h.order = append(h.order, in.Scope)
	n := len(h.starts)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.out--
		h.mu.Unlock()
	}()
	select {
	case <-time.After(h.takes):
	case <-ctx.Done():
		return judge.Reply{}, ctx.Err()
	}
	if h.answer != nil {
		if err := h.answer(n); err != nil {
			return judge.Reply{}, err
		}
	}
	return judge.Reply{Answer: engine.Answer{Route: engine.Queue}, Calls: h.calls}, nil
}

// busy is a 429 with Retry-After.
func busy(after time.Duration) error {
	return &judge.Error{Class: judge.Transient, Message: "busy", Status: http.StatusTooManyRequests, RetryAfter: after}
}

func limit(t *testing.T, j judge.Judge, l judge.Limits) judge.Judge {
	t.Helper()
	out, err := judge.Limit("a", j, l)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// ask asks with a time limit, and returns the failure, nil for an answer.
func ask(t *testing.T, j judge.Judge, scope string, timeout time.Duration) *judge.Error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	in := input()
	in.Scope = scope
	_, err := j.Judge(ctx, in)
	if err == nil {
		return nil
	}
	var e *judge.Error
	if !errors.As(err, &e) {
		e = &judge.Error{Class: judge.Transient, Message: err.Error()}
	}
	return e
}

// wantHeld checks that a call is held, and for how long.
func wantHeld(t *testing.T, e *judge.Error, why string, after time.Duration) {
	t.Helper()
	if e == nil || e.Class != judge.Held || e.RetryAfter != after || !strings.Contains(e.Message, why) {
		t.Errorf("got %+v; want it held for %v, since %q", e, after, why)
	}
}

func TestLimit_PlacesFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{takes: time.Second}
		j := limit(t, h, judge.Limits{Concurrency: 2})
		var wg sync.WaitGroup
		for _, scope := range []string{"1", "2", "3", "4", "5", "6"} {
			wg.Go(func() { ask(t, j, scope, time.Minute) })
			synctest.Wait()
		}
		wg.Wait()
		if h.most != 2 {
			t.Errorf("%d calls at once, want 2", h.most)
		}
		slices.Sort(h.order[2:4]) // at one instant two places came free
		slices.Sort(h.order[4:])
		if got := strings.Join(h.order, ""); got != "123456" {
			t.Errorf("they came in the order %s: want two after two", got)
		}
	})
}

func TestLimit_NoPlaceIsHeldWithTimeToSpare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{takes: time.Minute}
		j := limit(t, h, judge.Limits{Concurrency: 1})
		go func() { ask(t, j, "first", time.Hour) }()
		synctest.Wait()
		start := time.Now()
		wantHeld(t, ask(t, j, "second", 20*time.Second), "no place", 2*time.Second)
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("waited %v, want half of its time", took)
		}
		time.Sleep(time.Hour)
	})
}

func TestLimit_CalledOffWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := limit(t, &host{takes: time.Minute}, judge.Limits{Concurrency: 1})
		go func() { ask(t, j, "first", time.Hour) }()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := j.Judge(ctx, input()); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want that it was called off", err)
		}
		time.Sleep(time.Hour)
	})
}

func TestLimit_RateSpacesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{}
		j := limit(t, h, judge.Limits{PerSecond: 4})
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { ask(t, j, "s", time.Minute) })
		}
		wg.Wait()
		for i := 1; i < len(h.starts); i++ {
			if gap := h.starts[i].Sub(h.starts[i-1]).Round(time.Millisecond); gap != 250*time.Millisecond {
				t.Errorf("call %d came %v after the one before it, want 250ms", i, gap)
			}
		}
		if len(h.starts) != 10 {
			t.Errorf("%d calls, want 10", len(h.starts))
		}
		// The next turn is in 250 ms, which is more than half of this call's time.
		if e := ask(t, j, "s", 400*time.Millisecond); e == nil || e.Class != judge.Held || e.RetryAfter.Round(time.Millisecond) != 250*time.Millisecond {
			t.Errorf("got %+v, want it held for 250ms", e)
		}
	})
}

func TestLimit_DayOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // the bubble's clock starts at midnight, UTC
		h := &host{calls: []engine.Exchange{{}, {}}} // two requests a call
		j := limit(t, h, judge.Limits{DailyCalls: 4})
		time.Sleep(time.Hour)
		for range 2 {
			if e := ask(t, j, "s", time.Second); e != nil {
				t.Fatal(e)
			}
		}
		wantHeld(t, ask(t, j, "s", time.Second), "dailyCalls", 23*time.Hour)
		time.Sleep(23 * time.Hour)
		if e := ask(t, j, "s", time.Second); e != nil {
			t.Errorf("on the next day: %v", e)
		}
		if len(h.starts) != 3 {
			t.Errorf("the judge was called %d times, want 3", len(h.starts))
		}
	})
}

func TestLimit_DayOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failed := &judge.Error{Class: judge.Malformed, Message: "no", Calls: []engine.Exchange{{InputTokens: 60, OutputTokens: 10}}}
		h := &host{calls: []engine.Exchange{{InputTokens: 20, OutputTokens: 10}}, answer: func(n int) error {
			if n == 1 {
				return failed // what a failed call took counts too
			}
			return nil
		}}
		j := limit(t, h, judge.Limits{DailyTokens: 100})
		if e := ask(t, j, "s", time.Second); e == nil || e.Class != judge.Malformed {
			t.Fatalf("got %v, want the judge's own failure", e)
		}
		if e := ask(t, j, "s", time.Second); e != nil {
			t.Fatal(e)
		}
		wantHeld(t, ask(t, j, "s", time.Second), "dailyTokens", 24*time.Hour)
	})
}

// A call that is out at midnight counts where it ends, and what was spent before
// counts no more.
func TestLimit_OverMidnight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &host{calls: []engine.Exchange{{InputTokens: 60}}, takes: 2 * time.Second}
		j := limit(t, h, judge.Limits{DailyTokens: 100})
		time.Sleep(24*time.Hour - 5*time.Second)
		for range 2 { // until one second before midnight
			if e := ask(t, j, "s", time.Minute); e != nil {
				t.Fatal(e)
			}
		}
		wantHeld(t, ask(t, j, "s", time.Minute), "dailyTokens", time.Second)
		time.Sleep(time.Second)
		for range 2 {
			if e := ask(t, j, "s", time.Minute); e != nil {
				t.Fatalf("on the next day: %v", e)
			}
		}
		wantHeld(t, ask(t, j, "s", time.Minute), "dailyTokens", 24*time.Hour-4*time.Second)

		time.Sleep(24*time.Hour - 5*time.Second) // one second before midnight
		wantHeld(t, ask(t, j, "s", time.Minute), "dailyTokens", time.Second)
		time.Sleep(time.Second)
		if e := ask(t, j, "s", time.Minute); e != nil {
			t.Fatal(e)
		}
		time.Sleep(24*time.Hour - 3*time.Second) // one second before midnight again
		if e := ask(t, j, "s", time.Minute); e != nil {
			t.Fatal(e)
		}
		if e := ask(t, j, "s", time.Minute); e != nil { // the 60 tokens of the call over midnight leave room for one
			t.Fatalf("after the call over midnight: %v", e)
		}
		wantHeld(t, ask(t, j, "s", time.Minute), "dailyTokens", 24*time.Hour-3*time.Second)
	})
}

// What a host says of its tokens cannot give a budget back, or wrap it around.
func TestLimit_TokensThatAreNone(t *testing.T) {
	for name, said := range map[string]engine.Exchange{
		"negative": {InputTokens: -1_000_000, OutputTokens: -5},
		"huge":     {InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64},
	} { //arch:sorted each is a case of its own
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &host{answer: func(int) error { return nil }}
				j := limit(t, h, judge.Limits{DailyTokens: 100})
				for _, calls := range [][]engine.Exchange{{{InputTokens: 99}}, {said}, {{InputTokens: 1}}} {
					h.calls = calls
					_ = ask(t, j, "s", time.Second) // the last is held where the one before spent it all
				}
				wantHeld(t, ask(t, j, "s", time.Second), "dailyTokens", 24*time.Hour)
			})
		})
	}
}

func TestLimit_HeldInACompositionAsksTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := limit(t, &host{}, judge.Limits{DailyCalls: 1})
		j := compose(t, judge.Composition{{Name: "a", Judge: first, OnErrorNext: true}, {Name: "b", Judge: says(engine.Note)}})
		for _, want := range []string{"a answered", "a held, b answered"} {
			reply, err := j.Judge(t.Context(), input())
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(told(reply.Calls), ", "); got != want {
				t.Errorf("the record says %s, want %s", got, want)
			}
		}
	})
}

func TestLimit_Metrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewPedanticRegistry()
		metrics, err := judge.NewMetrics(reg)
		if err != nil {
			t.Fatal(err)
		}
		h := &host{answer: func(n int) error {
			if n == 1 {
				return busy(time.Minute)
			}
			return nil
		}}
		j := limit(t, h, judge.Limits{Metrics: metrics, DailyCalls: 2})
		open := func(want string) {
			t.Helper()
			text := "# HELP attend_judge_breaker_open 1 while a configured judge is left alone because it failed or asked for a pause, and is asked by probes alone; else 0.\n" +
				"# TYPE attend_judge_breaker_open gauge\nattend_judge_breaker_open{judge=\"a\"} " + want + "\n"
			if err := testutil.GatherAndCompare(reg, strings.NewReader(text), "attend_judge_breaker_open"); err != nil {
				t.Error(err)
			}
		}
		open("0")
		ask(t, j, "s", time.Second)
		ask(t, j, "s", time.Second)
		open("1")
		time.Sleep(time.Minute)
		ask(t, j, "s", time.Second)
		ask(t, j, "s", time.Second)
		open("0")
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v %v", problems, err)
		}
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "why" {
						got[l.GetValue()] = m.GetCounter().GetValue()
					}
				}
			}
		}
		if len(got) != 6 || got["breaker"] != 1 || got["dailyCalls"] != 1 {
			t.Errorf("held: %v, want one by the breaker, one by dailyCalls, and a series for each of six", got)
		}
	})
}

func TestLimit_RefusesWhatIsNoLimit(t *testing.T) {
	for _, l := range []judge.Limits{{Concurrency: -1}, {PerSecond: -1}, {PerSecond: math.NaN()}, {PerSecond: math.Inf(1)}, {DailyCalls: -1}, {DailyTokens: -1}} {
		if _, err := judge.Limit("a", &host{}, l); err == nil || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("%+v: got %v, want an error that names the judge", l, err)
		}
	}
}
