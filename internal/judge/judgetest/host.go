package judgetest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Request is one request as a host took it.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte
}

// Answer is what a host does with a request.
type Answer struct {
	Status int // 0 is 200
	Header map[string]string
	Body   string
	Fault  Fault
}

// Fault is a way not to answer.
type Fault string

// The faults.
const (
	Reset      Fault = "reset"      // the connection is closed before an answer
	SlowHeader Fault = "slowHeader" // nothing comes before the client gives up
	SlowBody   Fault = "slowBody"   // Body, and then nothing more
	CutBody    Fault = "cutBody"    // Body, and then the connection is closed
)

// Host is a server of one API for questions, on the loopback. A request that
// the API would refuse fails the test.
type Host struct {
	URL string

	t     testing.TB
	check func(*Request) error
	stop  chan struct{}

	mu      sync.Mutex
	answers []Answer
	asked   []Request
}

// SystemOne starts a host that speaks System One. It answers one after the
// other; the last answer is given again and again.
func SystemOne(t testing.TB, answers ...Answer) *Host { return start(t, checkSystemOne, answers) }

// Decisions starts a host that speaks OpenAI's Decisions, in the same way.
func Decisions(t testing.TB, answers ...Answer) *Host { return start(t, checkDecisions, answers) }

func start(t testing.TB, check func(*Request) error, answers []Answer) *Host {
	t.Helper()
	h := &Host{t: t, check: check, answers: answers, stop: make(chan struct{})}
	server := httptest.NewServer(h)
	h.URL = server.URL
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(h.stop) })
	return h
}

// Asked returns the requests so far.
func (h *Host) Asked() []Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Request(nil), h.asked...)
}

// ServeHTTP implements http.Handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	asked := Request{Path: r.URL.Path, Header: r.Header.Clone(), Body: body}
	if r.Method != http.MethodPost {
		h.t.Errorf("the host was asked with %s, want POST", r.Method)
	}
	if err := h.check(&asked); err != nil {
		h.t.Errorf("the host was asked what its API does not take: %v\n%s", err, body)
	}
	h.mu.Lock()
	a := h.answers[min(len(h.asked), len(h.answers)-1)]
	h.asked = append(h.asked, asked)
	h.mu.Unlock()
	h.give(w, r, &a)
}

func (h *Host) give(w http.ResponseWriter, r *http.Request, a *Answer) {
	switch a.Fault {
	case Reset:
		reset(w)
		return
	case SlowHeader:
		h.wait(r)
		return
	default:
	}
	for name, value := range a.Header {
		w.Header().Set(name, value)
	}
	if a.Header["Content-Type"] == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	if a.Fault != "" {
		w.Header().Set("Content-Length", "100000") // more than will come
	}
	w.WriteHeader(max(a.Status, 200))
	_, _ = io.WriteString(w, a.Body) // a client that has gone is the test's own
	switch a.Fault {
	case SlowBody:
		_ = http.NewResponseController(w).Flush()
		h.wait(r)
	case CutBody:
		_ = http.NewResponseController(w).Flush()
		reset(w)
	default:
	}
}

// wait holds a request until the client gives up.
func (h *Host) wait(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-h.stop:
	}
}

// reset closes a connection so that the client sees it broken.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.SetDeadline(time.Time{})
	_ = conn.Close()
}
