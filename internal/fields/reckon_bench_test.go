package fields_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store/memory"
)

// wide is an entry of as many keys as one may have, all equal.
func wide(i int) []byte {
	var keys strings.Builder
	for k := range field.MaxKeys - 1 {
		fmt.Fprintf(&keys, `,"key%d":"a value that takes a while to compare"`, k)
	}
	return fmt.Appendf(nil, `{"agent":"agent%d","intent":"so that the others know","entry":{"topic":"wide"%s}}`, i%7, keys.String())
}

// BenchmarkReckon_Wide reckons the dearest there is: entries of which no two
// differ.
func BenchmarkReckon_Wide(b *testing.B) {
	for _, entries := range []int{100, 400, field.MaxReckoned} {
		b.Run(fmt.Sprint("entries=", entries), func(b *testing.B) {
			s := wideField(b, entries)
			for b.Loop() {
				do[field.Reckoned](b, s, "", field.OpReckon, params("agent", "mara", "max_units", entries))
			}
		})
	}
}

// BenchmarkWrite_BesideReckons tells how long a write waits while eight callers
// reckon all the time.
func BenchmarkWrite_BesideReckons(b *testing.B) {
	for _, readers := range []int{0, 8} {
		b.Run(fmt.Sprint("readers=", readers), func(b *testing.B) {
			s := wideField(b, 400)
			ctx, cancel := context.WithCancel(b.Context())
			var reading sync.WaitGroup
			for range readers {
				reading.Go(func() {
					for ctx.Err() == nil {
						_, _ = s.Do(ctx, "", field.OpReckon, params("agent", "mara", "topic", "wide", "max_units", 400))
					}
				})
			}
			var took []time.Duration
			for b.Loop() {
				start := time.Now()
				do[field.Written](b, s, "", field.OpWrite, note("gull", "narrow"))
				took = append(took, time.Since(start))
			}
			cancel()
			reading.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
			b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
		})
	}
}

func wideField(b *testing.B, entries int) *fields.Service {
	s := open(b, memory.New(memory.Options{}))
	b.Cleanup(s.Close)
	for i := range entries {
		do[field.Written](b, s, "", field.OpWrite, wide(i))
	}
	return s
}
