package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"attend/internal/feed"
)

// reading is an open stream, read as fast as it is written.
type reading struct {
	t      *testing.T
	cancel context.CancelFunc
	done   chan struct{} // closed when the handler has returned

	mu     sync.Mutex
	header http.Header
	status int
	b      bytes.Buffer
}

// Header, WriteHeader, Write, Flush and SetWriteDeadline make it the writer
// that the handler writes to.
func (s *reading) Header() http.Header { return s.header }

func (s *reading) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

func (s *reading) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *reading) Flush() {}

func (s *reading) SetWriteDeadline(time.Time) error { return nil }

// stream opens a stream; it is closed at the end of the test at the latest.
func (w *world) stream(query string, headers ...string) *reading {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	s := &reading{t: w.t, cancel: cancel, done: make(chan struct{}), header: make(http.Header)}
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/decisions/stream"+query, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	go func() {
		defer close(s.done)
		w.handler.ServeHTTP(s, r)
	}()
	w.t.Cleanup(s.close)
	return s
}

func (s *reading) close() {
	s.cancel()
	<-s.done
}

// text is all that came.
func (s *reading) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// sent is one block of a stream.
type sent struct {
	id, event, data, comment string
}

// sent parses what came, by the rules of server-sent events.
func (s *reading) sent() []sent {
	s.t.Helper()
	text := s.text()
	if text != "" && !strings.HasSuffix(text, "\n\n") {
		s.t.Errorf("it ends in the middle of an event: %q", text)
	}
	var all []sent
	for block := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		var b sent
		for line := range strings.SplitSeq(block, "\n") {
			field, value, _ := strings.Cut(line, ":")
			into := map[string]*string{"id": &b.id, "event": &b.event, "data": &b.data, "": &b.comment}[field]
			if into == nil || *into != "" {
				s.t.Fatalf("the line %q in %q", line, block)
			}
			*into = strings.TrimPrefix(value, " ")
		}
		all = append(all, b)
	}
	return all
}

// told sums up the events: "decision w1", "truncated", "end stopping".
func (s *reading) told() string {
	s.t.Helper()
	var all []string
	for _, b := range s.sent() {
		if b.event == "" {
			continue
		}
		var data struct{ ID, Kind, Reason, Cursor string }
		if err := json.Unmarshal([]byte(b.data), &data); err != nil {
			s.t.Fatalf("%v in %q", err, b.data)
		}
		if b.id == "" || data.Cursor != "" && data.Cursor != b.id || data.Kind != "" && data.Kind != b.event {
			s.t.Errorf("event %+v", b)
		}
		what := data.ID
		if b.event == "end" {
			what = data.Reason
		}
		all = append(all, strings.TrimSpace(b.event+" "+what))
	}
	return strings.Join(all, ", ")
}

// last is the last place that the stream told.
func (s *reading) last() string {
	s.t.Helper()
	last := ""
	for _, b := range s.sent() {
		if b.id != "" {
			last = b.id
		}
	}
	if _, err := feed.DecodeCursor(last); err != nil {
		s.t.Fatalf("the last id %q: %v", last, err)
	}
	return last
}

// pipes is a listener whose connections are net.Pipes: the network of a bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// connect serves the world over a connection without any buffer, and sends a
// request for a stream on it.
func (w *world) connect(query string) net.Conn {
	w.t.Helper()
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: w.handler}
	served := make(chan error)
	go func() { served <- server.Serve(p) }()
	client, conn := net.Pipe()
	p.conns <- conn
	w.t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
		<-served
	})
	if _, err := io.WriteString(client, "GET /v1/decisions/stream"+query+" HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		w.t.Fatal(err)
	}
	return client
}
