package api

import (
	"context"
	"errors"
	"net/http"

	"attend/internal/access"
	"attend/internal/feed"
	"attend/internal/store"
)

// scopePage is the answer of GET /v1/scopes.
type scopePage struct {
	Scopes []any `json:"scopes"`
	// Cursor goes into `after` of the next request; null at the end.
	Cursor *string `json:"cursor"`
}

// listScopes answers GET /v1/scopes, ordered by name.
func (a *API) listScopes(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r, "after", "limit")
	limit, cursor := q.limit(), q.one("after")
	if q.err != nil {
		return q.err
	}
	after, err := decodeScopeCursor(cursor)
	if err != nil {
		return err
	}
	views, err := a.visibleScopes(r.Context(), after, limit)
	if err != nil {
		return err
	}
	page := scopePage{Scopes: make([]any, len(views))}
	for i := range views {
		page.Scopes[i] = views[i].View
	}
	if len(views) == limit {
		next := feed.EncodeScopeCursor(views[limit-1].Scope)
		page.Cursor = &next
	}
	return writeJSON(w, http.StatusOK, page)
}

// visibleScopes returns at most limit scopes that the caller may read, ordered
// by name. Others take no place on a page and end none: a page that is not full
// is the last, and a cursor, which can be read, holds a name of the caller's.
func (a *API) visibleScopes(ctx context.Context, after string, limit int) ([]ScopeView, error) {
	visible := access.From(ctx).Visible()
	if visible == nil {
		return a.Scopes.Scopes(ctx, after, limit)
	}
	var found []ScopeView
	for {
		views, err := a.Scopes.Scopes(ctx, after, maxLimit)
		if err != nil {
			return nil, err
		}
		for i := range views {
			if after = views[i].Scope; !visible(after) {
				continue
			}
			if found = append(found, views[i]); len(found) == limit {
				return found, nil
			}
		}
		if len(views) < maxLimit {
			return found, nil
		}
	}
}

// showScope answers GET /v1/scopes/{scope}.
func (a *API) showScope(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	scope, err := segment(r)
	if err != nil {
		return err
	}
	if err := checkScope(scope); err != nil {
		return err
	}
	if err := hidden(r.Context(), access.Read, scope, "read"); err != nil {
		return err
	}
	view, err := a.Scopes.Scope(r.Context(), scope)
	if errors.Is(err, store.ErrNotFound) {
		return refuse(http.StatusNotFound, codeNotFound, "nothing is known of scope %q: no event has come, or everything is settled and forgotten", scope)
	}
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, view.View)
}

func decodeScopeCursor(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	scope, err := feed.DecodeScopeCursor(s)
	if err != nil || checkScope(scope) != nil {
		return "", refuse(http.StatusBadRequest, codeCursor, "after is no cursor of this list: send back the string as it was given out")
	}
	return scope, nil
}
