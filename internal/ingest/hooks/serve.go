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
	read, pushed, refused := s.take(w, r, hook)
	if refused != nil {
		s.refuse(w, hook, refused)
		return
	}
	s.metrics.count(hook.name, outcome(pushed))
	told := answer{pushed.Accepted, pushed.Duplicates}
	if pushed.Rejected > 0 {
		s.logger.Warn("a hook brought events that cannot be taken", slog.String("hook", hook.name), slog.Int("events", pushed.Rejected), firstOf(pushed.Faults))
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

// maxLogged is how many bytes of what is wrong with a request are logged: it may
// hold what the sender wrote.
const maxLogged = 256

// firstOf logs what is wrong with the first event that was refused.
func firstOf(faults []Fault) slog.Attr {
	if len(faults) == 0 {
		return slog.Attr{}
	}
	return slog.Group("first", slog.Int("event", faults[0].Event), slog.String("error", line(faults[0].Error, maxLogged)))
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
		s.logger.Debug("a request to a hook is not believed", slog.String("hook", hook.name), slog.Any("why", refused.why))
	case refused.what == resultInvalid: // by a sender that is who it says it is
		s.logger.Warn("a request to a hook cannot be taken", slog.String("hook", hook.name), slog.String("code", refused.Code),
			slog.String("detail", line(refused.Detail, maxLogged)))
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
func (s *Service) take(w http.ResponseWriter, r *http.Request, hook *receiver) (*reading, *Pushed, *refusal) {
	if hook.bears != nil {
		if err := hook.bears(r.Header); err != nil {
			return nil, nil, unauthorized(err)
		}
	}
	b := body{rooms: []room{hook.room, s.known}}
	if hook.signed != nil {
		b.rooms[1] = s.open
		b.deadline = func(t time.Time) { _ = http.NewResponseController(w).SetReadDeadline(t) }
	}
	defer b.leave()
	most := hook.most(r.Header)
	if err := b.read(r, most); err != nil {
		return nil, nil, hook.unread(err, most)
	}
	req := &request{header: r.Header, query: r.URL.Query(), body: b.bytes, fit: s.fit}
	if hook.signed != nil {
		var err error
		if req.id, err = hook.signed.verify(r.Header, b.bytes, s.now()); err != nil {
			return nil, nil, unauthorized(err)
		}
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, nil, refuse(http.StatusUnsupportedMediaType, "unsupportedMediaType", "hooks take bodies without a Content-Encoding", resultInvalid)
	}
	read, refused := s.parse(r.Context(), hook, req)
	if refused != nil {
		return nil, nil, refused
	}
	pushed, refused := s.commit(r.Context(), hook, read)
	return read, pushed, refused
}

// parse makes events of a request. What is parsed at once is bounded: of JSON
// many times its size is held while it is read.
func (s *Service) parse(ctx context.Context, hook *receiver, req *request) (*reading, *refusal) {
	weight := min(max(minParsed, int64(len(req.body))), maxParsed)
	if err := wait(ctx, s.desk, weight); err != nil {
		return nil, hook.busy("saturated", "too much is being read")
	}
	defer s.desk.Release(weight)
	return hook.read(req)
}

func unauthorized(why error) *refusal {
	r := refuse(http.StatusUnauthorized, "unauthorized", "the request does not show that it comes from whom this hook is for", resultUnauthorized)
	r.why = why
	return r
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
func (r *receiver) unread(err error, most int64) *refusal {
	switch {
	case errors.Is(err, errTooLarge):
		return tooLarge(most)
	case errors.Is(err, errNoRoom):
		return r.busy("saturated", "too much is being read")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refuse(http.StatusRequestTimeout, "idle", fmt.Sprintf("the body did not come within %v, or came too slowly", bodyTimeout), resultCut)
	default:
		return refuse(http.StatusBadRequest, "bodyCut", "the body ended before its length or its last chunk", resultCut)
	}
}

func tooLarge(most int64) *refusal {
	return refuse(http.StatusRequestEntityTooLarge, "bodyTooLarge", fmt.Sprintf("the body is over %d bytes", most), resultTooLarge)
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
