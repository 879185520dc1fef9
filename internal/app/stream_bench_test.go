package app_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkStreams takes the time from posting a flush event to its decision
// on each of a thousand open streams, and the memory of a stream that waits
// (an upper bound: the client's half is in it).
func BenchmarkStreams(b *testing.B) {
	const streams = 1000
	url := daemon(b)
	runtime.GC()
	before := inUse()
	got := make(chan time.Time, streams)
	for range streams {
		openStream(b, strings.TrimPrefix(url, "http://"), got)
	}
	for range streams {
		<-got // it has told where it begins
	}
	runtime.GC()
	idle := float64(inUse()-before) / streams / (1 << 10)

	var seq atomic.Int64
	var took, last []time.Duration
	for b.Loop() {
		line := fmt.Sprintf(`{"scope":"asked","id":"ask-%d","name":"ask","text":"now?"}`, seq.Add(1))
		begin := time.Now()
		if err := post(http.DefaultClient, url+"/v1/ingest", []byte(line)); err != nil {
			b.Fatal(err)
		}
		var slowest time.Duration
		for range streams {
			d := (<-got).Sub(begin)
			took, slowest = append(took, d), max(slowest, d)
		}
		last = append(last, slowest)
	}
	b.ReportMetric(quantile(took, .5), "p50-ms")
	b.ReportMetric(quantile(took, .99), "p99-ms")
	b.ReportMetric(quantile(last, .5), "last-p50-ms")
	b.ReportMetric(idle, "KiB/stream")
}

// openStream opens one over a bare connection, and tells when each of its
// blocks has come.
func openStream(b *testing.B, address string, got chan<- time.Time) {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /v1/decisions/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		b.Fatal(err)
	}
	go func() {
		buf := make([]byte, 2<<10)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			for range bytes.Count(buf[:n], []byte("\n\n")) {
				got <- time.Now()
			}
		}
	}()
}

func inUse() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}
