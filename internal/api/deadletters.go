package api

import (
	"fmt"
	"net/http"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
)

// deadLetterPage is the answer of GET /v1/deadletters.
type deadLetterPage struct {
	DeadLetters []any  `json:"deadLetters"`
	Cursor      string `json:"cursor"`
	Truncated   bool   `json:"truncated,omitempty"`
}

// listDeadLetters answers GET /v1/deadletters: oldest first, from the oldest
// kept unless `after` says otherwise.
func (a *API) listDeadLetters(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r, "scope", "stage", "after", "limit")
	filter, limit, after := q.filter(r.Context()), q.limit(), q.one("after")
	filter.Stages = q.stages()
	if q.err != nil {
		return q.err
	}
	filter.Kinds = []feed.Kind{feed.KindDeadLetter}
	page, err := a.page(r.Context(), after, filter, limit, 0)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, deadLetterPage{DeadLetters: page.items, Cursor: page.cursor, Truncated: page.truncated})
}

// showDeadLetter answers GET /v1/deadletters/{id}.
func (a *API) showDeadLetter(w http.ResponseWriter, r *http.Request) error {
	record, err := a.findDeadLetter(r, access.Read)
	if err != nil {
		return err
	}
	body, _, err := a.show(r.Context(), &feed.Item{
		Position: record.Position, Stamp: record.Stamp, Scope: record.Scope, DeadLetter: record.Step.DeadLetter,
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, body)
}

// findDeadLetter reads the step that the path names. One of a scope in which the
// caller has not the right looks as one that was never there.
func (a *API) findDeadLetter(r *http.Request, right string) (*engine.Record, error) {
	if q := parseQuery(r); q.err != nil {
		return nil, q.err
	}
	id, err := segment(r)
	if err != nil {
		return nil, err
	}
	steps, err := a.Log.Steps(r.Context(), store.StepQuery{ID: id, Kinds: []engine.StepKind{engine.StepDeadLetter}, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("read dead letter: %w", err)
	}
	if id == "" || len(steps) == 0 || steps[0].Step.DeadLetter == nil || !access.From(r.Context()).May(right, steps[0].Scope) {
		return nil, unknown(store.ErrNotFound, store.ErrNotFound, "dead letter", id)
	}
	return &steps[0], nil
}
