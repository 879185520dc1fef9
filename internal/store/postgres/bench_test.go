package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
)

// event is an event of about 200 bytes.
func event(scope, id string) store.NewEvent {
	at := engine.Time(1_760_000_000_000)
	return store.NewEvent{Scope: scope, Event: engine.Event{
		ID: id, Name: "message.created", Kind: engine.Passive, Policy: 1, At: &at,
		Data: []byte(`{"by":"user-01","channel":"general","thread":"1760000000.000100","client":"web"}`),
		Text: "Could somebody look at the export? It has been running since this morning.",
	}}
}

// report gives percentiles, in milliseconds.
func report(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
}

// BenchmarkGroupCommit has producers append side by side, each as soon as its
// last append was answered. Floors: 64 x 1: 20,000 events/s, p99 15 ms;
// 64 x 100: 40,000 events/s, p99 250 ms.
func BenchmarkGroupCommit(b *testing.B) {
	for _, c := range []struct{ stores, producers, events int }{{1, 1, 1}, {1, 64, 1}, {1, 64, 100}, {2, 64, 1}, {2, 64, 100}} {
		b.Run(fmt.Sprintf("stores=%d/producers=%d/events=%d", c.stores, c.producers, c.events), func(b *testing.B) {
			address := servers.Database(b)
			stores := make([]*postgres.Store, c.stores)
			for i := range stores {
				stores[i] = open(b, address, postgres.Options{Migrate: true})
			}
			var group sync.WaitGroup
			took := make([][]time.Duration, c.producers)
			calls := b.N/c.producers + 1
			b.ResetTimer()
			for p := range c.producers {
				group.Go(func() {
					s := stores[p%len(stores)]
					for n := range calls {
						var e store.Entry
						for i := range c.events {
							e.Events = append(e.Events, event(fmt.Sprintf("room:%d", (p*31+n)%20_000), fmt.Sprintf("%d-%d-%d", p, n, i)))
						}
						start := time.Now()
						rs, err := s.Append(b.Context(), e)
						if err != nil || rs[0].Err != nil {
							b.Error(err, rs)
							return
						}
						took[p] = append(took[p], time.Since(start))
					}
				})
			}
			group.Wait()
			b.StopTimer()
			report(b, slices.Concat(took...))
			b.ReportMetric(float64(c.producers*calls*c.events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkTail measures from an append on one replica until another one, that
// waits, has read it.
func BenchmarkTail(b *testing.B) {
	address := servers.Database(b)
	from := open(b, address, postgres.Options{Migrate: true})
	to := open(b, address, postgres.Options{})
	hear(b, from, to)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		rs, err := from.Append(b.Context(), store.Entry{Events: []store.NewEvent{event("a", "1")}})
		if err != nil {
			b.Fatal(err)
		}
		if err := to.Wait(b.Context(), rs[0].Last-1); err != nil {
			b.Fatal(err)
		}
		if got, err := to.Read(b.Context(), rs[0].Last-1, 1); err != nil || len(got) != 1 {
			b.Fatal(got, err)
		}
		took = append(took, time.Since(start))
	}
	report(b, took)
}

// hear returns once what one store appends reaches another by notification: a
// look comes ten times a second at most.
func hear(b *testing.B, from, to store.Log) {
	b.Helper()
	for {
		rs, err := from.Append(b.Context(), store.Entry{Events: []store.NewEvent{event("a", "0")}})
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := to.Wait(b.Context(), rs[0].Last-1); err != nil {
			b.Fatal(err)
		}
		if time.Since(start) < 10*time.Millisecond {
			return
		}
	}
}

// BenchmarkTakeOver measures a claim that takes every shard from a replica that
// has died, with a log behind it.
func BenchmarkTakeOver(b *testing.B) {
	s := open(b, servers.Database(b), postgres.Options{Migrate: true})
	var took []time.Duration
	for n := 0; b.Loop(); n++ {
		if err := s.Release(b.Context(), fmt.Sprint("replica ", n)); err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		c, err := s.Claim(b.Context(), fmt.Sprint("replica ", n+1), time.Minute)
		if err != nil || len(c.Fences) != engine.Shards {
			b.Fatal(err, c)
		}
		took = append(took, time.Since(start))
	}
	report(b, took)
}
