package mcpserve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"attend/internal/engine"
)

// rawStream is a stream whose client is a bare connection: it costs next to
// nothing on the client's side, and reads only when it is told to.
type rawStream struct {
	net.Conn
}

// dial opens events/stream; params is the inside of a JSON object.
func (d *daemon) dial(params string) *rawStream {
	d.t.Helper()
	address := strings.TrimPrefix(d.url, "http://")
	conn, err := new(net.Dialer).DialContext(d.t.Context(), "tcp", address)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { _ = conn.Close() })
	h, body := request(modern, "events/stream", params)
	var head strings.Builder
	fmt.Fprintf(&head, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", address, len(body))
	for name, values := range h { //arch:sorted headers have no order
		fmt.Fprintf(&head, "%s: %s\r\n", name, values[0])
	}
	if _, err := io.WriteString(conn, head.String()+"\r\n"+body); err != nil {
		d.t.Fatal(err)
	}
	return &rawStream{conn}
}

// until reads until a text has come, in the piece that buf takes.
func (r *rawStream) until(t fataler, text string, buf []byte) {
	t.Helper()
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	var seen []byte
	for !bytes.Contains(seen, []byte(text)) {
		n, err := r.Read(buf)
		if err != nil {
			t.Fatalf("%q never came: %v", text, err)
		}
		seen = append(seen, buf[:n]...)
	}
}

// inUse is what the process has in use: heap and stacks.
func inUse() uint64 {
	runtime.GC()
	runtime.GC() // what the first one has let go of
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

// thousand opens a thousand idle streams, and returns what each costs in bytes.
func thousand(d *daemon) (streams []*rawStream, each uint64) {
	d.t.Helper()
	const n = 1000
	buf := make([]byte, 4096)
	d.dial(decisions).until(d.t, "active", buf) // what is made once
	before := inUse()
	for range n {
		streams = append(streams, d.dial(decisions))
	}
	for _, s := range streams {
		s.until(d.t, "active", buf)
	}
	return streams, (inUse() - before) / n
}

func TestStreams_AThousandAtOnce(t *testing.T) {
	d := newDaemon(t, settings{})
	streams, each := thousand(d)
	t.Logf("%d bytes for each idle stream", each)
	if each > 64<<10 {
		t.Errorf("an idle stream takes %d bytes, want at most 64 KiB", each)
	}
	if n := d.gauge("attend_event_streams"); n != 1001 {
		t.Errorf("%v streams are counted", n)
	}
	d.decide("a", engine.Interrupt, nil)
	buf := make([]byte, 4096)
	for _, s := range streams {
		s.until(t, `"eventId":"d1"`, buf)
	}
	for _, s := range streams[:500] {
		_ = s.Close()
	}
	eventually(t, "half of them are gone", func() bool { return d.gauge("attend_event_streams") == 501 })
	d.stop()
	for _, s := range streams[500:] {
		s.until(t, `"resultType":"complete"`, buf)
	}
	eventually(t, "all of them are gone", func() bool { return d.gauge("attend_event_streams") == 0 })
}

// gated lets an answer pass up to some size; then it waits at the gate.
type gated struct {
	http.ResponseWriter
	left    int
	waiting *atomic.Int64
	gate    <-chan struct{}
}

func (g *gated) Write(b []byte) (int, error) {
	if g.left -= len(b); g.left < 0 {
		g.waiting.Add(1)
		<-g.gate
		g.waiting.Add(-1)
	}
	return g.ResponseWriter.Write(b)
}

func (g *gated) Unwrap() http.ResponseWriter { return g.ResponseWriter }

func TestStreams_StuckReadersCostLittleAndLoseNothing(t *testing.T) {
	const readers, events, size = 8, 120, 100 << 10
	var waiting atomic.Int64
	gate := make(chan struct{})
	d := newDaemon(t, settings{
		options: func(o *Options) { o.WriteWait = 2 * time.Second },
		wrap: func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				next.ServeHTTP(&gated{w, 3 * size / 2, &waiting, gate}, r)
			})
		},
	})
	from := d.cursor(0)
	for range events {
		d.decide("a", engine.Queue, func(d *engine.Decision) { d.Notice = strings.Repeat("n", size) })
	}
	before := inUse()
	var stuck []*rawStream
	for range readers {
		stuck = append(stuck, d.dial(fmt.Sprintf(`%s,"cursor":%q`, decisions, from)))
	}
	eventually(t, "all are in the middle of an event", func() bool { return waiting.Load() == readers })
	if each := (inUse() - before) / readers; each > 1<<20 {
		t.Errorf("a stuck reader with %d bytes to come takes %d", events*size, each)
	}
	close(gate)
	eventually(t, "they are cut off, for they still read nothing", func() bool { return d.gauge("attend_event_streams") == 0 })

	// One comes to, reads what had still reached it, and comes back with the
	// last cursor that it got whole.
	var seen []string
	cursor := from
	resp, err := http.ReadResponse(bufio.NewReader(stuck[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = readFrames(resp.Body, func(m *message) {
		if cursor = m.Params.Cursor; m.kind() == "event" {
			seen = append(seen, m.Params.EventID)
		}
	}, func(string) {})
	_ = resp.Body.Close()
	if errors.Is(err, io.EOF) || len(seen) == 0 || len(seen) == events {
		t.Fatalf("it got %d of %d events, then %v: it was never stuck", len(seen), events, err)
	}
	back := d.stream(modern, fmt.Sprintf(`%s,"cursor":%q`, decisions, cursor))
	if m := back.want("active"); *m.Params.Truncated {
		t.Error("what it missed is said to be lost")
	}
	seen = append(seen, back.events(events-len(seen))...)
	for i, id := range seen {
		if id != fmt.Sprintf("d%d", i+1) {
			t.Fatalf("event %d is %s", i, id)
		}
	}
}

// impatient is a proxy that cuts a connection on which nothing has come from
// the server for a while, as many do.
func impatient(t *testing.T, target string, patience time.Duration) (url string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { forward(ctx, client, target, patience) })
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		all.Wait()
	})
	return "http://" + listener.Addr().String()
}

func forward(ctx context.Context, client net.Conn, target string, patience time.Duration) {
	defer func() { _ = client.Close() }()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buf := make([]byte, 4096)
	for {
		_ = server.SetReadDeadline(time.Now().Add(patience))
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// The times are scaled down: heartbeats every 15 seconds carry a stream through
// a proxy that cuts what is silent for 20.
func TestStreams_OutliveProxiesThatCutSilence(t *testing.T) {
	const patience = 2 * time.Second
	d := newDaemon(t, settings{options: func(o *Options) { o.Heartbeat = patience / 8 }})
	d.url = impatient(t, strings.TrimPrefix(d.url, "http://"), patience)
	session := d.initialize(nil)
	stream, listening, getting := d.stream(modern, decisions), d.listen(`{"eventsListChanged":true}`), d.get(session)
	stream.want("active")
	listening.want(acknowledged)
	<-getting.comments
	<-listening.comments
	began := time.Now()
	for time.Since(began) < 2*patience {
		stream.want("heartbeat")
		if text := <-listening.comments; text != "keepalive" {
			t.Fatalf("listen: the comment is %q", text)
		}
		if text := <-getting.comments; text != "keepalive" {
			t.Fatalf("GET: the comment is %q", text)
		}
	}
	d.decide("a", engine.Queue, nil)
	d.server.NotifyEventTypesChanged()
	stream.want("event")
	listening.want("list_changed")
	getting.want("list_changed")
}

// Server timeouts are for requests: no stream is cut by them.
func TestStreams_OutliveServerTimeouts(t *testing.T) {
	const timeout = 300 * time.Millisecond
	d := newDaemon(t, settings{
		options: func(o *Options) { o.Heartbeat = timeout / 3 },
		serve: func(s *http.Server) {
			s.ReadTimeout, s.WriteTimeout = timeout, timeout
		},
	})
	stream := d.stream(legacy, decisions)
	stream.want("active")
	for began := time.Now(); time.Since(began) < 4*timeout; {
		stream.want("heartbeat")
	}
	d.decide("a", engine.Queue, nil)
	if got := stream.events(1); !slices.Equal(got, []string{"d1"}) {
		t.Errorf("got %v", got)
	}
}
