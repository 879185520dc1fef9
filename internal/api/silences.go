package api

import (
	"context"
	"errors"
	"net/http"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/silences"
)

// Silences keep scopes from the judge for a time, as *silences.Service does.
type Silences interface {
	Add(ctx context.Context, who silences.Maker, ask *silences.Request) (silences.Silence, error)
	End(ctx context.Context, who, id string, may func(*engine.Silence) bool) (silences.Silence, error)
	Find(ctx context.Context, id string, may func(*engine.Silence) bool) (silences.Silence, error)
	List(ctx context.Context, ended bool, limit int, may func(*engine.Silence) bool) ([]silences.Silence, bool, error)
}

// silenceList is the answer of GET /v1/silences.
type silenceList struct {
	Silences []silences.Silence `json:"silences"` // newest first
	More     bool               `json:"more"`     // there are others beyond the limit
}

// inAll is a filter of the silences in whose every scope a caller has a right:
// the others would tell of scopes that are none of its.
func inAll(ctx context.Context, right string) func(*engine.Silence) bool {
	caller := access.From(ctx)
	return func(s *engine.Silence) bool { return caller.MayAll(right, s.Scope) }
}

// listSilences answers GET /v1/silences: those that have not ended, or with
// `all` the others too.
func (a *API) listSilences(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r, "all", "limit")
	limit, all := q.limit(), q.flag("all")
	if q.err != nil {
		return q.err
	}
	list, more, err := a.Silences.List(r.Context(), all, limit, inAll(r.Context(), access.Read))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, silenceList{list, more})
}

// addSilence answers POST /v1/silences.
func (a *API) addSilence(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	var ask silences.Request
	if err := readJSON(w, r, &ask, `curl -H 'Content-Type: application/json' -d '{"scope":"repo:*","forMs":3600000,"why":"the deploy"}' `+"http://…/v1/silences"); err != nil {
		return err
	}
	caller := access.From(r.Context())
	if ask.Scope != "" && !caller.MayAll(access.Admin, ask.Scope) {
		return refuse(http.StatusForbidden, codeForbidden, "not every scope that %q matches is yours to silence", ask.Scope)
	}
	made, err := a.Silences.Add(r.Context(), silences.Maker{Name: caller.Name, Limited: !caller.MayAll(access.Admin, "*")}, &ask)
	var wrong *silences.Mistake
	switch {
	case errors.As(err, &wrong):
		return refuse(http.StatusBadRequest, codeBody, "%v", wrong)
	case errors.Is(err, silences.ErrTooMany):
		return refuse(http.StatusConflict, codeSilences, "%v", err)
	case err != nil:
		return err
	}
	return writeJSON(w, http.StatusCreated, made)
}

// showSilence answers GET /v1/silences/{id}.
func (a *API) showSilence(w http.ResponseWriter, r *http.Request) error {
	return a.oneSilence(w, r, func(ctx context.Context, id string) (silences.Silence, error) {
		return a.Silences.Find(ctx, id, inAll(ctx, access.Read))
	})
}

// endSilence answers DELETE /v1/silences/{id}. The silence stays in the log.
func (a *API) endSilence(w http.ResponseWriter, r *http.Request) error {
	return a.oneSilence(w, r, func(ctx context.Context, id string) (silences.Silence, error) {
		return a.Silences.End(ctx, access.From(ctx).Name, id, inAll(ctx, access.Admin))
	})
}

// oneSilence answers a request about the silence that the path names.
func (a *API) oneSilence(w http.ResponseWriter, r *http.Request, do func(ctx context.Context, id string) (silences.Silence, error)) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	id, err := segment(r)
	if err != nil {
		return err
	}
	one, err := do(r.Context(), id)
	if err != nil {
		return unknown(err, silences.ErrNotFound, "silence", id)
	}
	return writeJSON(w, http.StatusOK, one)
}
