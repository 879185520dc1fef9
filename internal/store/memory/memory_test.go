package memory_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
	"attend/internal/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(_ *testing.T, now func() time.Time) store.Store {
		return memory.New(memory.Options{Now: now})
	})
}

// TestBubble_WaitBlocksDurably shows that the store can be used where time is
// faked: a Wait inside a bubble is idle, so the bubble's clock moves on.
func TestBubble_WaitBlocksDurably(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Options{})
		woken := make(chan time.Time, 1)
		go func() {
			if err := s.Wait(t.Context(), 0); err != nil {
				t.Errorf("wait: %v", err)
			}
			woken <- time.Now()
		}()
		time.Sleep(time.Hour)
		before := time.Now()
		rs, err := s.Append(t.Context(), store.Entry{Steps: []engine.Step{{Kind: engine.StepFlush}}, Scope: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if at := <-woken; !at.Equal(before) {
			t.Errorf("woken at %v, appended at %v", at, before)
		}
		if rs[0].Stamp != engine.Time(before.UnixMilli()) {
			t.Errorf("stamp %d is not the bubble's time %d", rs[0].Stamp, before.UnixMilli())
		}
	})
}

func TestRegister_CountsAppendsAndShowsTheHead(t *testing.T) {
	s := memory.New(memory.Options{})
	r := prometheus.NewPedanticRegistry()
	if err := s.Register(r); err != nil {
		t.Fatal(err)
	}
	if err := s.Register(r); err == nil {
		t.Error("the metrics were registered twice")
	}
	for range 3 {
		if _, err := s.Append(t.Context(), store.Entry{Steps: []engine.Step{{Kind: engine.StepFlush}}, Scope: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	families, err := r.Gather()
	if err != nil || len(families) != 2 {
		t.Fatalf("%d metrics, %v; want 2", len(families), err)
	}
	for _, f := range families {
		m := f.GetMetric()[0]
		switch f.GetName() {
		case "attend_log_position":
			if got := m.GetGauge().GetValue(); got != 3 {
				t.Errorf("position %v, want 3", got)
			}
		case "attend_log_append_duration_seconds":
			if got := m.GetHistogram().GetSampleCount(); got != 3 {
				t.Errorf("%d appends measured, want 3", got)
			}
		}
	}
	if problems, err := promlint.NewWithMetricFamilies(families).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}
