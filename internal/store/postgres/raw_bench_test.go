package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"attend/internal/store"
	"attend/internal/store/postgres"
)

// BenchmarkAgainstRaw measures the store in a duel: rounds of it and of the
// barest durable insert take turns on one server, so that a slow spell hits
// both. Raw is one connection that inserts and commits as many events at a time
// as there are producers, by a prepared statement, into a table with a key and
// nothing beside. x/raw is the median of the store's rate by raw's.
func BenchmarkAgainstRaw(b *testing.B) {
	for _, c := range []struct{ producers, events, calls int }{{64, 1, 20}, {64, 100, 2}} {
		b.Run(fmt.Sprintf("producers=%d/events=%d", c.producers, c.events), func(b *testing.B) {
			address := servers.Database(b)
			exec(b, address, "CREATE TABLE raw (position bigserial PRIMARY KEY, scope bytea, id bytea, name bytea, data bytea, text bytea)")
			s := open(b, address, postgres.Options{Migrate: true})
			conn, err := pgx.Connect(b.Context(), address)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close(b.Context())
			var ratios []float64
			var spent time.Duration
			n := c.producers * c.events
			for b.Loop() {
				start := time.Now()
				for range c.calls {
					for at := 0; at < n; at += 2000 {
						insertRaw(b, conn, min(n-at, 2000))
					}
				}
				raw := time.Since(start)
				start = time.Now()
				var group sync.WaitGroup
				for p := range c.producers {
					group.Go(func() {
						for range c.calls {
							var e store.Entry
							for i := range c.events {
								e.Events = append(e.Events, event(fmt.Sprint("room:", p), fmt.Sprint(p, i)))
							}
							if rs, err := s.Append(b.Context(), e); err != nil || rs[0].Err != nil {
								b.Error(err, rs)
							}
						}
					})
				}
				group.Wait()
				took := time.Since(start)
				spent += took
				ratios = append(ratios, raw.Seconds()/took.Seconds())
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "x/raw")
			b.ReportMetric(float64(b.N*n*c.calls)/spent.Seconds(), "events/s")
		})
	}
}

func insertRaw(b *testing.B, conn *pgx.Conn, n int) {
	b.Helper()
	var columns [5][][]byte
	for i := range n {
		e := event(fmt.Sprint("room:", i%64), fmt.Sprint(i))
		for c, v := range []string{e.Scope, e.ID, e.Name, string(e.Data), e.Text} {
			columns[c] = append(columns[c], []byte(v))
		}
	}
	_, err := conn.Exec(b.Context(), "INSERT INTO raw (scope, id, name, data, text) SELECT * FROM unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[])",
		columns[0], columns[1], columns[2], columns[3], columns[4])
	if err != nil {
		b.Fatal(err)
	}
}
