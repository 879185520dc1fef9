package mcpserve

import (
	"errors"
	"net/http"
)

// answerWriter is what the SDK answers through.
type answerWriter struct {
	http.ResponseWriter
	cause func() error  // why the request's context has ended, nil while it has not
	open  func() string // unless nil, opens the session that a successful answer begins
	wrote bool
}

// WriteHeader opens the session before the headers go out.
func (w *answerWriter) WriteHeader(status int) {
	if !w.wrote {
		w.wrote = true
		if w.open != nil && status == http.StatusOK {
			w.Header().Set(headerSession, w.open())
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write drops the answer to a request that its caller has cancelled: the
// caller has forgotten the id and would report a stray answer.
func (w *answerWriter) Write(b []byte) (int, error) {
	if errors.Is(w.cause(), errCancelled) {
		return len(b), nil
	}
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *answerWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
