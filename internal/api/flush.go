package api

import (
	"context"
	"net/http"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/store"
)

// flushed is the answer to a flush call.
type flushed struct {
	Scope string `json:"scope"`
	// Marked is what the scope had at that moment: a subset of open, held and
	// judging; empty when there was nothing, null when it is not known yet.
	Marked []string `json:"marked"`
}

// flushBody answers POST /v1/flush.
func (a *API) flushBody(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	var body struct {
		Scope string `json:"scope"`
	}
	if err := readJSON(w, r, &body, `curl -H 'Content-Type: application/json' -d '{"scope":"chat:42"}' `+"http://…/v1/flush"); err != nil {
		return err
	}
	return a.flush(w, r, body.Scope)
}

// flushPath answers POST /v1/scopes/{scope}/flush.
func (a *API) flushPath(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	scope, err := segment(r)
	if err != nil {
		return err
	}
	return a.flush(w, r, scope)
}

// flush answers a flush call.
func (a *API) flush(w http.ResponseWriter, r *http.Request, scope string) error {
	if err := checkScope(scope); err != nil {
		return err
	}
	if err := hidden(r.Context(), access.Ingest, scope, "flush"); err != nil {
		return err
	}
	marked, err := a.Flush(r.Context(), scope)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusAccepted, flushed{Scope: scope, Marked: marked})
}

// Flush writes a flush call into the log and waits a moment for what it marked:
// a subset of open, held and judging, empty when there was nothing, nil when it
// is not known in time. The call counts from when it is written, whether or not
// the wait succeeds.
func (a *API) Flush(ctx context.Context, scope string) (marked []string, err error) {
	if err := checkScope(scope); err != nil {
		return nil, err
	}
	at, err := a.append(ctx, scope, engine.Step{Kind: engine.StepFlush})
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	marked, err = a.Marks.Marked(waiting, at)
	if err != nil {
		a.Logger.WarnContext(ctx, "a flush is in the log, and not applied yet", "position", at, "error", err)
		return nil, nil
	}
	if marked == nil {
		marked = []string{}
	}
	return marked, nil
}

// append writes one step from outside and returns its position.
func (a *API) append(ctx context.Context, scope string, step engine.Step) (engine.Position, error) {
	receipts, err := a.Log.Append(ctx, store.Entry{Scope: scope, Steps: []engine.Step{step}})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		return 0, store.Describe("append a "+string(step.Kind), err)
	}
	return receipts[0].First, nil
}
