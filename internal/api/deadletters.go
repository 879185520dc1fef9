package api

import (
	"context"
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
	q := parseQuery(r, "scope", "after", "limit")
	filter, limit, after := q.filter(r.Context()), q.limit(), q.one("after")
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

// requeued is the answer to a requeue.
type requeued struct {
	ID       string      `json:"id"` // of the dead letter
	Scope    string      `json:"scope"`
	WindowID string      `json:"windowId"` // under which the window is judged again
	At       engine.Time `json:"at"`       // when it was requeued
}

// requeue answers POST /v1/deadletters/{id}/requeue: the window is judged
// again, alone and under its own id, as soon as the judge slot is free. A dead
// letter is requeued once: asking again gives the same answer.
func (a *API) requeue(w http.ResponseWriter, r *http.Request) error {
	record, err := a.findDeadLetter(r, access.Admin)
	if err != nil {
		return err
	}
	letter := record.Step.DeadLetter
	answer := requeued{ID: letter.ID, Scope: record.Scope, WindowID: letter.WindowID}
	before, err := a.requeuedAt(r.Context(), letter)
	if err != nil {
		return err
	}
	if before != 0 {
		answer.At = before
		return writeJSON(w, http.StatusAccepted, answer)
	}
	if err := a.checkRequeue(r.Context(), letter); err != nil {
		return err
	}
	receipts, err := a.Log.Append(r.Context(), store.Entry{Scope: record.Scope, Steps: []engine.Step{{
		Kind: engine.StepRequeue, Window: letter.WindowID, Requeue: &engine.Requeue{
			DeadLetter: letter.ID, Number: letter.Number, Settled: *letter.Settled, Members: letter.Members,
		},
	}}})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		return store.Describe("append a requeue", err)
	}
	answer.At = receipts[0].Stamp
	return writeJSON(w, http.StatusAccepted, answer)
}

// requeuedAt returns when the dead letter was requeued, 0 when it was not.
func (a *API) requeuedAt(ctx context.Context, letter *engine.DeadLetter) (engine.Time, error) {
	steps, err := a.Log.Steps(ctx, store.StepQuery{Window: letter.WindowID, Kinds: []engine.StepKind{engine.StepRequeue}, Limit: maxStory})
	if err != nil {
		return 0, fmt.Errorf("read requeues of window %s: %w", letter.WindowID, err)
	}
	for i := range steps {
		if q := steps[i].Step.Requeue; q != nil && q.DeadLetter == letter.ID {
			return steps[i].Stamp, nil
		}
	}
	return 0, nil
}

// checkRequeue refuses a dead letter that cannot be judged again.
func (a *API) checkRequeue(ctx context.Context, letter *engine.DeadLetter) error {
	if letter.Stage != engine.StageJudge {
		return refuse(http.StatusConflict, codeStage, "a dead letter of stage %s cannot be requeued by this version", letter.Stage)
	}
	if letter.Settled == nil {
		return refuse(http.StatusConflict, codeExpired, "the dead letter does not say which events its window held")
	}
	events, err := a.Log.Events(ctx, letter.Settled.Events)
	if err != nil {
		return fmt.Errorf("read the events of window %s: %w", letter.WindowID, err)
	}
	if gone := len(letter.Settled.Events) - len(events); gone > 0 || len(events) == 0 {
		return refuse(http.StatusConflict, codeExpired, "%d of the window's %d events are no longer kept: it cannot be judged again", gone, len(letter.Settled.Events))
	}
	return nil
}
