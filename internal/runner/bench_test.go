package runner_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/postgres/pgtest"
	"attend/internal/store/sqlite"
)

// many is how many scopes, and records, these benchmarks take. They are run
// once: -benchtime=1x.
const many = 1_000_000

// stores opens the same empty store again and again: what a restart finds.
func stores(b *testing.B, run func(b *testing.B, open func(*testing.B) (store.Store, store.Leases))) {
	b.Run("sqlite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "attend.db")
		run(b, func(b *testing.B) (store.Store, store.Leases) {
			st, err := sqlite.Open(b.Context(), path, sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			return st, nil
		})
	})
	b.Run("postgres", func(b *testing.B) {
		cluster, err := pgtest.NewCluster()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = cluster.Remove() })
		run(b, func(b *testing.B) (store.Store, store.Leases) {
			st, err := postgres.Open(b.Context(), cluster.URL(), postgres.Options{Migrate: true})
			if err != nil {
				b.Fatal(err)
			}
			return st, st
		})
	})
}

// loaded runs a runner on a store, with a policy by which nothing settles
// before an hour has passed.
func loaded(b *testing.B, st store.Store, leases store.Leases) (r *runner.Runner, inMemory func() int, stop func()) {
	b.Helper()
	p := policy("rule", map[string]engine.Kind{"log": engine.Passive}, func(s *engine.Settings) {
		s.PassiveQuietMs, s.MaxWindowMs = 3_600_000, 7_200_000
	})
	if err := p.Compile(); err != nil {
		b.Fatal(err)
	}
	if err := runner.EnsurePolicy(b.Context(), st, &p); err != nil {
		b.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	r = runner.New(runner.Options{
		Store: st, Leases: leases, Replica: "a", Compile: judge.Compile, Registerer: registry,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return r, func() int { return gauge(b, registry, "attend_scopes_in_memory") }, func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	}
}

func gauge(b *testing.B, registry *prometheus.Registry, name string) int {
	b.Helper()
	families, err := registry.Gather()
	if err != nil {
		b.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	b.Fatalf("there is no metric %s", name)
	return 0
}

// fill appends one event for each of many scopes, times over.
func fill(b *testing.B, st store.Store, scopes, times int) {
	b.Helper()
	const group = 1000
	for n := 0; n < scopes*times; n += group {
		events := make([]store.NewEvent, group)
		for i := range events {
			events[i] = store.NewEvent{Scope: fmt.Sprintf("room:%07d", (n+i)%scopes), Event: engine.Event{
				ID: fmt.Sprintf("evt-%08d", n+i), Name: "log", Kind: engine.Passive, Policy: 1, Text: "hello, this is what the agent should read of it",
			}}
		}
		if receipts, err := st.Append(b.Context(), store.Entry{Events: events}); err != nil || receipts[0].Err != nil {
			b.Fatal(err, receipts)
		}
	}
}

func until(b *testing.B, what string, done func() bool) {
	b.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.After(5 * time.Minute)
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			b.Fatalf("still not: %s", what)
		}
	}
}

func heap(collect bool) float64 {
	if collect {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// peak is the highest heap, garbage included, until it is asked for.
func peak() (end func() float64) {
	stop, highest := make(chan struct{}), make(chan float64)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		most := 0.0
		for {
			select {
			case <-tick.C:
				most = max(most, heap(false))
			case <-stop:
				highest <- most
				return
			}
		}
	}()
	return func() float64 { close(stop); return <-highest }
}

// BenchmarkOpenScopes measures what a million open windows of one and of ten
// events keep in memory while the daemon runs, and the peak on the way there.
// The floor that the project has set itself is a heap of 0.5 GB.
func BenchmarkOpenScopes(b *testing.B) {
	for _, events := range []int{1, 10} {
		b.Run(fmt.Sprint("events=", events), func(b *testing.B) {
			stores(b, func(b *testing.B, open func(*testing.B) (store.Store, store.Leases)) {
				for b.Loop() {
					before := heap(true)
					st, leases := open(b)
					r, inMemory, stop := loaded(b, st, leases)
					until(b, "ready", func() bool { return r.Ready(b.Context()) == nil })
					highest := peak()
					fill(b, st, many, events)
					until(b, "ready", func() bool { return r.Ready(b.Context()) == nil })
					until(b, "evicted", func() bool { n := inMemory(); return n > 0 && n <= runner.DefaultMaxScopes })
					b.ReportMetric(highest()/1e6, "peak-MB")
					used := heap(true) - before
					b.ReportMetric(used/many, "B/scope")
					b.ReportMetric(used/1e6, "MB")
					stop()
					_ = st.Close()
				}
			})
		})
	}
}

// BenchmarkRestart_1M measures a start that finds a million records behind the
// checkpoint: until everything is folded and the daemon is ready. The floor is
// 5 s.
func BenchmarkRestart_1M(b *testing.B) {
	for _, scopes := range []int{20_000, many} {
		b.Run(fmt.Sprint("scopes=", scopes), func(b *testing.B) {
			stores(b, func(b *testing.B, open func(*testing.B) (store.Store, store.Leases)) {
				st, leases := open(b)
				_, _, stop := loaded(b, st, leases) // writes the policy
				stop()
				fill(b, st, scopes, many/scopes)
				_ = st.Close()
				b.ResetTimer()
				for b.Loop() {
					st, leases := open(b)
					highest := peak()
					r, _, stop := loaded(b, st, leases)
					until(b, "ready", func() bool { return r.Ready(b.Context()) == nil })
					b.ReportMetric(b.Elapsed().Seconds(), "s/start")
					b.ReportMetric(highest()/1e6, "peak-MB")
					b.StopTimer()
					stop()
					_ = st.Close()
					b.StartTimer()
				}
			})
		})
	}
}
