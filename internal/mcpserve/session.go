package mcpserve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// errTakenOver ends the stream of a session whose client has opened another.
var errTakenOver = errors.New("the session has a newer stream")

// sessions are those of the 2025 revisions. A session is no more than an id
// under which a client cancels its own requests, and hears of what is no answer
// to any: all else is in each request.
// It needs no goroutine: those that have gone idle are found when a new one is
// opened.
type sessions struct {
	max  int
	idle time.Duration
	now  func() time.Time

	mu   sync.Mutex
	byID map[string]*session
}

type session struct {
	owner    string // the principal that opened it; nobody else may use it
	heard    time.Time
	inFlight map[any]context.CancelCauseFunc // by JSON-RPC id: int64 or string
	stream   *context.CancelCauseFunc        // ends the one that GET has opened; nil while there is none
	told     uint64                          // changes of the event types that its client knows of
}

func newSessions(limit int, idle time.Duration, now func() time.Time) *sessions {
	return &sessions{max: limit, idle: idle, now: now, byID: make(map[string]*session)}
}

// open starts a session and returns its id. told counts the changes of the
// event types so far. Beyond the limit the one that has
// been idle for the longest time makes room.
func (s *sessions) open(owner string, told uint64) string {
	id := rand.Text()
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byID) >= s.max {
		s.sweep(now)
	}
	s.byID[id] = &session{owner: owner, heard: now, told: told, inFlight: make(map[any]context.CancelCauseFunc)}
	return id
}

// sweep drops sessions that are past their time, or else the idlest one. The
// caller holds mu.
func (s *sessions) sweep(now time.Time) {
	var idlest string
	var since time.Time
	for id, sess := range s.byID { //arch:sorted whichever goes, none shows
		if s.expired(sess, now) {
			delete(s.byID, id)
			continue
		}
		if sess.idle() && (idlest == "" || sess.heard.Before(since)) {
			idlest, since = id, sess.heard
		}
	}
	if len(s.byID) >= s.max {
		delete(s.byID, idlest)
	}
}

func (s *sessions) expired(sess *session, now time.Time) bool {
	return sess.idle() && now.Sub(sess.heard) >= s.idle
}

func (s *session) idle() bool { return len(s.inFlight) == 0 && s.stream == nil }

// find returns the owner's session of that id, and notes that it was heard.
// The caller holds mu.
func (s *sessions) find(id, owner string) *session {
	sess := s.byID[id]
	if sess == nil || sess.owner != owner {
		return nil
	}
	now := s.now()
	if s.expired(sess, now) {
		delete(s.byID, id)
		return nil
	}
	sess.heard = now
	return sess
}

// enter notes a request as in flight, so that it can be cancelled by its id.
// known is false when there is no such session, fresh when the id is already
// in flight. leave, unless nil, must be called when the request is over.
func (s *sessions) enter(id, owner string, req *jsonrpc.Request, cancel context.CancelCauseFunc) (leave func(), known, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.find(id, owner)
	if sess == nil {
		return nil, false, false
	}
	if !req.IsCall() {
		return nil, true, true
	}
	key := req.ID.Raw()
	if _, taken := sess.inFlight[key]; taken {
		return nil, true, false
	}
	sess.inFlight[key] = cancel
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(sess.inFlight, key)
		sess.heard = s.now()
	}, true, true
}

// cancel ends the request in flight under a JSON-RPC id, if there is one.
func (s *sessions) cancel(id, owner string, key any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess := s.find(id, owner); sess != nil {
		if cancel := sess.inFlight[key]; cancel != nil {
			cancel(errCancelled)
		}
	}
}

// end closes a session and cancels what is in flight on it; false when there
// is none.
func (s *sessions) end(id, owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.find(id, owner)
	if sess == nil {
		return false
	}
	delete(s.byID, id)
	for _, cancel := range sess.inFlight { //arch:sorted all of them
		cancel(errSessionEnded)
	}
	if sess.stream != nil {
		(*sess.stream)(errSessionEnded)
	}
	return true
}

// listen notes the stream that GET opens for a session, and ends an older one.
// told counts the changes that its client knows of, mark notes more of them.
// leave, nil when there is no such session, must be called at its end.
func (s *sessions) listen(id, owner string, cancel context.CancelCauseFunc) (told uint64, mark func(uint64), leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.find(id, owner)
	if sess == nil {
		return 0, nil, nil
	}
	if sess.stream != nil {
		(*sess.stream)(errTakenOver)
	}
	sess.stream = &cancel
	mark = func(told uint64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		sess.told = max(sess.told, told)
	}
	return sess.told, mark, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if sess.stream == &cancel {
			sess.stream = nil
			sess.heard = s.now()
		}
	}
}

func (s *sessions) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byID)
}

// enterSession holds a request of the 2025 revisions to its session, if it
// names one. When ok is false the request has been answered.
func (s *Server) enterSession(w http.ResponseWriter, r *http.Request, req *jsonrpc.Request, cancel context.CancelCauseFunc) (leave func(), ok bool) {
	leave = func() {}
	id := r.Header.Get(headerSession)
	if id == "" || req.Method == "initialize" {
		return leave, true
	}
	caller := s.opts.Caller(r.Context())
	done, known, fresh := s.sessions.enter(id, caller.Name, req, cancel)
	switch {
	case !known:
		s.noSession(w, req.ID)
		return nil, false
	case !fresh:
		s.fail(w, req.ID, rpcError(jsonrpc.CodeInvalidRequest, nil, "a request with the id %v is already in flight", req.ID.Raw()), false)
		return nil, false
	case req.Method == "notifications/cancelled":
		if key, found := cancelledID(req.Params); found {
			s.sessions.cancel(id, caller.Name, key)
		}
	case done != nil:
		leave = done
	}
	return leave, true
}

// cancelledID reads the id of the request to cancel, as jsonrpc.ID.Raw would
// give it: a JSON number is an int64 there.
func cancelledID(params json.RawMessage) (key any, ok bool) {
	var p struct {
		RequestID any `json:"requestId"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return nil, false
	}
	id, err := jsonrpc.MakeID(p.RequestID)
	if err != nil || !id.IsValid() {
		return nil, false
	}
	return id.Raw(), true
}

// endSession answers DELETE.
func (s *Server) endSession(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get(headerSession)
	caller := s.opts.Caller(r.Context())
	switch {
	case id == "":
		http.Error(w, "DELETE ends a session and needs the header "+headerSession, http.StatusBadRequest)
	case !s.sessions.end(id, caller.Name):
		s.noSession(w, jsonrpc.ID{})
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *Server) noSession(w http.ResponseWriter, id jsonrpc.ID) {
	s.failWith(w, http.StatusNotFound, id, rpcError(codeNoSession, nil, "no such session: begin a new one with initialize"))
}
