package fields_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store/sqlite"
)

// BenchmarkWrite measures how long one writer waits for each write on SQLite,
// with and without subscriptions that all ask different questions about the
// topic that is written to, so that each is concerned by every write. Beside
// the latencies it tells how often each subscription was evaluated: at most
// once a second.
func BenchmarkWrite(b *testing.B) {
	for _, subscriptions := range []int{0, 1000} {
		for _, writers := range []int{1, 64} {
			b.Run(fmt.Sprintf("subscriptions=%d/writers=%d", subscriptions, writers), func(b *testing.B) {
				benchmarkWrite(b, subscriptions, writers)
			})
		}
	}
}

func benchmarkWrite(b *testing.B, subscriptions, writers int) {
	st, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "attend.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	r := prometheus.NewRegistry()
	s := open(b, st, func(o *fields.Options) { o.Registerer = r })
	defer s.Close()
	for i := range 1000 { // something to rank
		do[field.Written](b, s, "", field.OpWrite, note(fmt.Sprint("agent", i%50), fmt.Sprint("topic", i%10), "n", i))
	}
	ctx, cancel := context.WithCancel(b.Context())
	var watching sync.WaitGroup
	for i := range subscriptions {
		sub, err := s.Subscribe(ctx, field.OpAttune, "", params("agent", fmt.Sprint("reader", i), "topic", "topic0", "max_units", 20))
		if err != nil {
			b.Fatal(err)
		}
		watching.Go(func() {
			defer sub.Close()
			var mark fields.Mark
			for {
				seen, err := sub.Next(ctx, mark)
				if err != nil {
					return
				}
				mark = seen.Mark
			}
		})
	}
	took := make([]time.Duration, b.N)
	var writing sync.WaitGroup
	start := time.Now()
	b.ResetTimer()
	for w := range writers {
		writing.Go(func() {
			for i := w; i < b.N; i += writers {
				at := time.Now()
				do[field.Written](b, s, "", field.OpWrite, note("gull", "topic0", "n", i))
				took[i] = time.Since(at)
			}
		})
	}
	writing.Wait()
	b.StopTimer()
	seconds := time.Since(start).Seconds()
	cancel()
	watching.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[b.N/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[b.N*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(b.N)/seconds, "writes/s")
	if subscriptions > 0 {
		b.ReportMetric(counted(b, r, "attend_field_evaluations_total")/float64(subscriptions)/seconds, "evaluations/s/subscription")
	}
}
