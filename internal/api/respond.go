package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	strict "github.com/go-json-experiment/json"

	"attend/internal/access"
	"attend/internal/fields"
	"attend/internal/problem"
	"attend/internal/store"
)

// Codes of the problems that the handlers answer with.
const (
	codeUnauthorized = "unauthorized"
	codeForbidden    = "forbidden"
	codeParameter    = "invalidParameter"
	codeCursor       = "invalidCursor"
	codeBody         = "invalidBody"
	codeTooLarge     = "bodyTooLarge"
	codeMediaType    = "unsupportedMediaType"
	codeNotFound     = "notFound"
	codeExpired      = "expired"
	codeStage        = "notRequeueable"
	codeWaiting      = "tooManyWaits"
	codeStreams      = "tooManyStreams"
	codeSilences     = "tooManySilences"
	codeConfig       = "invalidConfig"
	codeNoReload     = "noReload"
	codeUnavailable  = "unavailable"
	codeInternal     = "internal"
)

// refusal is an error whose text is meant for the caller.
type refusal struct {
	status int
	code   string
	detail string
}

// Error returns the detail.
func (r *refusal) Error() string { return r.detail }

func refuse(status int, code, format string, args ...any) error {
	return &refusal{status, code, fmt.Sprintf(format, args...)}
}

// hidden refuses a request for exactly one scope that its sender has not the
// right for, whether or not there is such a scope. verb says what it wanted.
func hidden(ctx context.Context, right, scope, verb string) error {
	if access.From(ctx).May(right, scope) {
		return nil
	}
	return refuse(http.StatusForbidden, codeForbidden, "the scope %q is not yours to %s", scope, verb)
}

// unknown turns "not found" into an answer that names what was asked for.
func unknown(err, notFound error, what, id string) error {
	if !errors.Is(err, notFound) {
		return err
	}
	return refuse(http.StatusNotFound, codeNotFound, "there is no %s %q, or it is no longer kept", what, id)
}

// fail answers an error. What is not meant for the caller is logged, and told
// in general words; an outage of the store once for all requests, and over for
// those that need the right which failed: it may still read where it cannot write.
func (a *API) fail(w http.ResponseWriter, r *http.Request, right string, err error) {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		if refused.status == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		problem.New(refused.status, refused.code, refused.detail).Write(w)
	case errors.Is(err, access.ErrRevoked):
		w.Header().Set("WWW-Authenticate", `Bearer realm="attend", error="invalid_token"`)
		problem.New(http.StatusUnauthorized, codeUnauthorized, access.ErrRevoked.Error()).Write(w)
	case r.Context().Err() != nil:
		// The caller has gone: nobody reads an answer.
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrConflict),
		errors.Is(err, fields.ErrStopping), errors.Is(err, context.DeadlineExceeded):
		a.outage.Failed(right, err)
		w.Header().Set("Retry-After", "1")
		problem.New(http.StatusServiceUnavailable, codeUnavailable, "the store does not answer: try again").Write(w)
	default:
		a.Logger.ErrorContext(r.Context(), "request failed", "route", describeRoute(r), "error", err)
		problem.New(http.StatusInternalServerError, codeInternal, "the daemon met a fault of its own: its log tells more").Write(w)
	}
}

// writeJSON answers with a JSON body. An error while writing means that the
// caller has gone; one while encoding is returned before anything is written.
func writeJSON(w http.ResponseWriter, status int, body any) error {
	b, err := encode(body)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b)
	return nil
}

// encode writes JSON on one line, with its end.
func encode(body any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // data is shown as it was sent
	if err := enc.Encode(body); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return b.Bytes(), nil
}

// readJSON reads a small JSON object into body. Unknown members are refused:
// a misspelt one would change what the call does; so are duplicates. curl is a
// line that would have been understood.
func readJSON(w http.ResponseWriter, r *http.Request, body any, curl string) error {
	b, err := readBody(w, r, maxBodyBytes, curl)
	if err != nil {
		return err
	}
	if err := strict.Unmarshal(b, body, strict.RejectUnknownMembers(true)); err != nil {
		return unreadable(err, curl)
	}
	if string(bytes.TrimSpace(b)) == "null" {
		return unreadable(errors.New("it is null"), curl)
	}
	return nil
}

// unreadable says what is wrong with a body, and what would be right.
func unreadable(err error, curl string) error {
	return refuse(http.StatusBadRequest, codeBody, "the body cannot be read: %v; it should look like: %s", err, curl)
}

// readBody reads a body of JSON whole, up to most bytes.
func readBody(w http.ResponseWriter, r *http.Request, most int64, curl string) ([]byte, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/json" {
		return nil, refuse(http.StatusUnsupportedMediaType, codeMediaType, "Content-Type is %q: want application/json, as in: %s", r.Header.Get("Content-Type"), curl)
	}
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(time.Now().Add(readTimeout))
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	_ = deadlines.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, refuse(http.StatusRequestEntityTooLarge, codeTooLarge, "the body is over %d bytes", most)
	case err != nil:
		return nil, refuse(http.StatusBadRequest, codeBody, "the body did not come whole")
	}
	return b, nil
}
