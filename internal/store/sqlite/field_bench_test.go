package sqlite_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// fieldWorkload makes appends of one change each, about as large as the
// workload's events, to many Fields in turn.
type fieldWorkload struct {
	fields, n int
	last      []int64
	body      []byte
}

func newFieldWorkload(fields, size int) *fieldWorkload {
	return &fieldWorkload{fields: fields, last: make([]int64, fields), body: bytes.Repeat([]byte("x"), size)}
}

func (w *fieldWorkload) entries(n int) []store.Entry {
	out := make([]store.Entry, n)
	for i := range out {
		f := w.n * 7919 % w.fields
		out[i] = store.Entry{Field: &store.FieldAppend{
			Name: fmt.Sprintf("field-%05d", f), After: w.last[f], Changes: []store.FieldChange{{Format: 1, Body: w.body}},
		}}
		w.last[f]++
		w.n++
	}
	return out
}

// BenchmarkAppendField measures appends to Fields in a duel with appends of
// events, an entry for each: rounds of both take turns on the same store, so
// that a slow spell hits both. x/events is the median, over the rounds, of the
// changes' rate by the events'.
func BenchmarkAppendField(b *testing.B) {
	for _, c := range []struct{ fields, size, group, round int }{
		{1, 300, 1, 50}, {1, 300, 64, 20}, {1, 300, 1000, 5}, {1000, 300, 64, 20}, {1, 2000, 64, 20}, {1000, 2000, 64, 20},
	} {
		b.Run(fmt.Sprintf("fields=%d/bytes=%d/group=%d", c.fields, c.size, c.group), func(b *testing.B) {
			s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "attend.db"), sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			events, changes := newWorkload(), newFieldWorkload(c.fields, c.size)
			if c.size > 1000 {
				events.data = fmt.Appendf(nil, "%q", bytes.Repeat([]byte("x"), c.size-100))
			}
			var ratios []float64
			var spent time.Duration
			for done := 0; done < b.N; done += c.round {
				n := min(c.round, b.N-done)
				calls := [2][][]store.Entry{make([][]store.Entry, n), make([][]store.Entry, n)}
				for i := range n {
					for _, e := range events.events(c.group) {
						calls[0][i] = append(calls[0][i], store.Entry{Events: []store.NewEvent{e}})
					}
					calls[1][i] = changes.entries(c.group)
				}
				var took [2]time.Duration
				for k := range calls {
					start := time.Now()
					for _, entries := range calls[k] {
						appendAll(b, s, entries)
					}
					took[k] = time.Since(start)
				}
				spent += took[1]
				ratios = append(ratios, took[0].Seconds()/took[1].Seconds())
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "x/events")
			b.ReportMetric(float64(b.N*c.group)/spent.Seconds(), "changes/s")
		})
	}
}

func appendAll(b *testing.B, s store.Log, entries []store.Entry) {
	b.Helper()
	rs, err := s.Append(b.Context(), entries...)
	if err != nil {
		b.Fatal(err)
	}
	for i := range rs {
		if rs[i].Err != nil {
			b.Fatal(rs[i].Err)
		}
	}
}

// BenchmarkReadField measures what a start does: it reads a whole Field that
// was written among a hundred others, 1,000 changes at a time.
func BenchmarkReadField(b *testing.B) {
	const fields, each = 100, 2000
	path := filepath.Join(b.TempDir(), "attend.db")
	w := newFieldWorkload(fields, 300)
	s, err := sqlite.Open(b.Context(), path, sqlite.Options{Synchronous: sqlite.SynchronousNormal})
	if err != nil {
		b.Fatal(err)
	}
	for range fields * each / 1000 {
		appendAll(b, s, w.entries(1000))
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if s, err = sqlite.Open(b.Context(), path, sqlite.Options{}); err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	read := 0
	for b.Loop() {
		read += readField(b.Context(), b, s, fmt.Sprintf("field-%05d", read/each%fields))
	}
	b.ReportMetric(float64(read)/b.Elapsed().Seconds(), "changes/s")
}

func readField(ctx context.Context, b *testing.B, s store.Fields, name string) (n int) {
	b.Helper()
	for {
		page, err := s.FieldChanges(ctx, name, int64(n), 1000)
		if err != nil {
			b.Fatal(err)
		}
		if len(page) == 0 {
			return n
		}
		n += len(page)
	}
}
