package retention_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/retention"
	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// BenchmarkAppendBesideRetention measures how long producers wait for 50 events
// while the log is left alone and while it is being shortened, in turns on one
// disk. Four producers append all the time; the log always holds as much as can
// be deleted in a turn.
func BenchmarkAppendBesideRetention(b *testing.B) {
	const preload, turn, producers, events = 300_000, 200, 4, 50
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "attend.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	fence, err := s.Own(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var ids atomic.Int64
	entry := func(n int) store.Entry {
		e := store.Entry{Events: make([]store.NewEvent, n)}
		for i := range e.Events {
			id := ids.Add(1)
			e.Events[i] = store.NewEvent{Scope: fmt.Sprint("scope-", id%1000), Event: engine.Event{
				ID: fmt.Sprintf("evt-%016x", id), Name: "ci.log.line", Kind: engine.Consequence, Policy: 1,
				Text: "compiling package 17 of 93: internal/store/sqlite", Data: []byte(`{"run":481516,"step":"build","line":2342,"level":"info"}`),
			}}
		}
		return e
	}
	for range preload / 2000 {
		if _, err := s.Append(b.Context(), entry(2000)); err != nil {
			b.Fatal(err)
		}
	}
	keeper := retention.New(retention.Options{
		Store: s, Fence: func(int) (store.Fence, bool) { return fence, true }, Events: time.Millisecond, Steps: time.Millisecond,
	})
	var quiet, beside []time.Duration
	deleted, spent := 0, time.Duration(0)
	for b.Loop() {
		quiet = append(quiet, producing(b, s, entry, producers, turn, events)...)
		head, err := s.Head(b.Context())
		if err == nil {
			err = s.SaveStates(b.Context(), fence, nil, head.Position)
		}
		if err != nil {
			b.Fatal(err)
		}
		var ended atomic.Bool
		var keeping sync.WaitGroup
		keeping.Go(func() {
			start := time.Now()
			r, err := keeper.Round(b.Context())
			if err != nil {
				b.Error(err)
			}
			deleted, spent = deleted+r.Events, spent+time.Since(start)
			ended.Store(true)
		})
		for !ended.Load() {
			beside = append(beside, producing(b, s, entry, producers, turn/10, events)...)
		}
		keeping.Wait()
	}
	report := func(name string, d []time.Duration) {
		slices.Sort(d)
		b.ReportMetric(float64(d[len(d)/2].Microseconds())/1000, name+"-p50-ms")
		b.ReportMetric(float64(d[len(d)*99/100].Microseconds())/1000, name+"-p99-ms")
	}
	report("quiet", quiet)
	report("beside", beside)
	b.ReportMetric(float64(deleted)/spent.Seconds(), "deleted/s")
	b.ReportMetric(0, "ns/op")
}

// producing appends n times from each producer, and returns how long each took.
func producing(b *testing.B, s store.Store, entry func(int) store.Entry, producers, n, events int) []time.Duration {
	all := make([][]time.Duration, producers)
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for range n {
				e := entry(events)
				start := time.Now()
				rs, err := s.Append(b.Context(), e)
				if err != nil || rs[0].Err != nil {
					b.Error(err, rs)
				}
				all[p] = append(all[p], time.Since(start))
			}
		})
	}
	wg.Wait()
	return slices.Concat(all...)
}
