package api

import (
	"context"
	"net/http"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/store"
)

// showDecision answers GET /v1/decisions/{id}: D whole, and how it came about.
// The id may be that of a window that was held: it leads to the decision that
// took it in.
func (a *API) showDecision(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	id, err := segment(r)
	if err != nil {
		return err
	}
	story, err := a.Feed.Story(r.Context(), id)
	if err == nil && !access.From(r.Context()).May(access.Read, story.Scope) {
		err = store.ErrNotFound // what is hidden looks as what was never there
	}
	if err != nil {
		return unknown(err, store.ErrNotFound, "decision", id)
	}
	if err := a.wholeEvents(r.Context(), &story.Decision, story.Settled); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, story)
}

// wholeEvents puts every event of the window into D, with text and data
// uncut. Where some are no longer kept, those that D holds stay.
func (a *API) wholeEvents(ctx context.Context, d *engine.Decision, settled *engine.Settled) error {
	records, err := a.kept(ctx, settled)
	if err != nil {
		return err
	}
	if settled == nil || len(records) < len(settled.Events) && len(d.Events) > 0 {
		d.Events, _ = fill(d.Events, records)
		return nil
	}
	d.Notice = engine.NoticeWithData(d, settled, records)
	d.Events, d.Cut = make([]engine.EventView, len(records)), len(settled.Events)-len(records)
	for i := range records {
		e := records[i].Event
		d.Events[i] = engine.EventView{ID: e.ID, Name: e.Name, Kind: e.Kind, SeenAt: records[i].Stamp, Text: e.Text, Data: e.Data}
	}
	return nil
}
