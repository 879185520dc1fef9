package runner_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// trouble is one thing that happens to replicas, after a pause.
type trouble struct {
	verb  string
	who   int // of those that are there
	pause time.Duration
}

func (o trouble) String() string { return fmt.Sprintf("+%s %s %d", o.pause, o.verb, o.who) }

func drawTrouble(t *rapid.T) []trouble {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) trouble {
		return trouble{
			verb:  rapid.SampledFrom([]string{"push", "push", "push", "ask", "kill", "stop", "suspend", "hang", "wake", "join", "join"}).Draw(t, "verb"),
			who:   rapid.IntRange(0, 7).Draw(t, "who"),
			pause: time.Duration(rapid.SampledFrom([]int{0, 1, 7, 300, 999, 2000, 5000, 12000}).Draw(t, "pause")) * time.Millisecond,
		}
	}), 5, 40).Draw(t, "trouble")
}

// TestReplicas_EveryEventIsDecidedOnce: whatever happens to replicas while
// events flow and the judge is slow, each event ends in one window, and each
// window in one decision or dead letter.
func TestReplicas_EveryEventIsDecidedOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		what := drawTrouble(rt)
		seed := rapid.IntRange(0, 1000).Draw(rt, "seed")
		var fault string
		synctest.Test(t, func(t *testing.T) { fault = underTrouble(t, what, seed) })
		if fault != "" {
			rt.Fatalf("%s", fault)
		}
	})
}

func underTrouble(t *testing.T, what []trouble, seed int) (fault string) {
	st, _ := cluster(t)
	var judged atomic.Int64
	opt := func() runner.Options {
		return runner.Options{
			Logger: slog.New(slog.DiscardHandler), LeaseTTL: 6 * time.Second,
			CheckpointRecords: 1 + seed%7*10, MaxScopes: 3 + seed%20,
			Judge: judge.Func(func(ctx context.Context, in *judge.Input) (judge.Reply, error) {
				n := judged.Add(1)*7919 + int64(seed)
				select {
				case <-time.After(time.Duration(n%9) * 700 * time.Millisecond):
				case <-ctx.Done():
					return judge.Reply{}, ctx.Err()
				}
				if n%5 == 0 && in.Window.Waits == 0 && len(in.Routes) == 6 {
					return judge.Reply{Answer: engine.Answer{Route: engine.Wait}}, nil
				}
				return judge.Reply{Answer: engine.Answer{Route: engine.Queue}}, nil
			}),
		}
	}
	var there []*replica
	joined := 0
	enter := func() {
		joined++
		p := policy("script", kinds, func(s *engine.Settings) {
			s.WaitHorizonMs, s.RetryBackoffMs = 10_000, []int64{500, 1000, 2000, 4000}
		})
		there = append(there, join(t, st, fmt.Sprint("r", joined), p, opt()))
	}
	enter()
	enter()
	pushed := 0
	for _, o := range what {
		time.Sleep(o.pause)
		if len(there) == 0 {
			enter()
		}
		i := o.who % len(there)
		r := there[i]
		switch o.verb {
		case "push", "ask":
			name := map[string]string{"push": "done", "ask": "ask"}[o.verb]
			for k := range 6 {
				pushed++
				events := []store.NewEvent{{Scope: fmt.Sprint("scope-", (o.who*3+k)%12), Event: engine.Event{ID: fmt.Sprint("e", pushed), Name: name, Kind: kinds[name], Policy: 1}}}
				if _, err := st.Append(t.Context(), store.Entry{Events: events}); err != nil {
					t.Fatal(err)
				}
			}
		case "kill", "stop":
			if o.verb == "kill" {
				r.kill()
			} else {
				r.leave()
			}
			there = append(there[:i], there[i+1:]...)
		case "suspend":
			r.suspend()
		case "hang":
			r.hang()
		case "wake":
			r.wake()
		case "join":
			if len(there) < 4 {
				enter()
			}
		}
	}
	for _, r := range there {
		r.wake()
	}
	enter()
	time.Sleep(90 * time.Second)
	synctest.Wait()
	return account(t, st, pushed)
}

// account says what is wrong with the log, once nothing is open any more.
func account(t *testing.T, st *memory.Store, pushed int) string {
	recs, err := st.Read(t.Context(), 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	var faults []string
	settled := make(map[string]*engine.Settled)
	final := make(map[string]int)
	in := make(map[engine.Position][]string)
	for i := range recs {
		s := recs[i].Step
		if s == nil {
			continue
		}
		switch s.Kind {
		case engine.StepSettled:
			if settled[s.Window] != nil && s.Settled.Held == "" {
				faults = append(faults, "settled twice: "+s.Window)
			}
			settled[s.Window] = s.Settled
		case engine.StepDecision, engine.StepDeadLetter:
			final[s.Window]++
			if final[s.Window] > 1 {
				faults = append(faults, "decided twice: "+s.Window)
			}
			for _, p := range settled[s.Window].Events {
				in[p] = append(in[p], s.Window)
			}
		}
	}
	events := 0
	for i := range recs {
		if recs[i].Event == nil {
			continue
		}
		events++
		if windows := in[recs[i].Position]; len(windows) != 1 {
			faults = append(faults, fmt.Sprintf("the event %s of %s is in windows %v", recs[i].Event.ID, recs[i].Scope, windows))
		}
	}
	if events != pushed {
		faults = append(faults, fmt.Sprintf("%d events in the log, %d were pushed", events, pushed))
	}
	return strings.Join(faults, "\n")
}
