package app

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"attend/internal/fields"
	"attend/internal/problem"
)

// Codes of the problems about rights.
const (
	codeUnauthorized = "unauthorized"
	codeForbidden    = "forbidden"
)

// defaultPrincipal is who the one configured token stands for.
const defaultPrincipal = "default"

// access decides who may do what. With a token, whoever brings it has every
// right and nobody else has any; without one, anybody who gets past the guard
// may ingest and read, and nobody is an administrator, unless the daemon
// listens on a unix socket: that only its own user can open.
type access struct {
	closed bool     // a token is set
	sum    [32]byte // its SHA-256
	socket bool     // the daemon listens on a unix socket
}

func newAccess(token string, socket bool) *access {
	if token == "" {
		return &access{socket: socket}
	}
	return &access{closed: true, sum: sha256.Sum256([]byte(token)), socket: socket}
}

// principal is the name of whoever gets in, "" when everybody does.
func (a *access) principal() string {
	if a.closed {
		return defaultPrincipal
	}
	return ""
}

// open tells which paths need no token: what asks whether the process lives
// must not need its secrets.
func open(path string) bool { return path == pathHealth || path == pathReady }

// wrap puts the check of the token before a handler.
func (a *access) wrap(next http.Handler) http.Handler {
	if !a.closed {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if open(r.URL.EscapedPath()) {
			next.ServeHTTP(w, r)
			return
		}
		token, sent := bearer(r)
		switch {
		case !sent:
			w.Header().Set("WWW-Authenticate", `Bearer realm="attend"`)
			problem.New(http.StatusUnauthorized, codeUnauthorized, "this daemon needs a token: send the header Authorization: Bearer <token>").Write(w)
		case !a.matches(token):
			w.Header().Set("WWW-Authenticate", `Bearer realm="attend", error="invalid_token"`)
			problem.New(http.StatusUnauthorized, codeUnauthorized, "the token is not the one that this daemon was given").Write(w)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// matches compares digests, so that the time it takes tells neither the token
// nor its length.
func (a *access) matches(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], a.sum[:]) == 1
}

// bearer reads the token out of the one Authorization header.
func bearer(r *http.Request) (token string, sent bool) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", false
	}
	scheme, token, found := strings.Cut(headers[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return strings.TrimSpace(token), true
}

// admin puts the check of the right "admin" before a handler.
func (a *access) admin(next http.Handler) http.Handler {
	if a.closed || a.socket {
		return next // whoever came this far brought the token, or is the daemon's own user
	}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problem.New(http.StatusForbidden, codeForbidden,
			"this needs the right admin, which a token or a unix socket gives: set ATTEND_TOKEN for the daemon and send Authorization: Bearer <token>, or let it listen on ATTEND_SOCKET").Write(w)
	})
}

// fields says which Fields the caller may use, and for which agents it may speak
// there. One token has every right, so there is nothing to refuse yet.
func (a *access) fields() fields.Access { return fields.Access{} }
