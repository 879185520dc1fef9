package bridge

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a bridge as a host sees it. It lives in a synctest bubble: what the
// test looks at after settle is all that there is.
type host struct {
	t     *testing.T
	in    *io.PipeWriter
	ended chan struct{} // closed when Run has returned err
	err   error
	log   bytes.Buffer

	mu    sync.Mutex
	lines []string
}

// connect runs a bridge to a daemon.
func connect(t *testing.T, daemon http.RoundTripper) *host {
	t.Helper()
	h := &host{t: t, ended: make(chan struct{})}
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	h.in = toBridge
	go func() {
		defer close(h.ended)
		defer out.Close()
		h.err = Run(t.Context(), Options{
			Endpoint: "http://attend.test/mcp", Token: "secret",
			HTTP: &http.Client{Transport: daemon}, In: in, Out: out,
			Logger: slog.New(slog.NewTextHandler(&h.log, nil)),
		})
	}()
	go func() {
		from := bufio.NewScanner(fromBridge)
		from.Buffer(nil, 2*maxAnswer)
		for from.Scan() {
			h.mu.Lock()
			h.lines = append(h.lines, from.Text())
			h.mu.Unlock()
		}
	}()
	t.Cleanup(h.leave)
	return h
}

// say writes lines to the bridge and lets everything happen that then does.
func (h *host) say(lines ...string) {
	h.t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(h.in, line+"\n"); err != nil {
			h.t.Fatal(err)
		}
	}
	synctest.Wait()
}

// heard returns the lines that have come since the last time.
func (h *host) heard() []string {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	lines := h.lines
	h.lines = nil
	return lines
}

// hears holds the lines that have come since the last time to those wanted.
func (h *host) hears(want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.heard()); diff != "" {
		h.t.Errorf("the host hears (-want +got):\n%s", diff)
	}
}

// leave closes the host's end and waits for the bridge to end well.
func (h *host) leave() {
	h.t.Helper()
	h.in.Close()
	<-h.ended
	if h.err != nil {
		h.t.Errorf("the bridge ended with %v", h.err)
	}
}

// request is what a daemon was asked.
type request struct {
	method                            string // of HTTP
	version, rpc, name, session, auth string
	body                              string
}

func (r request) String() string {
	return fmt.Sprintf("%s version=%q method=%q name=%q session=%q %s", r.method, r.version, r.rpc, r.name, r.session, r.body)
}

// daemon answers in this process, streams and ends of connections included.
type daemon struct {
	handle http.HandlerFunc

	mu    sync.Mutex
	asked []request
	ends  int  // requests that the bridge has given up
	down  bool // nobody listens
}

// requests returns what was asked since the last time.
func (d *daemon) requests() []string {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	list := []string{}
	for _, r := range d.asked {
		list = append(list, r.String())
	}
	d.asked = nil
	return list
}

func (d *daemon) gaveUp() int {
	synctest.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ends
}

func (d *daemon) setDown(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

// RoundTrip implements http.RoundTripper.
func (d *daemon) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
	}
	d.mu.Lock()
	down := d.down
	d.asked = append(d.asked, request{
		method: req.Method, body: string(body), auth: req.Header.Get("Authorization"),
		version: req.Header.Get("Mcp-Protocol-Version"), rpc: req.Header.Get("Mcp-Method"),
		name: req.Header.Get("Mcp-Name"), session: req.Header.Get("Mcp-Session-Id"),
	})
	d.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	}
	if req.Header.Get("Authorization") != "Bearer secret" {
		return nil, fmt.Errorf("Authorization is %q", req.Header.Get("Authorization"))
	}
	from, to := io.Pipe()
	w := &answer{to: to, header: make(http.Header), began: make(chan int, 1)}
	ctx, cancel := context.WithCancel(req.Context())
	go func() {
		defer cancel()
		inner := req.Clone(ctx)
		inner.Body = io.NopCloser(bytes.NewReader(body))
		defer func() {
			if cut := recover(); cut != nil { // http.ErrAbortHandler
				w.WriteHeader(http.StatusOK)
				to.CloseWithError(io.ErrUnexpectedEOF)
			}
			w.WriteHeader(http.StatusOK)
			to.Close()
		}()
		d.handle(w, inner)
	}()
	unhook := context.AfterFunc(req.Context(), func() {
		if ctx.Err() == nil || req.Context().Err() != nil {
			to.CloseWithError(req.Context().Err())
		}
	})
	select {
	case status := <-w.began:
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status), Header: w.header, Request: req,
			Body: &answerBody{from, func() { unhook(); cancel() }},
		}, nil
	case <-req.Context().Done():
		d.mu.Lock()
		d.ends++
		d.mu.Unlock()
		return nil, req.Context().Err()
	}
}

// answer is the daemon's end of one exchange.
type answer struct {
	to     *io.PipeWriter
	header http.Header
	once   sync.Once
	began  chan int
}

func (w *answer) Header() http.Header { return w.header }

func (w *answer) WriteHeader(status int) { w.once.Do(func() { w.began <- status }) }

func (w *answer) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.to.Write(b)
}

// answerBody is the bridge's end. Closing it ends the connection.
type answerBody struct {
	*io.PipeReader
	end func()
}

func (b *answerBody) Close() error {
	b.end()
	return b.PipeReader.Close()
}

// asJSON answers with one JSON text.
func asJSON(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// asEvents answers with a stream.
func asEvents(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	io.WriteString(w, text)
}

// idOf reads the id of a request.
func idOf(r *http.Request) string {
	var m struct{ ID json.RawMessage }
	_ = json.NewDecoder(r.Body).Decode(&m)
	return string(m.ID)
}

func TestBridge_MessagesPassAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text string
		d := &daemon{handle: func(w http.ResponseWriter, _ *http.Request) {
			if strings.HasPrefix(text, "{") {
				asJSON(w, http.StatusOK, text)
			} else {
				asEvents(w, text)
			}
		}}
		h := connect(t, d)
		for _, c := range []struct {
			answer string
			want   []string
		}{
			{`{"jsonrpc":"2.0","id":1,"result":{"n":12345678901234567890.10,"n":"<b>"}}`, []string{`{"jsonrpc":"2.0","id":1,"result":{"n":12345678901234567890.10,"n":"<b>"}}`}},
			{"{\n \"jsonrpc\": \"2.0\", \"id\": 1,\n \"result\": {\"t\": \"a  b\\n\"} }\n", []string{`{"jsonrpc":"2.0","id":1,"result":{"t":"a  b\n"}}`}},
			{"event: message\nid: 7\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n", []string{`{"jsonrpc":"2.0","id":1,"result":{}}`}},
			{
				": ok\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\n: beat\n\nevent: ping\ndata: no message\n\ndata: {\"jsonrpc\":\"2.0\",\r\ndata:\"method\":\"b\"}\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601}}\n\nand no more is read",
				[]string{`{"jsonrpc":"2.0","method":"a"}`, `{"jsonrpc":"2.0","method":"b"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601}}`},
			},
		} {
			text = c.answer
			h.say(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
			h.hears(c.want...)
		}
		if got := d.requests()[0]; got != `POST version="" method="" name="" session="" {"jsonrpc":"2.0","id":1,"method":"x"}` {
			t.Errorf("the daemon was asked %s", got)
		}
		if h.log.Len() > 0 {
			t.Errorf("the log says %s", h.log.String())
		}
	})
}

func TestBridge_ALongRequestHoldsUpNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d := &daemon{handle: func(w http.ResponseWriter, r *http.Request) {
			id := idOf(r)
			if id == `"slow"` {
				<-release
			}
			asJSON(w, http.StatusOK, `{"jsonrpc":"2.0","id":`+id+`,"result":{}}`)
		}}
		h := connect(t, d)
		h.say(`{"jsonrpc":"2.0","id":"slow","method":"x"}`, `{"jsonrpc":"2.0","id":2,"method":"x"}`)
		h.hears(`{"jsonrpc":"2.0","id":2,"result":{}}`)
		h.say(`{"jsonrpc":"2.0","id":"slow","method":"y"}`)
		h.hears(`{"jsonrpc":"2.0","id":"slow","error":{"code":-32600,"message":"a request with this id is already under way"}}`)
		time.Sleep(time.Hour)
		close(release)
		h.hears(`{"jsonrpc":"2.0","id":"slow","result":{}}`)
		h.say(`{"jsonrpc":"2.0","id":"slow","method":"x"}`)
		h.hears(`{"jsonrpc":"2.0","id":"slow","result":{}}`)
	})
}

func TestBridge_StreamsComeAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		more := make(chan string)
		d := &daemon{handle: func(w http.ResponseWriter, _ *http.Request) {
			asEvents(w, ": ok\n\n")
			for text := range more {
				io.WriteString(w, text)
			}
		}}
		h := connect(t, d)
		h.say(`{"jsonrpc":"2.0","id":1,"method":"events/stream"}`)
		h.hears()
		for i := range 3 {
			line := fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/events/event","params":{"n":%d}}`, i)
			more <- "data: " + line + "\n\n"
			h.hears(line)
			time.Sleep(time.Hour)
		}
		more <- `data: {"jsonrpc":"2.0","id":1,"result":{}}` + "\n\n"
		h.hears(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		close(more)
	})
}

func TestBridge_WhatIsNoMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{handle: func(w http.ResponseWriter, _ *http.Request) {
			asJSON(w, http.StatusBadRequest, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"<batches> are not taken"}}`)
		}}
		h := connect(t, d)
		h.say("", " \r", `{"jsonrpc"`)
		h.hears(`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"a line must be one JSON-RPC message: unexpected end of JSON input"}}`)
		h.say(`"text"`)
		if got := h.heard(); len(got) != 1 || !strings.Contains(got[0], "-32700") {
			t.Errorf("a text was answered %q", got)
		}
		h.say(`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", maxMessage) + `"}`)
		h.hears(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"a message may have 4194304 bytes, and this one has more"}}`)
		if got := d.requests(); len(got) != 0 {
			t.Errorf("the daemon was asked %q", got)
		}
		// The daemon says what it thinks of batches; of an error without an id
		// the host would not know to what it is.
		h.say(`[{"jsonrpc":"2.0","id":1,"method":"x"}]`)
		h.hears(`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"<batches> are not taken"}}`)
		h.say(`{"jsonrpc":"2.0","id":7,"method":"x"}`)
		h.hears(`{"error":{"code":-32600,"message":"<batches> are not taken"},"id":7,"jsonrpc":"2.0"}`)
	})
}

func TestBridge_TooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &daemon{handle: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
		h := connect(t, d)
		for i := range maxCalls {
			h.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, i))
		}
		h.say(`{"jsonrpc":"2.0","id":"more","method":"x"}`)
		h.hears(`{"jsonrpc":"2.0","id":"more","error":{"code":-32603,"message":"1024 messages are under way: wait for one of them to be answered"}}`)
		h.say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}`)
		h.say(`{"jsonrpc":"2.0","id":"more","method":"x"}`)
		h.hears()
	})
}
