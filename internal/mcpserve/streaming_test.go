package mcpserve

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// message is one JSON-RPC message of a stream.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Cursor        string                     `json:"cursor"`
		Truncated     *bool                      `json:"truncated"`
		EventID       string                     `json:"eventId"`
		Name          string                     `json:"name"`
		Timestamp     string                     `json:"timestamp"`
		Data          map[string]any             `json:"data"`
		Error         *rpcFault                  `json:"error"`
		Notifications map[string]any             `json:"notifications"`
		Meta          map[string]json.RawMessage `json:"_meta"`
	} `json:"params"`
	Result map[string]any `json:"result"`
	Error  *rpcFault      `json:"error"`

	raw string
}

type rpcFault struct {
	Code    int64          `json:"code"`
	Message string         `json:"message"`
	Data    map[string]any `json:"data"`
}

// kind is "active", "event" and so on, "result" for the answer.
func (m *message) kind() string {
	if m.Method == "" {
		return "result"
	}
	return strings.TrimPrefix(m.Method, "notifications/events/")
}

func (m *message) subscription() string { return string(m.Params.Meta[mcp.MetaKeySubscriptionID]) }

// readFrames reads server-sent events until the body ends. It calls message
// for each message, and comment for each comment.
func readFrames(r io.Reader, message func(*message), comment func(string)) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		line = strings.TrimSuffix(line, "\n")
		if text, ok := strings.CutPrefix(line, ": "); ok {
			comment(text)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			m, err := parse(data)
			if err != nil {
				return err
			}
			message(m)
		}
	}
}

func parse(data string) (*message, error) {
	m := &message{raw: data}
	return m, json.Unmarshal([]byte(data), m)
}

// reader reads a stream over the network.
type reader struct {
	d        *daemon
	status   int
	header   http.Header
	messages chan *message // closed at the end of the body
	comments chan string
	cancel   context.CancelFunc
	body     io.ReadCloser
	ended    error // why, once messages is closed
}

// open sends a request whose answer is a stream, and reads it.
func (d *daemon) open(method string, header http.Header, body string) *reader {
	d.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, method, d.url, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, values := range header { //arch:sorted into a map
		req.Header[name] = values
	}
	resp, err := d.http.Do(req)
	if err != nil {
		cancel()
		d.t.Fatal(err)
	}
	r := &reader{
		d: d, status: resp.StatusCode, header: resp.Header, cancel: cancel, body: resp.Body,
		messages: make(chan *message, 100000), comments: make(chan string, 100000),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer close(r.messages)
		r.ended = readFrames(resp.Body, func(m *message) { r.messages <- m }, func(text string) { r.comments <- text })
	}()
	d.t.Cleanup(func() {
		r.close()
		<-done
	})
	return r
}

// stream opens events/stream in an era; params is the inside of a JSON object.
func (d *daemon) stream(era, params string) *reader {
	d.t.Helper()
	h, body := request(era, "events/stream", params)
	return d.open(http.MethodPost, h, body)
}

func (r *reader) close() {
	r.cancel()
	_ = r.body.Close()
}

// next returns the next message; nil at the end of the body.
func (r *reader) next() *message {
	r.d.t.Helper()
	select {
	case m := <-r.messages:
		return m
	case <-time.After(30 * time.Second):
		r.d.t.Fatal("nothing comes")
		return nil
	}
}

// want returns the next message that is no heartbeat, and holds it to a kind.
func (r *reader) want(kind string) *message {
	r.d.t.Helper()
	for {
		m := r.next()
		if m == nil {
			r.d.t.Fatalf("the stream has ended (%v), want %s", r.ended, kind)
		}
		if m.kind() == "heartbeat" && kind != "heartbeat" {
			continue
		}
		if m.kind() != kind {
			r.d.t.Fatalf("got %s, want %s", m.raw, kind)
		}
		return m
	}
}

// events returns the ids of the next n events.
func (r *reader) events(n int) []string {
	r.d.t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = r.want("event").Params.EventID
	}
	return ids
}

// end reads to the end of the body, which must have nothing but heartbeats.
func (r *reader) end() {
	r.d.t.Helper()
	for m := r.next(); m != nil; m = r.next() {
		if m.kind() != "heartbeat" {
			r.d.t.Errorf("at the end came %s", m.raw)
		}
	}
	if !errors.Is(r.ended, io.EOF) {
		r.d.t.Errorf("the body was cut off: %v", r.ended)
	}
}

// screen is a connection in memory: it takes what a handler writes, and may be
// told to stop doing so.
type screen struct {
	header http.Header

	mu      sync.Mutex
	status  int
	written bytes.Buffer
	stuck   bool
	paused  chan struct{} // closed unless the screen is paused
	until   time.Time     // the write deadline
}

func newScreen() *screen {
	s := &screen{header: http.Header{}, paused: make(chan struct{})}
	close(s.paused)
	return s
}

// pause lets writes wait until proceed is called: the reader is slow.
func (s *screen) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = make(chan struct{})
}

func (s *screen) proceed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.paused)
}

// Header implements http.ResponseWriter.
func (s *screen) Header() http.Header { return s.header }

// WriteHeader implements http.ResponseWriter.
func (s *screen) WriteHeader(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// Write waits while the screen is paused, and fails at its deadline when it is
// stuck.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	stuck, paused, until := s.stuck, s.paused, s.until
	s.mu.Unlock()
	<-paused
	if stuck {
		<-time.After(time.Until(until))
		return 0, errors.New("write deadline exceeded")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written.Write(b)
}

// SetWriteDeadline is what http.ResponseController calls.
func (s *screen) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = t
	return nil
}

// Flush implements http.Flusher.
func (s *screen) Flush() {}

// stick lets no more be written: the reader has stopped reading.
func (s *screen) stick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stuck = true
}

// read returns the messages so far.
func (s *screen) read(t fataler) []*message {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*message
	err := readFrames(bytes.NewReader(s.written.Bytes()), func(m *message) { all = append(all, m) }, func(string) {})
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return all
}

// kinds are those of messages, in order.
func kinds(all []*message) []string {
	list := make([]string, len(all))
	for i, m := range all {
		list[i] = m.kind()
	}
	return list
}

// eventIDs are those of the events among messages.
func eventIDs(all []*message) []string {
	list := []string{}
	for _, m := range all {
		if m.kind() == "event" {
			list = append(list, m.Params.EventID)
		}
	}
	return list
}

// watch has the server answer a request without a network, as bubbles need it.
// The stream ends with ctx; done is closed then.
func (d *daemon) watch(ctx context.Context, header http.Header, body string) (on *screen, done <-chan struct{}) {
	d.t.Helper()
	on = newScreen()
	ended := make(chan struct{})
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	r := httptest.NewRequestWithContext(ctx, method, "/mcp", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for name, values := range header { //arch:sorted into a map
		r.Header[name] = values
	}
	go func() {
		defer close(ended)
		d.server.ServeHTTP(on, r)
	}()
	return on, ended
}

// count tells how often a piece of text was written.
func (s *screen) count(text string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Count(s.written.String(), text)
}
