package sqlite_test

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// rawLog is the yardstick: length and checksum before each event, one write
// and one fdatasync for a group, a file that grows.
type rawLog struct {
	f   *os.File
	buf []byte
}

func (r *rawLog) append(events []store.NewEvent) error {
	b := r.buf[:0]
	for i := range events {
		e := &events[i]
		from := len(b)
		b = append(b, make([]byte, 8)...)
		b = binary.AppendVarint(b, int64(*e.At))
		for _, s := range []string{e.Scope, e.ID, e.Name, e.Text} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
		b = append(b, e.Data...)
		binary.LittleEndian.PutUint32(b[from:], uint32(len(b)-from-8))
		binary.LittleEndian.PutUint32(b[from+4:], crc32.ChecksumIEEE(b[from+8:]))
	}
	r.buf = b
	if _, err := r.f.Write(b); err != nil {
		return err
	}
	return syscall.Fdatasync(int(r.f.Fd()))
}

// BenchmarkAppend measures the store in a duel: rounds of it and of a raw log
// take turns on the same disk, so that a slow spell hits both. x/raw is the
// median, over the rounds, of the store's rate by the raw log's. Floors: 0.50
// for groups of 1, 0.20 for 64, 0.12 for 1000.
func BenchmarkAppend(b *testing.B) {
	for _, c := range []struct{ group, round int }{{1, 50}, {64, 20}, {1000, 5}} {
		b.Run(fmt.Sprintf("group=%d", c.group), func(b *testing.B) {
			dir := b.TempDir()
			s, err := sqlite.Open(b.Context(), filepath.Join(dir, "attend.db"), sqlite.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			f, err := os.Create(filepath.Join(dir, "raw"))
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			raw := &rawLog{f: f}
			w := newWorkload()
			var ratios []float64
			var spent time.Duration
			for done := 0; done < b.N; done += c.round {
				groups := make([][]store.NewEvent, min(c.round, b.N-done))
				for i := range groups {
					groups[i] = w.events(c.group)
				}
				start := time.Now()
				for _, g := range groups {
					if err := raw.append(g); err != nil {
						b.Fatal(err)
					}
				}
				rawTook := time.Since(start)
				start = time.Now()
				for _, g := range groups {
					rs, err := s.Append(b.Context(), store.Entry{Events: g})
					if err != nil || rs[0].Err != nil {
						b.Fatal(err, rs)
					}
				}
				took := time.Since(start)
				spent += took
				ratios = append(ratios, rawTook.Seconds()/took.Seconds())
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "x/raw")
			b.ReportMetric(float64(b.N*c.group)/spent.Seconds(), "events/s")
		})
	}
}
