package runner

import (
	"context"
	"time"

	"attend/internal/engine"
)

// watch tells the loop that the log has grown. It waits only while the loop is
// idle.
func (r *Runner) watch(ctx context.Context, idle <-chan engine.Position, grown chan<- struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case after := <-idle:
			if err := r.store.Wait(ctx, after); err != nil && sleep(ctx, maxPause) != nil {
				return
			}
			grown <- struct{}{}
		}
	}
}

// wait takes what has come from calls and writes of states. Unless there is
// more to do, it returns only when there may be.
func (r *Runner) wait(ctx context.Context, more bool, idle chan<- engine.Position, grown <-chan struct{}) {
	if came := r.takeReady(ctx, grown); came || more {
		return
	}
	r.metrics.openWindows.Set(float64(r.mem.open))
	r.metrics.scopes.Set(float64(r.mem.recent.Len()))
	if !r.watching { // else the watch is still out, and sees the same log
		idle <- engine.Position(r.applied.Load())
		r.watching = true
	}
	began := time.Now()
	timeout := time.NewTimer(0)
	defer timeout.Stop()
	for {
		left, glances := r.untilNext(time.Since(began))
		if left <= 0 {
			return
		}
		timeout.Reset(left)
		select {
		case <-timeout.C:
			if glances {
				continue
			}
		case <-ctx.Done():
		case <-grown:
			r.watching = false
		case o := <-r.outcomes:
			r.take(o)
		case a := <-r.sends.ended:
			r.takeArrival(a)
		case s := <-r.saving.done:
			r.saveDone(ctx, s)
		case c := <-r.shards.claims:
			r.takeClaim(ctx, c)
		case at := <-r.shards.covers:
			r.takeCovers(at)
		}
		return
	}
}

// takeReady takes all that has come, without waiting. Its order is fixed, and
// outcomes of calls go first: they share the next append, and what the log says
// does not hang on which of two things that were ready a select picks.
func (r *Runner) takeReady(ctx context.Context, grown <-chan struct{}) (came bool) {
	for ; ; came = true {
		select {
		case o := <-r.outcomes:
			r.take(o)
			continue
		default:
		}
		select {
		case a := <-r.sends.ended:
			r.takeArrival(a)
			continue
		default:
		}
		select {
		case s := <-r.saving.done:
			r.saveDone(ctx, s)
			continue
		default:
		}
		select {
		case at := <-r.shards.covers:
			r.takeCovers(at)
			continue
		default:
		}
		select {
		case <-grown:
			r.watching = false
		default:
			return came
		}
	}
}

// glance is how long a deadline is waited for before the clock is read again. A
// timer stands still while the machine is suspended, and knows nothing of a
// clock that was set forward: what became due meanwhile is due within this time.
const glance = 250 * time.Millisecond

// untilNext is how long nothing becomes due, given how long nothing has; glances
// says that only the clock is to be read then.
func (r *Runner) untilNext(waited time.Duration) (left time.Duration, glances bool) {
	left = min(longestWait, r.opt.CheckpointInterval)
	if r.mem.recent.Len() > r.opt.MaxScopes {
		left = min(left, evictEvery)
	}
	left -= waited
	if len(r.mem.wakes) > 0 {
		ms := int64(r.mem.wakes[0].wake) - r.now()
		left = min(left, time.Duration(max(ms, 0))*time.Millisecond)
	}
	if left > glance && len(r.mem.wakes) > 0 {
		return glance, true
	}
	return left, false
}

// now is the store's clock in Unix milliseconds: the one clock of stamps and
// deadlines.
func (r *Runner) now() int64 { return r.store.Now().UnixMilli() }
