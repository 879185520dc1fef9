package app_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"attend/internal/app"
	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/ingest"
	"attend/internal/store"
)

// The figures of docs/performance.md come from here: make bench. Each
// benchmark runs its candidates in turns within one run, since these figures
// mean something only as ratios on a machine that others use too.

const benchKinds = `{"log.*":"consequence","ask":"flush","done":"closing"}`

// daemon runs the whole daemon on a file in a temporary folder.
func daemon(b *testing.B) (url string) {
	b.Helper()
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	config.Flags(flags)
	err := flags.Parse([]string{"--port", "0", "--store", "sqlite:" + filepath.Join(b.TempDir(), "attend.db"), "--kinds", benchKinds})
	if err != nil {
		b.Fatal(err)
	}
	cfg, err := config.Load(flags, nil)
	if err != nil {
		b.Fatal(err)
	}
	listening := make(chan net.Addr, 1)
	a, err := app.New(b.Context(), cfg, app.Options{Listening: func(at net.Addr) { listening <- at }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	b.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return "http://" + (<-listening).String()
}

// rawLog is the yardstick: the same HTTP front and decoder over a file, one
// write and one fdatasync for a group of what waits.
type rawLog struct {
	store.Log
	requests chan rawRequest
}

type rawRequest struct {
	entries []store.Entry
	done    chan error
}

func (l *rawLog) Append(_ context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	r := rawRequest{entries, make(chan error, 1)}
	l.requests <- r
	return make([]store.Receipt, len(entries)), <-r.done
}

func (l *rawLog) run(f *os.File) {
	var group []rawRequest
	var buf bytes.Buffer
	for first := range l.requests {
		group = append(group[:0], first)
		for more := true; more && len(group) < 2000; {
			select {
			case r := <-l.requests:
				group = append(group, r)
			default:
				more = false
			}
		}
		buf.Reset()
		for _, r := range group {
			for i := range r.entries {
				for j := range r.entries[i].Events {
					e := &r.entries[i].Events[j]
					at := buf.Len()
					buf.Write(make([]byte, 8))
					for _, s := range []string{e.Scope, e.ID, e.Name, e.Text, string(e.Data)} {
						buf.WriteString(s)
						buf.WriteByte(0)
					}
					body := buf.Bytes()[at+8:]
					binary.LittleEndian.PutUint32(buf.Bytes()[at:], uint32(len(body)))
					binary.LittleEndian.PutUint32(buf.Bytes()[at+4:], crc32.ChecksumIEEE(body))
				}
			}
		}
		_, err := f.Write(buf.Bytes())
		if err == nil {
			err = fdatasync(f)
		}
		for _, r := range group {
			r.done <- err
		}
	}
}

// nobody owns the scopes of the raw log.
type nobody struct{ policy engine.Policy }

func (n *nobody) Policy() *engine.Policy             { return &n.policy }
func (*nobody) Remembers(string, engine.Digest) bool { return false }
func (*nobody) Refuses(string, engine.Kind) string   { return "" }
func (*nobody) Duplicates(context.Context, engine.Position, engine.Position) (int, error) {
	return 0, nil
}

func rawServer(b *testing.B) (url string) {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "raw.log"))
	if err != nil {
		b.Fatal(err)
	}
	n := &nobody{policy: engine.Policy{Kinds: map[string]engine.Kind{"log.*": engine.Consequence}, Default: engine.Defaults()}}
	if err := n.policy.Compile(); err != nil {
		b.Fatal(err)
	}
	log := &rawLog{requests: make(chan rawRequest, 4096)}
	go log.run(f)
	h, err := ingest.New(ingest.Options{Log: log, Owner: n, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(h)
	b.Cleanup(func() {
		server.Close()
		close(log.requests)
		_ = f.Close()
	})
	return server.URL
}

// body is lines of about 300 bytes over 20,000 scopes. It is made once and then
// only renumbered, so that making it takes no time from the daemon, which
// shares the cores.
type body struct {
	content []byte
	ids     []int // where the digits of each line's id begin
}

const idDigits = 12

func newBody(lines int) *body {
	var b bytes.Buffer
	var ids []int
	pad := strings.Repeat("x", 120)
	for n := range lines {
		fmt.Fprintf(&b, `{"scope":"scope-%05d","id":"id-`, rand.IntN(20000))
		ids = append(ids, b.Len())
		fmt.Fprintf(&b, `%0*d","name":"log.line","at":%d,"data":{"n":%d,"host":"build-07","pad":%q},"text":"line %d of the build"}`+"\n",
			idDigits, 0, 1790000000000+n, n, pad, n)
	}
	return &body{b.Bytes(), ids}
}

// fresh gives every line an id that no other body has.
func (b *body) fresh(seq *atomic.Int64) []byte {
	last := seq.Add(int64(len(b.ids)))
	for i, at := range b.ids {
		n := last - int64(i)
		for d := idDigits - 1; d >= 0; d-- {
			b.content[at+d] = byte('0' + n%10)
			n /= 10
		}
	}
	return b.content
}

// load posts bodies over a number of connections for a time, and returns the
// events a second and the latencies.
func load(b *testing.B, url string, seq *atomic.Int64, lines, connections int, d time.Duration) (rate float64, took []time.Duration) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var wg sync.WaitGroup
	var events atomic.Int64
	start := time.Now().Add(50 * time.Millisecond) // while the bodies are made
	for range connections {
		wg.Go(func() {
			var mine []time.Duration
			lines := newBody(lines)
			for time.Since(start) < d {
				content := lines.fresh(seq)
				begin := time.Now()
				if err := post(client, url+"/v1/ingest", content); err != nil {
					b.Error(err)
					return
				}
				mine = append(mine, time.Since(begin))
				events.Add(int64(len(lines.ids)))
			}
			mu.Lock()
			took = append(took, mine...)
			mu.Unlock()
		})
	}
	wg.Wait()
	return float64(events.Load()) / time.Since(start).Seconds(), took
}

func post(client *http.Client, url string, content []byte) error {
	res, err := client.Post(url, "application/x-ndjson", bytes.NewReader(content))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s %w", res.StatusCode, answer, err)
	}
	return nil
}

func quantile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return float64(took[min(int(q*float64(len(took))), len(took)-1)].Microseconds()) / 1000
}

func BenchmarkHTTPIngest(b *testing.B) {
	for _, c := range []struct{ lines, connections int }{{1, 64}, {100, 16}, {10_000, 4}} {
		b.Run(fmt.Sprintf("lines=%d", c.lines), func(b *testing.B) {
			durable, raw := daemon(b), rawServer(b)
			var seq atomic.Int64
			var rates, ratios []float64
			var took []time.Duration
			for b.Loop() {
				yard, _ := load(b, raw, &seq, c.lines, c.connections, time.Second)
				rate, t := load(b, durable, &seq, c.lines, c.connections, 2*time.Second)
				rates, ratios, took = append(rates, rate), append(ratios, rate/yard), append(took, t...)
			}
			slices.Sort(rates)
			slices.Sort(ratios)
			b.ReportMetric(rates[len(rates)/2], "events/s")
			b.ReportMetric(ratios[len(ratios)/2], "ratio-to-raw-log")
			b.ReportMetric(quantile(took, .5), "p50-ms")
			b.ReportMetric(quantile(took, .99), "p99-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkFlushToDecision takes the time from posting a flush event to the
// answer of an attend_wait that was open, idle and under half of the load that
// the daemon can take at 100 lines a body.
func BenchmarkFlushToDecision(b *testing.B) {
	for _, busy := range []bool{false, true} {
		b.Run(fmt.Sprintf("busy=%t", busy), func(b *testing.B) {
			url := daemon(b)
			var seq atomic.Int64
			if busy {
				halfLoad(b, url, &seq)
			}
			var took []time.Duration
			cursor := ""
			cursor, _ = wait(b, url, cursor, 1)
			for b.Loop() {
				woken := make(chan time.Time, 1)
				go func() {
					next, n := wait(b, url, cursor, 10_000)
					cursor = next
					if n != 1 {
						b.Errorf("woken with %d decisions, want 1", n)
					}
					woken <- time.Now()
				}()
				line := fmt.Sprintf(`{"scope":"asked","id":"ask-%d","name":"ask","text":"now?"}`, seq.Add(1))
				begin := time.Now()
				if err := post(http.DefaultClient, url+"/v1/ingest", []byte(line)); err != nil {
					b.Fatal(err)
				}
				took = append(took, (<-woken).Sub(begin))
			}
			b.ReportMetric(quantile(took, .5), "p50-ms")
			b.ReportMetric(quantile(took, .99), "p99-ms")
		})
	}
}

// BenchmarkSettleLag takes the time between the instant at which a window was
// due and its settle, over windows of many scopes, under half load.
func BenchmarkSettleLag(b *testing.B) {
	url := daemon(b)
	var seq atomic.Int64
	halfLoad(b, url, &seq)
	cursor, _ := wait(b, url, "", 1)
	var lag []time.Duration
	for b.Loop() {
		var lines bytes.Buffer
		for i := range 200 {
			fmt.Fprintf(&lines, `{"scope":"settling-%d","id":"done-%d","name":"done"}`+"\n", i, seq.Add(1))
		}
		if err := post(http.DefaultClient, url+"/v1/ingest", lines.Bytes()); err != nil {
			b.Fatal(err)
		}
		for n := 0; n < 200; {
			var decisions []engine.Decision
			cursor, decisions = waitFor(b, url, cursor, 10_000)
			n += len(decisions)
			for i := range decisions {
				lag = append(lag, time.Duration(decisions[i].SettledAt-decisions[i].Due)*time.Millisecond)
			}
		}
	}
	b.ReportMetric(quantile(lag, .5), "p50-ms")
	b.ReportMetric(quantile(lag, .99), "p99-ms")
}

// halfLoad posts bodies of 100 lines at half the rate that a short run took.
func halfLoad(b *testing.B, url string, seq *atomic.Int64) {
	b.Helper()
	full, _ := load(b, url, seq, 100, 16, time.Second)
	pause := time.Duration(float64(16*100) / (full / 2) * float64(time.Second))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			lines := newBody(100)
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				if err := post(http.DefaultClient, url+"/v1/ingest", lines.fresh(seq)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	b.Cleanup(func() {
		close(stop)
		wg.Wait()
	})
}

func wait(b *testing.B, url, cursor string, timeoutMs int) (next string, n int) {
	b.Helper()
	next, decisions := waitFor(b, url, cursor, timeoutMs)
	return next, len(decisions)
}

// waitFor calls the tool attend_wait.
func waitFor(b *testing.B, url, cursor string, timeoutMs int) (next string, decisions []engine.Decision) {
	b.Helper()
	args := map[string]any{"timeoutMs": timeoutMs}
	if cursor != "" {
		args["cursor"] = cursor
	}
	call, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": map[string]any{"name": "attend_wait", "arguments": args},
	})
	if err != nil {
		b.Fatal(err)
	}
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url+"/mcp", bytes.NewReader(call))
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Error(err)
		return cursor, nil
	}
	defer func() { _ = res.Body.Close() }()
	content, err := io.ReadAll(res.Body)
	if err != nil {
		b.Error(err)
	}
	for line := range bytes.Lines(content) {
		line = bytes.TrimPrefix(line, []byte("data: "))
		var answer struct {
			Result struct {
				StructuredContent struct {
					Decisions []engine.Decision
					Cursor    string
				}
			}
		}
		if json.Unmarshal(line, &answer) == nil && answer.Result.StructuredContent.Cursor != "" {
			return answer.Result.StructuredContent.Cursor, answer.Result.StructuredContent.Decisions
		}
	}
	b.Errorf("attend_wait: status %d: %s", res.StatusCode, content)
	return cursor, nil
}

// BenchmarkIdle reports the memory of a daemon that has nothing to do.
func BenchmarkIdle(b *testing.B) {
	daemon(b)
	for b.Loop() {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapInuse+m.StackInuse)/(1<<20), "MB")
}
