package sqlite_test

import (
	"path/filepath"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// BenchmarkRead measures what a start does: it reads the whole log from the
// tables, 2,000 records at a time.
func BenchmarkRead(b *testing.B) {
	const records, page = 200_000, 2000
	path := filepath.Join(b.TempDir(), "attend.db")
	w := newWorkload()
	s, err := sqlite.Open(b.Context(), path, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for range records / 1000 {
		if _, err := s.Append(b.Context(), store.Entry{Events: w.events(1000)}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	if s, err = sqlite.Open(b.Context(), path, sqlite.Options{}); err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for b.Loop() {
		for after := engine.Position(0); after < records; {
			rs, err := s.Read(b.Context(), after, page)
			if err != nil || len(rs) == 0 {
				b.Fatal(err, len(rs))
			}
			after = rs[len(rs)-1].Position
		}
	}
	b.ReportMetric(float64(b.N*records)/b.Elapsed().Seconds(), "events/s")
}
