package mcpserve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

const (
	maxBodyBytes = 4 << 20
	bodyTimeout  = 15 * time.Second
	// An answer may take as long as the longest wait, and then some.
	answerTimeout = maxWait + 30*time.Second
)

// errCancelled ends the context of a request that its caller has cancelled.
var errCancelled = errors.New("cancelled by the caller")

// ServeHTTP answers POST (one message), and for the sessions of the 2025
// revisions GET (their stream) and DELETE (their end).
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodPost:
		s.post(w, r)
	case http.MethodGet:
		s.serveNotifications(w, r)
	case http.MethodDelete:
		s.endSession(w, r)
	default:
		w.Header().Set("Allow", "DELETE, GET, POST")
		http.Error(w, "this address answers POST (one JSON-RPC message), GET (a session's stream) and DELETE (end a session)", http.StatusMethodNotAllowed)
	}
}

// post takes one message in.
func (s *Server) post(w http.ResponseWriter, r *http.Request) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		http.Error(w, "Content-Type must be application/json", http.StatusUnsupportedMediaType)
		return
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	msg, bad := decode(body)
	if bad != nil {
		s.fail(w, jsonrpc.ID{}, bad, isModern(r))
		return
	}
	req, ok := msg.(*jsonrpc.Request)
	if !ok { // an answer to a request that nobody has made
		w.WriteHeader(http.StatusAccepted)
		return
	}
	s.request(w, r, req, body)
}

func readBody(w http.ResponseWriter, r *http.Request) (body []byte, ok bool) {
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // a writer without deadlines has its own
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
	_ = conn.SetReadDeadline(time.Time{})
	_ = conn.SetWriteDeadline(time.Now().Add(answerTimeout))
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		http.Error(w, fmt.Sprintf("the body has more than %d bytes", tooLarge.Limit), http.StatusRequestEntityTooLarge)
		return nil, false
	}
	if err != nil {
		http.Error(w, "the body could not be read", http.StatusBadRequest)
		return nil, false
	}
	return body, true
}

// decode reads one message. A batch is one error, whatever is in it.
func decode(body []byte) (jsonrpc.Message, *jsonrpc.Error) {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	if len(trimmed) > 0 && trimmed[0] == '[' {
		return nil, rpcError(jsonrpc.CodeInvalidRequest, nil, "batches are not taken: send one message a request")
	}
	if !json.Valid(body) {
		return nil, rpcError(jsonrpc.CodeParseError, nil, "the body is not one JSON value")
	}
	if bad := checkID(body); bad != nil {
		return nil, bad
	}
	msg, err := jsonrpc.DecodeMessage(body)
	if err != nil {
		return nil, rpcError(jsonrpc.CodeInvalidRequest, nil, "the body is not a JSON-RPC 2.0 message")
	}
	return msg, nil
}

// checkID refuses ids that would not come back as they were sent: null, which
// the protocol excludes, fractions, and integers that a float64 cannot hold.
func checkID(body []byte) *jsonrpc.Error {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal(body, &m) // what is no object has no id, and is refused later
	if len(m.ID) == 0 || m.ID[0] == '"' {
		return nil
	}
	const most = 1 << 53
	if n, err := strconv.ParseInt(string(m.ID), 10, 64); err != nil || n < -most || n > most {
		return rpcError(jsonrpc.CodeInvalidRequest, nil, "the id must be a string or an integer")
	}
	return nil
}

// request finds out the era and the session of a request, gives it a context
// that ends when the caller goes or cancels, and has it answered.
func (s *Server) request(w http.ResponseWriter, r *http.Request, req *jsonrpc.Request, body []byte) {
	modern := isModern(r)
	sdk := forSDK(req.Method)
	if !sdk {
		if bad := checkEra(r, req); bad != nil {
			s.metrics.request(req.Method, false)
			s.fail(w, req.ID, bad, modern)
			return
		}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	if !modern {
		leave, ok := s.enterSession(w, r, req, cancel)
		if !ok {
			return
		}
		defer leave()
	}
	switch {
	case !req.IsCall(): // nothing that may be notified asks for more than that
		w.WriteHeader(http.StatusAccepted)
	case sdk:
		s.passOn(ctx, w, r, req, body, modern)
	case req.Method == "events/stream":
		s.serveStream(ctx, w, r, req, modern)
	case req.Method == "subscriptions/listen" && modern:
		s.serveListen(ctx, w, r, req)
	case strings.HasPrefix(req.Method, "events/"):
		s.serveEvents(ctx, w, req, modern)
	default:
		s.metrics.request(req.Method, false)
		s.fail(w, req.ID, unknownMethod(req.Method), modern)
	}
}

// forSDK tells which methods the SDK answers. It would answer others, too: for
// prompts and resources, which are not declared here, with empty lists.
func forSDK(method string) bool {
	switch method {
	case "initialize", "server/discover", "ping", "tools/list", "tools/call":
		return true
	default:
		return false
	}
}

// Keys of what handlers of the SDK find in their context.
type (
	callKey struct{} // the front's own context
	eraKey  struct{} // true in the era without sessions
)

// callContext returns the context that ends when the caller goes or cancels.
// The SDK detaches the contexts of its handlers from the request in the 2025
// revisions, and does not see a cancellation, which comes in a request of its
// own.
func callContext(ctx context.Context) context.Context {
	if call, ok := ctx.Value(callKey{}).(context.Context); ok {
		return call
	}
	return ctx
}

// callIsModern tells the era of the request that a handler of the SDK answers.
func callIsModern(ctx context.Context) bool { return ctx.Value(eraKey{}) == true }

// passOn lets the SDK answer.
func (s *Server) passOn(ctx context.Context, w http.ResponseWriter, r *http.Request, req *jsonrpc.Request, body []byte, modern bool) {
	s.metrics.request(req.Method, true)
	answer := &answerWriter{ResponseWriter: w, cause: func() error { return context.Cause(ctx) }}
	if req.Method == "initialize" && !modern {
		answer.open = func() string {
			caller := s.opts.Caller(ctx)
			known, _ := s.changes.look()
			return s.sessions.open(caller.Name, known)
		}
	}
	inner, body := spare(context.WithValue(context.WithValue(r.Context(), callKey{}, ctx), eraKey{}, modern), req, body)
	r = r.WithContext(inner)
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.sdk.ServeHTTP(answer, r)
}
