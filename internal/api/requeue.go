package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
)

// requeued is the answer to a requeue.
type requeued struct {
	ID       string      `json:"id"` // of the dead letter
	Scope    string      `json:"scope"`
	WindowID string      `json:"windowId"` // under which the window is judged, or its decision delivered, again
	At       engine.Time `json:"at"`       // when it was requeued
}

// requeue answers POST /v1/deadletters/{id}/requeue: the window is judged
// again, alone and under its own id, as soon as the judge slot is free, or its
// decision is put at the end of the scope's outbox. A dead letter is requeued
// once: asking again gives the same answer.
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
	stamps, err := a.appendRequeues(r.Context(), []*engine.Record{record})
	if err != nil {
		return err
	}
	answer.At = stamps[0]
	return writeJSON(w, http.StatusAccepted, answer)
}

// requeueFilter selects dead letters. Empty fields select all.
type requeueFilter struct {
	Scope  string      `json:"scope"`  // glob
	Stage  string      `json:"stage"`  // judge or sink
	Before engine.Time `json:"before"` // made before this
	After  string      `json:"after"`  // a cursor: goes on behind an earlier answer
	Limit  int         `json:"limit"`  // at most this many are looked at; 0 is the default
}

// requeuedMany is the answer to a requeue by filter.
type requeuedMany struct {
	Requeued []requeued `json:"requeued"`
	Skipped  int        `json:"skipped"` // that match, and were requeued before or cannot be
	Cursor   string     `json:"cursor"`  // behind the last that was looked at
	More     bool       `json:"more"`    // there are more: ask again with after
}

// requeueMany answers POST /v1/deadletters/requeue: what a filter selects, a
// page at a time, oldest first.
func (a *API) requeueMany(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	var body requeueFilter
	if err := readJSON(w, r, &body, `curl -H 'Content-Type: application/json' -d '{"stage":"sink"}' `+"http://…/v1/deadletters/requeue"); err != nil {
		return err
	}
	filter, err := body.filter(r.Context())
	if err != nil {
		return err
	}
	head, err := a.Feed.Head(r.Context())
	if err != nil {
		return err
	}
	start, _, err := place("after", body.After, head)
	if err != nil {
		return err
	}
	limit := body.Limit
	if limit == 0 {
		limit = defaultLimit
	}
	page, err := a.Feed.Page(r.Context(), start, filter, limit, maxPageBytes)
	if err != nil {
		return err
	}
	answer := requeuedMany{Requeued: []requeued{}, Cursor: feed.Cursor{Epoch: head.Epoch, Position: page.Next}.Encode(), More: page.Next < head.Position}
	if err := a.requeuePage(r.Context(), &body, &page, &answer); err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, answer)
}

// filter makes the filter of the feed.
func (f *requeueFilter) filter(ctx context.Context) (feed.Filter, error) {
	out := feed.Filter{Kinds: []feed.Kind{feed.KindDeadLetter}, Visible: access.From(ctx).Visible()}
	if f.Scope != "" {
		out.Scopes = []string{f.Scope}
	}
	if f.Stage != "" {
		if err := checkStage(f.Stage); err != nil {
			return out, refuse(http.StatusBadRequest, codeParameter, "stage: %v", err)
		}
		out.Stages = []string{f.Stage}
	}
	if f.Limit < 0 || f.Limit > maxLimit || f.Before < 0 {
		return out, refuse(http.StatusBadRequest, codeParameter, "limit must be from 1 to %d, and before at least 0", maxLimit)
	}
	if err := out.Check(); err != nil {
		return out, refuse(http.StatusBadRequest, codeParameter, "%v", err)
	}
	return out, nil
}

// requeuePage requeues those of a page that can be and have not been, in one
// call of the store.
func (a *API) requeuePage(ctx context.Context, f *requeueFilter, page *feed.Page, answer *requeuedMany) error {
	var records []*engine.Record
	for i := range page.Items {
		it := &page.Items[i]
		letter := it.DeadLetter
		if f.Before > 0 && letter.At >= f.Before || !access.From(ctx).May(access.Admin, it.Scope) {
			continue
		}
		at, err := a.requeuedAt(ctx, letter)
		if err != nil {
			return err
		}
		if at == 0 {
			err = a.checkRequeue(ctx, letter)
		}
		if final := (*refusal)(nil); at != 0 || errors.As(err, &final) {
			answer.Skipped++
			continue
		}
		if err != nil {
			return err
		}
		records = append(records, &engine.Record{Position: it.Position, Scope: it.Scope, Step: &engine.Step{DeadLetter: letter}})
	}
	stamps, err := a.appendRequeues(ctx, records)
	if err != nil {
		return err
	}
	for i, rec := range records {
		letter := rec.Step.DeadLetter
		answer.Requeued = append(answer.Requeued, requeued{ID: letter.ID, Scope: rec.Scope, WindowID: letter.WindowID, At: stamps[i]})
	}
	return nil
}

// appendRequeues writes that dead letters are requeued, and returns when each
// was.
func (a *API) appendRequeues(ctx context.Context, records []*engine.Record) ([]engine.Time, error) {
	if len(records) == 0 {
		return nil, nil
	}
	entries := make([]store.Entry, len(records))
	for i, rec := range records {
		entries[i] = store.Entry{Scope: rec.Scope, Steps: []engine.Step{requeueOf(rec)}}
	}
	receipts, err := a.Log.Append(ctx, entries...)
	stamps := make([]engine.Time, len(receipts))
	for i := range receipts {
		stamps[i] = receipts[i].Stamp
		err = errors.Join(err, receipts[i].Err)
	}
	if err != nil {
		return nil, store.Describe("append a requeue", err)
	}
	return stamps, nil
}

// requeueOf is the step that asks for a dead letter again.
func requeueOf(rec *engine.Record) engine.Step {
	letter := rec.Step.DeadLetter
	q := &engine.Requeue{DeadLetter: letter.ID, Number: letter.Number}
	if letter.Stage == engine.StageSink {
		q.Stage, q.Position, q.Route = engine.StageSink, rec.Position, letter.Decision.Route
	} else {
		q.Settled, q.Members = *letter.Settled, letter.Members
	}
	return engine.Step{Kind: engine.StepRequeue, Window: letter.WindowID, Requeue: q}
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

// checkRequeue refuses a dead letter that cannot be judged or delivered again.
func (a *API) checkRequeue(ctx context.Context, letter *engine.DeadLetter) error {
	switch {
	case letter.Stage == engine.StageSink && letter.Decision == nil:
		return refuse(http.StatusConflict, codeExpired, "the decision was no longer kept when it was given up: it cannot be delivered again")
	case letter.Stage == engine.StageSink:
		return a.checkSink(ctx, letter.Decision.Route)
	case letter.Stage != engine.StageJudge:
		return refuse(http.StatusConflict, codeStage, "a dead letter of stage %s cannot be requeued", letter.Stage)
	case letter.Settled == nil:
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

// checkSink refuses a route for which the policy in force has no sink.
func (a *API) checkSink(ctx context.Context, route engine.Route) error {
	newest := new(engine.Policy)
	for q := (store.StepQuery{Kinds: []engine.StepKind{engine.StepPolicy}}); ; {
		steps, err := a.Log.Steps(ctx, q)
		if err != nil {
			return fmt.Errorf("read the policies: %w", err)
		}
		for i := range steps {
			q.After = steps[i].Position
			if p := steps[i].Step.Policy; p != nil && p.Number > newest.Number {
				newest = p
			}
		}
		if len(steps) < q.Count() {
			break
		}
	}
	if newest.Sinks[route] == "" {
		return refuse(http.StatusConflict, codeStage, "no sink takes the route %s any more: configure one, and requeue it then", route)
	}
	return nil
}
