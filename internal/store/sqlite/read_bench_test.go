package sqlite_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// workload makes events of about 300 bytes as NDJSON lines, over 20,000 scopes.
type workload struct {
	n    int
	data []byte
}

func newWorkload() *workload {
	return &workload{data: []byte(`{"by":"user-0001","tags":["a","b"],"body":"` + strings.Repeat("żółw or \\\"not\\\" ", 6) + `"}`)}
}

func (w *workload) events(n int) []store.NewEvent {
	out := make([]store.NewEvent, n)
	for i := range out {
		at := engine.Time(1_760_000_000_000 + w.n)
		out[i] = store.NewEvent{Scope: fmt.Sprintf("room:%05d", w.n*7919%20_000), Event: engine.Event{
			ID: fmt.Sprintf("evt-%012d", w.n), Name: "message.created", Kind: engine.Passive, Policy: 1,
			At: &at, Data: w.data, Text: "hello, this is what the agent should read of it",
		}}
		w.n++
	}
	return out
}

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
