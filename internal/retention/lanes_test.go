package retention_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
)

// doors takes parcels once it is open.
type doors struct {
	open atomic.Bool
	took []runner.Parcel
}

func (d *doors) Deliver(_ context.Context, p *runner.Parcel) error {
	if !d.open.Load() {
		return errors.New("the handler is down")
	}
	d.took = append(d.took, *p)
	return nil
}

// A handler of dead letters that is down for longer than steps are kept is
// given the dead letter when it is back; then its step goes.
func TestKeeper_WhatIsUndeliveredIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
			return judge.Reply{}, &judge.Error{Class: judge.Permanent, Message: "no credit"}
		})
		w := newWorld(t, broken, func(s *engine.Settings) { s.RetryBackoffMs = []int64{time.Hour.Milliseconds() / 4} })
		w.keep.Events, w.keep.Steps = time.Hour, 2*time.Hour
		d := new(doors)
		w.policy.Letters, w.opt.Deliver = "alerts", d
		w.start()
		defer func() { w.end() }()
		w.push("a", "ask:1")
		for range 4 {
			sleep(time.Hour)
			w.round()
		}
		d.open.Store(true)
		sleep(time.Hour)
		if len(d.took) != 1 || d.took[0].DeadLetter == nil || d.took[0].DeadLetter.Message != "no credit" {
			t.Fatalf("the handler was given %+v", d.took)
		}
		sleep(2 * time.Hour)
		if r := w.round(); r.Steps == 0 {
			t.Errorf("no steps are deleted once all is delivered: %+v", r)
		}
	})
}
