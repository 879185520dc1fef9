package runner_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// jumping is a wall clock that is set, while timers go on as they were: what a
// suspend looks like to a process, and a clock that is put right.
type jumping struct{ by atomic.Int64 }

func (j *jumping) jump(by time.Duration) { j.by.Add(int64(by)) }

func (j *jumping) now() time.Time {
	// Without the monotonic reading, which would jump too.
	return time.Now().Add(time.Duration(j.by.Load())).Round(0)
}

// waking is within what time the daemon must act on a deadline that passed while
// it could not.
const waking = time.Second

func onJumpingClock(t *testing.T, test func(w *world, clock *jumping)) {
	synctest.Test(t, func(t *testing.T) {
		clock := new(jumping)
		st := memory.New(memory.Options{Now: clock.now})
		t.Cleanup(func() { _ = st.Close() })
		test(start(t, st, policy("rule", kinds, func(s *engine.Settings) { s.ClosingGraceMs = 60_000; s.MaxWindowMs = 3_600_000 }), runner.Options{}), clock)
	})
}

// A machine that sleeps for 90 s over a deadline: within a second of its waking
// the window is settled, and not before.
func TestClock_ADeadlineThatPassedInASuspend(t *testing.T) {
	onJumpingClock(t, func(w *world, clock *jumping) {
		w.push("a", "done")
		w.push("b", "log")           // waits for nothing
		time.Sleep(10 * time.Second) //arch:sleep the bubble's clock
		synctest.Wait()
		clock.jump(49 * time.Second)
		time.Sleep(999 * time.Millisecond) //arch:sleep the bubble's clock
		synctest.Wait()
		w.want("a")
		clock.jump(41 * time.Second)
		time.Sleep(waking) //arch:sleep the bubble's clock
		synctest.Wait()
		w.want("a", "settled closing 1", "decision queue")
		recs, err := w.store.Steps(w.t.Context(), store.StepQuery{Scope: "a", Kinds: []engine.StepKind{engine.StepSettled}})
		if err != nil || len(recs) != 1 {
			w.t.Fatal(recs, err)
		}
		first, err := w.store.Events(w.t.Context(), recs[0].Step.Settled.Events)
		if err != nil {
			w.t.Fatal(err)
		}
		if due := recs[0].Step.Settled.Due; due != first[0].Stamp+60_000 || recs[0].Stamp < due {
			w.t.Errorf("due at %d, written at %d; its event came at %d", due, recs[0].Stamp, first[0].Stamp)
		}
	})
}

// A clock that is set back, or back and forth: stamps do not fall, and the
// window settles when its time has gone by.
func TestClock_SetBack(t *testing.T) {
	for name, jumps := range map[string][]time.Duration{
		"by a second":    {-time.Second},
		"by an hour":     {-time.Hour},
		"back and forth": {-time.Hour, time.Hour, -time.Minute, time.Minute, -90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			onJumpingClock(t, func(w *world, clock *jumping) {
				before := w.push("a", "done").Stamp
				began := time.Now()
				for _, by := range jumps {
					time.Sleep(3 * time.Second) //arch:sleep the bubble's clock
					clock.jump(by)
					if r := w.push("other", "log"); r.Stamp < before {
						w.t.Errorf("after %v the stamp falls from %d to %d", by, before, r.Stamp)
					} else {
						before = r.Stamp
					}
				}
				// A clock without a monotonic reading stands still at each jump back.
				time.Sleep(60*time.Second + waking - time.Since(began)) //arch:sleep the bubble's clock
				time.Sleep(time.Duration(len(jumps)) * 3 * time.Second) //arch:sleep the bubble's clock
				synctest.Wait()
				w.want("a", "settled closing 1", "decision queue")
			})
		})
	}
}
