package app

import (
	"net/http"
	"strings"
	"sync/atomic"

	"attend/internal/access"
	"attend/internal/config"
	"attend/internal/ingest/hooks"
	"attend/internal/problem"
)

// Codes of the problems about rights.
const (
	codeUnauthorized = "unauthorized"
	codeForbidden    = "forbidden"
)

// auth finds out who sends a request. Where tokens are configured, nobody gets
// in without one. Where there are none, anybody who gets past the guard may
// ingest and read, and nobody is an administrator, unless the daemon listens on
// a unix socket: that only its own user can open.
type auth struct {
	tokens    *access.Tokens
	anonymous atomic.Pointer[access.Principal] // everybody, where there are no tokens
	socket    bool                             // the daemon listens on one
}

// newAuth knows the tokens of the configuration. They must be stopped.
func newAuth(cfg *config.Config) *auth {
	a := &auth{tokens: access.NewTokens(tokensOf(cfg)), socket: cfg.Socket != ""}
	a.anonymous.Store(access.Anonymous(a.socket))
	return a
}

// replace puts other tokens in force. With the first of them, whoever came
// without one has no rights any longer.
func (a *auth) replace(cfg *config.Config) {
	before := a.anonymous.Load()
	a.tokens.Replace(tokensOf(cfg))
	if !a.tokens.Empty() {
		a.anonymous.Store(access.Anonymous(a.socket))
		before.Revoke()
	}
}

// tokensOf are the tokens of a configuration.
func tokensOf(cfg *config.Config) []access.Token {
	var all []access.Token
	if cfg.Token != "" {
		all = append(all, access.Token{
			Grant: access.Grant{Name: config.DefaultToken, Rights: access.Rights()},
			Sum:   access.SumOf(cfg.Token.Reveal()),
		})
	}
	for i := range cfg.Tokens {
		all = append(all, cfg.Tokens[i].Token)
	}
	return all
}

// open tells which paths need no token: what asks whether the process lives
// must not need its secrets, and a hook has a secret of its own.
func open(path string) bool {
	return path == pathHealth || path == pathReady || strings.HasPrefix(path, hooks.Path)
}

// wrap finds the sender of each request, and puts it into the context.
func (a *auth) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.tokens.Empty() {
			next.ServeHTTP(w, r.WithContext(access.With(r.Context(), a.anonymous.Load())))
			return
		}
		if open(r.URL.EscapedPath()) {
			next.ServeHTTP(w, r)
			return
		}
		token, sent := bearer(r)
		if !sent {
			unauthorized(w, "", "this daemon needs a token: send the header Authorization: Bearer <token>")
			return
		}
		caller, err := a.tokens.Find(token)
		switch {
		case err != nil:
			unauthorized(w, invalidToken, err.Error())
		case caller == nil:
			unauthorized(w, invalidToken, "the token is none of those that this daemon was given")
		default:
			next.ServeHTTP(w, r.WithContext(access.With(r.Context(), caller)))
		}
	})
}

// invalidToken is what is wrong, in the words of RFC 6750.
const invalidToken = `, error="invalid_token"`

func unauthorized(w http.ResponseWriter, why, detail string) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="attend"`+why)
	problem.New(http.StatusUnauthorized, codeUnauthorized, detail).Write(w)
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

// needs puts the check of a right before a handler that does not make it itself.
func needs(right string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if caller := access.From(r.Context()); !caller.May(right, "") {
			problem.New(http.StatusForbidden, codeForbidden, caller.Lacks(right)).Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}
