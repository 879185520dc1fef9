package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"attend/internal/problem"
)

// How long a sender is asked to wait, by what it waits for.
const (
	retrySoon  = time.Second     // a window to be judged, a place to be free
	retryLater = 5 * time.Second // a store to come back
)

// answer is the body of an answer to a request that was read.
type answer struct {
	Accepted   int `json:"accepted"`   // durable, and new to their scope
	Duplicates int `json:"duplicates"` // their scope remembers the id
}

// partly is the answer where something of a request will never be taken.
type partly struct {
	problem.Problem
	answer
	Rejected int     `json:"rejected"`
	Errors   []Fault `json:"errors"`
}

// ServeHTTP answers POST /v1/hooks/{name}, and the handshake of CloudEvents.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hook := (*s.hooks.Load())[strings.TrimPrefix(r.URL.EscapedPath(), Path)]
	// What is not read of a body must not keep the connection either.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	switch {
	case hook == nil:
		s.metrics.count(unknownHook, resultNotFound)
		problem.New(http.StatusNotFound, "notFound", "there is no such hook").Write(w)
	case r.Method == http.MethodOptions && hook.kind == CloudEvents:
		s.metrics.count(hook.name, resultIgnored)
		handshake(w, r)
	case r.Method != http.MethodPost:
		s.metrics.count(hook.name, resultInvalid)
		w.Header().Set("Allow", http.MethodPost)
		problem.New(http.StatusMethodNotAllowed, "methodNotAllowed", "events are sent with POST").Write(w)
	default:
		s.serve(w, r, hook)
	}
}

// serve takes one request in and answers it.
func (s *Service) serve(w http.ResponseWriter, r *http.Request, hook *receiver) {
	read, pushed, refused := s.take(r, hook)
	if refused != nil {
		s.refuse(w, hook, refused)
		return
	}
	s.metrics.count(hook.name, outcome(pushed))
	told := answer{pushed.Accepted, pushed.Duplicates}
	if pushed.Rejected > 0 {
		s.logger.Warn("a hook brought events that cannot be taken", slog.String("hook", hook.name), slog.Int("events", pushed.Rejected))
		p := problem.New(http.StatusUnprocessableEntity, "eventsRejected",
			fmt.Sprintf("%d of %d events cannot be taken: mend them before sending them again", pushed.Rejected, pushed.Rejected+pushed.Accepted+pushed.Duplicates))
		problem.Write(w, p.Status, partly{p, told, pushed.Rejected, pushed.Faults})
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if read.reply != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(read.reply)) // an error means that the sender is gone
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(told)
}

func outcome(p *Pushed) result {
	switch {
	case p.Rejected > 0:
		return resultInvalid
	case p.Accepted > 0:
		return resultAccepted
	case p.Duplicates > 0:
		return resultDuplicate
	default:
		return resultIgnored
	}
}

// refuse answers a request of which nothing was taken.
func (s *Service) refuse(w http.ResponseWriter, hook *receiver, refused *refusal) {
	s.metrics.count(hook.name, refused.what)
	switch {
	case refused.what == resultUnauthorized:
		w.Header().Set("WWW-Authenticate", hook.challenge())
	case refused.what == resultInvalid: // by a sender that is who it says it is
		s.logger.Warn("a request to a hook cannot be taken", slog.String("hook", hook.name), slog.String("code", refused.Code))
	}
	if refused.after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(refused.after/time.Second)))
	}
	refused.Write(w)
}

// challenge says which scheme the hook knows its sender by.
func (r *receiver) challenge() string {
	if r.bears == nil {
		return `Signature realm="attend"`
	}
	return `Bearer realm="attend", Basic realm="attend"`
}

// take reads a request and commits its events. Until the secret has been
// checked nothing is parsed, and every refusal but for one of size is the same.
func (s *Service) take(r *http.Request, hook *receiver) (*reading, *Pushed, *refusal) {
	if hook.bears != nil && !hook.bears(r.Header) {
		return nil, nil, unauthorized()
	}
	if !s.room.enter() {
		return nil, nil, hook.busy("saturated", "too many requests are being read")
	}
	b := body{room: &s.room}
	defer func() { s.room.leave(b.held) }()
	if err := b.read(r, hook.max); err != nil {
		return nil, nil, hook.unread(err)
	}
	req := &request{header: r.Header, query: r.URL.Query(), body: b.bytes, fit: s.fit}
	if hook.signed != nil {
		ok := false
		if req.id, ok = hook.signed.verify(r.Header, b.bytes, s.now()); !ok {
			return nil, nil, unauthorized()
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, nil, refuse(http.StatusUnsupportedMediaType, "unsupportedMediaType", "hooks take bodies without a Content-Encoding", resultInvalid)
	}
	read, refused := hook.read(req)
	if refused != nil {
		return nil, nil, refused
	}
	pushed, refused := s.commit(r.Context(), hook, read)
	return read, pushed, refused
}

func unauthorized() *refusal {
	return refuse(http.StatusUnauthorized, "unauthorized", "the request does not show that it comes from whom this hook is for", resultUnauthorized)
}

// busy is how a sender is told to try again: as a rule with 429. Alertmanager
// gives up on any 4xx, and so may a sender that is not known.
func (r *receiver) busy(code, detail string) *refusal {
	status := http.StatusTooManyRequests
	if r.kind == Alertmanager || r.kind == Generic {
		status = http.StatusServiceUnavailable
	}
	return later(status, code, detail+": send it again later", resultBusy, retrySoon)
}

// unread words why a body was not read whole.
func (r *receiver) unread(err error) *refusal {
	switch {
	case errors.Is(err, errTooLarge):
		return refuse(http.StatusRequestEntityTooLarge, "bodyTooLarge", fmt.Sprintf("the body is over %d bytes", r.max), resultTooLarge)
	case errors.Is(err, errNoRoom):
		return r.busy("saturated", "too much is being read")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "idle", fmt.Sprintf("the body did not come within %v", bodyTimeout), resultCut)
	default:
		return refuse(http.StatusBadRequest, "bodyCut", "the body ended before its length or its last chunk", resultCut)
	}
}

// commit gives the events to ingest. A sender that does not wait for the answer
// breaks off nothing: it may never send them again.
func (s *Service) commit(ctx context.Context, hook *receiver, read *reading) (*Pushed, *refusal) {
	var pushed Pushed
	if len(read.events) > 0 {
		var err error
		pushed, err = s.push(context.WithoutCancel(ctx), read.events)
		switch {
		case errors.Is(err, ErrBusy):
			return nil, hook.busy("windowFull", "the scope takes no events while it is being judged, or its decisions wait")
		case err != nil:
			s.logger.Warn("the store does not take what a hook brings", slog.String("hook", hook.name), slog.Any("error", err))
			return nil, later(http.StatusServiceUnavailable, "storeUnavailable", "the store does not take events: send it again later", resultUnavailable, retryLater)
		}
	}
	for i := range pushed.Faults { // where it stood in the request, not among those that could be read
		if at := pushed.Faults[i].Event - 1; at >= 0 && at < len(read.events) && read.events[at].number > 0 {
			pushed.Faults[i].Event = read.events[at].number
		}
	}
	pushed.Rejected += read.rejected
	pushed.Faults = append(read.faults, pushed.Faults...)
	return &pushed, nil
}
