package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

// refusing is a store that takes no writes for a while, as on a full disk.
type refusing struct {
	store.Store
	refuses atomic.Bool
}

func (s *refusing) Append(ctx context.Context, e ...store.Entry) ([]store.Receipt, error) {
	if s.refuses.Load() {
		return nil, store.ErrUnavailable
	}
	return s.Store.Append(ctx, e...)
}

// TestReady_NotWhileNothingSettles: a fold that is at the head of the log is
// no comfort while its settles cannot be written.
func TestReady_NotWhileNothingSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &refusing{Store: open(t)}
		w := start(t, st, policy("rule", kinds), runner.Options{})
		w.push("a", "done")
		st.refuses.Store(true)
		time.Sleep(time.Duration(engine.Defaults().ClosingGraceMs)*time.Millisecond + 4*time.Second)
		if err := w.Ready(t.Context()); err != nil {
			t.Errorf("after 4 s without a write: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := w.Ready(t.Context()); err == nil {
			t.Error("ready after 6 s in which nothing could be settled")
		}
		st.refuses.Store(false)
		time.Sleep(2 * time.Second)
		if err := w.Ready(t.Context()); err != nil {
			t.Errorf("once it writes again: %v", err)
		}
	})
}
