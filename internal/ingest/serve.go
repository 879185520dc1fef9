package ingest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"attend/internal/engine"
	"attend/internal/problem"
)

// How long a caller is asked to wait, by what it waits for.
const (
	retrySoon  = time.Second     // a window to be judged, a place to be free
	retryLater = 5 * time.Second // a store to come back, a daemon to start
)

// linger is how long a client whose body is not wanted may go on sending it
// before the connection ends: long enough to read the answer.
const linger = 500 * time.Millisecond

// answer is the body of every answer to a body that was read.
type answer struct {
	*problem.Problem     // nil for 200
	Status           int `json:"status,omitempty"`
	Result
	Note string `json:"note,omitempty"` // for people
}

// ServeHTTP answers POST /v1/ingest.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	defer func() { h.metrics.duration.Observe(time.Since(start).Seconds()) }()
	control := http.NewResponseController(w)
	scope, form, refused := accepts(w, r)
	if refused == nil {
		s := &session{h: h, control: control, body: r.Body, form: form, endless: r.ContentLength < 0, idle: h.limits.IdleTimeout}
		if s.endless {
			s.idle = h.limits.StreamIdleTimeout
		}
		if refused = h.enter(w, s); refused == nil {
			defer h.leave(s)
			h.serve(w, r, s, scope)
			return
		}
	}
	hangUp(w, control)
	refused.Write(w)
}

// accepts reads everything about a request but its body.
func accepts(w http.ResponseWriter, r *http.Request) (scope string, form bodyForm, refused *problem.Problem) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		p := problem.New(http.StatusMethodNotAllowed, "methodNotAllowed", "events are sent with POST (curl -T needs -X POST)")
		return "", form, &p
	}
	form, refused = formOf(r)
	if refused != nil {
		return "", form, refused
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if scopes, given := query["scope"]; err == nil && given {
		scope = scopes[0]
		if err = checkScope(scope); err == nil && len(scopes) > 1 {
			err = errors.New("there are several scopes: give one, or put them on the lines")
		}
	}
	if err != nil {
		p := problem.New(http.StatusBadRequest, "invalidScope", "the query: "+err.Error())
		return "", form, &p
	}
	return scope, form, nil
}

// enter gives a body one of the places.
func (h *Handler) enter(w http.ResponseWriter, s *session) *problem.Problem {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.stopping:
		retryAfter(w, retryLater)
		p := stoppingProblem("nothing of the body was read")
		return &p
	case len(h.sessions) >= h.limits.MaxRequests:
		retryAfter(w, retrySoon)
		p := problem.New(http.StatusTooManyRequests, "saturated", fmt.Sprintf("%d bodies are being read, and that is the limit: send again later", len(h.sessions)))
		return &p
	}
	h.sessions[s] = struct{}{}
	return nil
}

func (h *Handler) leave(s *session) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.sessions, s)
}

// serve reads the body and answers.
func (h *Handler) serve(w http.ResponseWriter, r *http.Request, s *session, scope string) {
	in, done := h.newIntake(r.Context(), scope)
	defer done()
	s.in = in
	rd, ok := h.readers.Get().(*bufio.Reader)
	if !ok {
		rd = bufio.NewReaderSize(nil, readBuffer)
	}
	defer func() {
		rd.Reset(nil)
		h.readers.Put(rd)
	}()
	streams := wantsLines(r)
	if streams {
		s.progress = streamed(w, s.control, h.limits.WriteTimeout)
	}
	err := s.run(r.Context(), rd, largestEvent(h.owner.Policy()))
	a, after := h.conclude(s, err)
	if s.ended {
		_ = s.control.SetReadDeadline(time.Time{})
	} else {
		hangUp(w, s.control)
	}
	if streams {
		s.lastLine(w, a)
		return
	}
	if after > 0 {
		retryAfter(w, after)
	}
	if a.Problem != nil {
		problem.Write(w, a.Status, a)
		return
	}
	a.Status = 0 // the answer's own status says it
	w.Header().Set("Content-Type", typeJSON)
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(a) // an error means that the client is gone
}

// conclude words the result, and how long the caller should wait before it
// sends again what was refused.
func (h *Handler) conclude(s *session, err error) (a answer, after time.Duration) {
	a.Result = s.in.result()
	if err == nil && a.Rejected == 0 {
		a.Status = http.StatusOK
		if a.Accepted+a.Duplicates == 0 {
			a.Note = "the body held no events"
		}
		return a, 0
	}
	var p problem.Problem
	switch {
	case s.in.failed != nil:
		p, after = problem.New(http.StatusServiceUnavailable, "storeUnavailable", "the store does not take events: send again what was not accepted, later"), retryLater
	case errors.Is(err, errStopping):
		p, after = stoppingProblem("send again what was not accepted, later"), retryLater
	case err != nil:
		p = broken(s, err)
	case a.retryable > 0:
		p, after = problem.New(http.StatusTooManyRequests, "linesRejected", fmt.Sprintf("%d of %d lines were rejected, and some may pass later", a.Rejected, a.read())), retrySoon
	default:
		p = problem.New(http.StatusUnprocessableEntity, "linesRejected", fmt.Sprintf("%d of %d lines were rejected: mend them before sending them again", a.Rejected, a.read()))
	}
	a.Problem, a.Status = &p, p.Status
	return a, after
}

func (r *Result) read() int { return r.Accepted + r.Duplicates + r.Rejected }

func stoppingProblem(what string) problem.Problem {
	return problem.New(http.StatusServiceUnavailable, "stopping", "the daemon is stopping: "+what)
}

// broken words the end of a body that did not end well.
func broken(s *session, err error) problem.Problem {
	const kept = "what was accepted stays; "
	switch {
	case errors.Is(err, errExpanded), errors.Is(err, errRatio), errors.Is(err, errWindow):
		return problem.New(http.StatusRequestEntityTooLarge, "expandedTooLarge", err.Error()+": "+kept+"send the rest in smaller bodies, or uncompressed")
	case s.deaf != nil:
		return problem.New(http.StatusBadRequest, "answerUnread", "the answer streams, and is not read: "+kept+"send the rest again")
	case s.wire == nil:
		return problem.New(http.StatusBadRequest, "badEncoding", err.Error()+": "+kept+"compress the rest again")
	case errors.Is(s.wire, os.ErrDeadlineExceeded):
		return problem.New(http.StatusRequestTimeout, "idle", fmt.Sprintf("no byte came for %v: %ssend the rest in a new request", s.idle, kept))
	default:
		return problem.New(http.StatusBadRequest, "bodyCut", "the body ended before its length or its last chunk: "+kept+"send the rest again")
	}
}

func retryAfter(w http.ResponseWriter, d time.Duration) {
	w.Header().Set("Retry-After", strconv.Itoa(int(d/time.Second)))
}

// hangUp answers without waiting for the rest of the body, which nobody will
// read, and ends the connection after the answer.
func hangUp(w http.ResponseWriter, c *http.ResponseController) {
	_ = c.EnableFullDuplex()
	_ = c.SetReadDeadline(time.Now().Add(linger))
	w.Header().Set("Connection", "close")
	closeGently(w)
}

// closeGently makes the server end the connection after the answer in two
// steps: it says that nothing more will come, and waits for a moment before it
// refuses what still comes in. A client that is refused while it sends may
// throw away what it has not read yet, the end of the answer. And the rest of
// the body must never be read as the next request, even where the headers have
// gone out without "Connection: close". All this net/http does for a body that
// is over a limit, so it is told of one.
func closeGently(w http.ResponseWriter) {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = wrapper.Unwrap()
	}
	over := http.MaxBytesReader(w, io.NopCloser(strings.NewReader("x")), 0)
	_, _ = over.Read(make([]byte, 1))
}

// streamed prepares an answer that is written while the body is read. The
// function returned tells the client how far the log has it.
func streamed(w http.ResponseWriter, c *http.ResponseController, timeout time.Duration) func(progress) error {
	// HTTP/2 and recorders are full duplex, or do not care.
	_ = c.EnableFullDuplex()
	w.Header().Set("Content-Type", typeLines)
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	return func(p progress) error {
		b, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("tell of a commit: %w", err)
		}
		_ = c.SetWriteDeadline(time.Now().Add(timeout))
		if _, err := w.Write(append(b, '\n')); err != nil {
			return fmt.Errorf("tell of a commit: %w", err)
		}
		if err := c.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return fmt.Errorf("tell of a commit: %w", err)
		}
		return nil
	}
}

// lastLine ends a streamed answer.
func (s *session) lastLine(w http.ResponseWriter, a answer) {
	_ = s.control.SetWriteDeadline(time.Now().Add(s.h.limits.WriteTimeout))
	_ = json.NewEncoder(w).Encode(a) // an error means that the client is gone
	_ = s.control.Flush()
	_ = s.control.SetWriteDeadline(time.Time{}) // the connection may serve other requests
}

// largestEvent is the limit of the scope that takes the largest events; which
// scope a line is for is not known before it is read.
func largestEvent(p *engine.Policy) int {
	largest := p.Default.MaxEventBytes
	for i := range p.Scopes {
		largest = max(largest, p.Scopes[i].Settings.MaxEventBytes)
	}
	return int(largest)
}
