package api

import (
	"net/http"

	"attend/internal/access"
)

// Sources tells how the sources of events stand.
type Sources interface {
	// Sources returns all of them, in the order of the configuration.
	Sources() []SourceView
}

// SourceView is a source, ready to be encoded.
type SourceView struct {
	Scope string // of all of its events; "" where each event tells
	View  any
}

// sourceList is the answer of GET /v1/sources.
type sourceList struct {
	Sources []any `json:"sources"`
}

// listSources answers GET /v1/sources: those whose events the caller may read.
// One whose events may be of any scope is for who may read all.
func (a *API) listSources(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	caller := access.From(r.Context())
	list := sourceList{Sources: []any{}}
	for _, s := range a.Sources.Sources() {
		if s.Scope == "" && caller.ReadsAll() || s.Scope != "" && caller.May(access.Read, s.Scope) {
			list.Sources = append(list.Sources, s.View)
		}
	}
	return writeJSON(w, http.StatusOK, list)
}
