package retention_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/retention"
	"attend/internal/store"
)

// Whoever watches the age of the oldest record is not called because nothing is
// left, nor because another replica shortens the log.
func TestKeeper_ShowsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil).start()
		defer w.end()
		shows := func(want time.Time) {
			t.Helper()
			for _, m := range mustGather(t, w) {
				if m.GetName() == "attend_log_oldest_timestamp_seconds" {
					if got := m.GetMetric()[0].GetGauge().GetValue(); got != float64(want.UnixMilli())/1000 {
						t.Errorf("the oldest is of %v, want %v", time.UnixMilli(int64(got*1000)).UTC(), want.UTC())
					}
					return
				}
			}
			t.Error("no such metric")
		}
		begun := time.Now()
		sleep(day)
		w.push("a", "ask:1")
		w.round()
		shows(begun) // when the policy was recorded
		sleep(9 * day)
		w.round()
		w.round()
		shows(time.Now())
		sleep(day)
		w.round()
		shows(time.Now())
		w.push("a", "ask:2")
		pushed := time.Now()
		sleep(day)
		w.reg = prometheus.NewRegistry()
		w.keep.Store, w.keep.Registerer = w.store, w.reg
		w.keep.Fence = func(int) (store.Fence, bool) { return store.Fence{}, false }
		if _, err := retention.New(w.keep).Round(t.Context()); err != nil {
			t.Fatal(err)
		}
		shows(pushed)
	})
}
