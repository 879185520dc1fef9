package app_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// follower is a stream over MCP with as little of a client as there can be.
type follower struct {
	conn net.Conn
	in   *bufio.Reader
}

// follow opens events/stream and reads it up to its beginning.
func follow(b *testing.B, url string) *follower {
	b.Helper()
	address := strings.TrimPrefix(url, "http://")
	conn, err := new(net.Dialer).DialContext(b.Context(), "tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	call := `{"jsonrpc":"2.0","id":1,"method":"events/stream","params":{"name":"attention.decision"}}`
	_, err = fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nMcp-Protocol-Version: 2025-11-25\r\nContent-Length: %d\r\n\r\n%s",
		address, len(call), call)
	if err != nil {
		b.Fatal(err)
	}
	f := &follower{conn: conn, in: bufio.NewReaderSize(conn, 512)}
	if err := f.until("notifications/events/active"); err != nil {
		b.Fatal(err)
	}
	return f
}

// until reads to the end of the line that holds a text.
func (f *follower) until(text string) error {
	held := false
	for {
		piece, err := f.in.ReadSlice('\n')
		if err != nil && err != bufio.ErrBufferFull { //nolint:errorlint // as the reader returns it
			return err
		}
		held = held || bytes.Contains(piece, []byte(text))
		if held && err == nil {
			return nil
		}
	}
}

// ask posts an event that has its scope judged at once.
func ask(b *testing.B, url string, seq *atomic.Int64) {
	b.Helper()
	line := fmt.Sprintf(`{"scope":"asked","id":"ask-%d","name":"ask","text":"now?"}`, seq.Add(1))
	if err := post(http.DefaultClient, url+"/v1/ingest", []byte(line)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkStreamFanOut takes the time from posting a flush event until each of
// a thousand streams has the decision. All of them, and their clients, share
// the machine.
func BenchmarkStreamFanOut(b *testing.B) {
	const streams = 1000
	url := daemon(b)
	var seq atomic.Int64
	arrived := make(chan time.Time, streams)
	for range streams {
		f := follow(b, url)
		go func() {
			for f.until("notifications/events/event") == nil {
				arrived <- time.Now()
			}
		}()
	}
	var took, last []time.Duration
	for b.Loop() {
		begin := time.Now()
		ask(b, url, &seq)
		slowest := time.Duration(0)
		for range streams {
			one := (<-arrived).Sub(begin)
			took, slowest = append(took, one), max(slowest, one)
		}
		last = append(last, slowest)
	}
	b.ReportMetric(quantile(took, .5), "p50-ms")
	b.ReportMetric(quantile(took, .99), "p99-ms")
	b.ReportMetric(quantile(last, .5), "all-p50-ms")
}

// BenchmarkFlushToStream takes the time from posting a flush event until its
// decision can be read on an open stream, idle and under half load.
func BenchmarkFlushToStream(b *testing.B) {
	for _, busy := range []bool{false, true} {
		b.Run(fmt.Sprintf("busy=%t", busy), func(b *testing.B) {
			url := daemon(b)
			var seq atomic.Int64
			if busy {
				halfLoad(b, url, &seq)
			}
			f := follow(b, url)
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				ask(b, url, &seq)
				if err := f.until("notifications/events/event"); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(begin))
			}
			b.ReportMetric(quantile(took, .5), "p50-ms")
			b.ReportMetric(quantile(took, .99), "p99-ms")
		})
	}
}

// BenchmarkIdleStreams reports what a stream costs on which nothing comes, the
// client's side of about a kilobyte included.
func BenchmarkIdleStreams(b *testing.B) {
	const streams = 1000
	url := daemon(b)
	follow(b, url) // what is made once
	before := inUse()
	for range streams {
		follow(b, url)
	}
	var after uint64
	for b.Loop() {
		after = inUse()
	}
	b.ReportMetric(float64(after-before)/streams/1024, "KiB/stream")
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
