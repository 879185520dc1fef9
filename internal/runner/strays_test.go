package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
)

// lingerer is a judge, or a hook, that needs some more time to end when its own is
// over, as a command does that is killed after a grace.
type lingerer struct {
	needs time.Duration
	out   atomic.Int32
}

func (s *lingerer) end(ctx context.Context) error {
	s.out.Add(1)
	defer s.out.Add(-1)
	<-ctx.Done()
	time.Sleep(s.needs) //arch:sleep the bubble's clock
	return ctx.Err()
}

// A runner that stops leaves no judge and no hook behind: neither one that is
// asked now, nor one whose time is over.
func TestRunner_StopWaitsForWhoIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		needs time.Duration
		stop  time.Duration // after the call was due
		out   int32         // are left when the runner has stopped
		most  time.Duration // that a stop may take
	}{
		"in the middle of a call": {2 * time.Second, 500 * time.Millisecond, 0, 2 * time.Second},
		"after its time":          {2 * time.Second, 1500 * time.Millisecond, 0, 2 * time.Second},
		"one that does not end":   {time.Hour, 500 * time.Millisecond, 1, 3 * time.Second},
	} { //arch:sorted each is a case of its own
		for _, what := range []string{"judge", "context", "capture"} {
			t.Run(name+"/"+what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &lingerer{needs: c.needs}
					opt := runner.Options{Judge: &script{reply: []any{engine.Queue}}}
					switch what {
					case "judge":
						opt.Judge = judge.Func(func(ctx context.Context, _ *judge.Input) (judge.Reply, error) { return judge.Reply{}, s.end(ctx) })
					case "context":
						opt.Context = func(ctx context.Context, _ string) (judge.Context, error) { return judge.Context{}, s.end(ctx) }
					default:
						opt.Capture = func(ctx context.Context, _ string) ([]judge.Image, error) { return nil, s.end(ctx) }
					}
					w := start(t, open(t), policy("script", kinds, func(s *engine.Settings) {
						s.RetryBackoffMs, s.JudgeTimeoutMs, s.ContextTimeoutMs, s.CaptureTimeoutMs = []int64{3_600_000}, 1000, 1000, 1000
					}), opt)
					w.push("a", "ask")
					time.Sleep(c.stop) //arch:sleep the bubble's clock
					synctest.Wait()
					if s.out.Load() != 1 {
						t.Fatalf("%d are out, want 1", s.out.Load())
					}
					began := time.Now()
					w.end()
					if out, took := s.out.Load(), time.Since(began); out != c.out || took > c.most {
						t.Errorf("the stop took %v, and %d are out, want %d", took, out, c.out)
					}
					time.Sleep(2 * time.Hour) //arch:sleep the bubble's clock: who does not end, ends too
				})
			})
		}
	}
}
