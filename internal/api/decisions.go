package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"attend/internal/access"
	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/store"
)

// Values of `after` that are no cursors.
const (
	fromStart = "start" // the oldest that is kept
	fromNow   = "now"   // the end of the log
)

// decisionPage is the answer of GET /v1/decisions.
type decisionPage struct {
	// Decisions holds D, and dead letters where they were asked for, in log
	// order.
	Decisions []any `json:"decisions"`
	// Cursor goes into `after` of the next request. It moves past what did not
	// match, too.
	Cursor string `json:"cursor"`
	// Truncated tells that what stood after the cursor given is not all there:
	// it is no longer kept, or the cursor is of another log.
	Truncated bool `json:"truncated,omitempty"`
}

// listDecisions answers GET /v1/decisions: oldest first, from the oldest kept
// unless `after` says otherwise. With waitMs an empty answer is held back until
// something matches, the time is up or the daemon stops.
func (a *API) listDecisions(w http.ResponseWriter, r *http.Request) error {
	q := parseQuery(r, "scope", "route", "kinds", "after", "limit", "waitMs")
	filter, limit, after := q.filter(r.Context()), q.limit(), q.one("after")
	wait := time.Duration(q.number("waitMs", 0, 0, int(maxWait.Milliseconds()))) * time.Millisecond
	if q.err != nil {
		return q.err
	}
	page, err := a.page(r.Context(), after, filter, limit, wait)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, decisionPage{
		Decisions: page.items, Cursor: page.cursor, Truncated: page.truncated,
	})
}

// itemPage is a page of the feed with the events' data filled in.
type itemPage struct {
	items     []any
	cursor    string
	truncated bool
}

// page reads one page of the feed after the place that `after` names.
func (a *API) page(ctx context.Context, after string, f feed.Filter, limit int, wait time.Duration) (*itemPage, error) {
	head, err := a.Feed.Head(ctx)
	if err != nil {
		return nil, err
	}
	start, stale, err := place("after", after, head)
	if err != nil {
		return nil, err
	}
	page, err := a.Feed.Page(ctx, start, f, limit, maxPageBytes)
	if err != nil {
		return nil, err
	}
	if after == "" || after == fromStart {
		page.Truncated = false // it asked for what is kept
	}
	if wait > 0 && !stale && !page.Truncated && len(page.Items) == 0 {
		if page, err = a.await(ctx, page.Next, f, limit, wait); err != nil {
			return nil, err
		}
	}
	items, next, err := a.shown(ctx, &page)
	if err != nil {
		return nil, err
	}
	return &itemPage{
		items:     items,
		cursor:    feed.Cursor{Epoch: head.Epoch, Position: next}.Encode(),
		truncated: stale || page.Truncated,
	}, nil
}

// place reads `after`: nothing and "start" are before everything, "now" is the
// head, and anything else is a cursor. name is what the caller calls it.
func place(name, after string, head store.Head) (start engine.Position, stale bool, err error) {
	switch after {
	case "", fromStart:
		return 0, false, nil
	case fromNow:
		return head.Position, false, nil
	}
	cursor, err := feed.DecodeCursor(after)
	if err != nil {
		return 0, false, refuse(http.StatusBadRequest, codeCursor, "%s: %v", name, err)
	}
	start, stale = cursor.From(head)
	return start, stale, nil
}

// await waits until something matches and reads it. When the time is up or the
// daemon stops, the page is empty, and passes what has been checked.
func (a *API) await(ctx context.Context, after engine.Position, f feed.Filter, limit int, wait time.Duration) (feed.Page, error) {
	caller := access.From(ctx)
	leave, ok := a.waiting.Enter(caller.Name)
	if !ok {
		return feed.Page{}, refuse(http.StatusTooManyRequests, codeWaiting, "%d requests wait already: ask again later, or without waitMs", maxWaiting)
	}
	defer leave()
	allowed, done := caller.Until(ctx)
	defer done()
	waiting, stop := a.untilStopping(allowed, wait)
	defer stop()
	checked, err := a.Feed.Wait(waiting, after, f)
	switch {
	case errors.Is(context.Cause(allowed), access.ErrRevoked):
		return feed.Page{}, access.ErrRevoked
	case ctx.Err() != nil:
		return feed.Page{}, ctx.Err() // the caller has gone
	case err != nil && waiting.Err() == nil:
		return feed.Page{}, err
	case err != nil:
		return feed.Page{Next: max(after, checked)}, nil
	}
	return a.Feed.Page(ctx, checked, f, limit, maxPageBytes)
}

// untilStopping returns a context that ends with its parent, after a time, or
// when the daemon begins to stop.
func (a *API) untilStopping(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	go func() {
		select {
		case <-a.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// shown prepares a page's items for the answer, as many as the bound on data
// allows, and returns the position to read on from.
func (a *API) shown(ctx context.Context, page *feed.Page) (items []any, next engine.Position, err error) {
	items = make([]any, 0, len(page.Items))
	next = page.Next
	size := 0
	for i := range page.Items {
		it := &page.Items[i]
		body, data, err := a.show(ctx, it)
		if err != nil {
			return nil, 0, err
		}
		if size += data; size > maxPageBytes && i > 0 {
			return items, page.Items[i-1].Position, nil
		}
		items = append(items, body)
	}
	return items, next, nil
}

// show copies an item out of the log and adds its events' data; size is the
// number of bytes of it.
func (a *API) show(ctx context.Context, it *feed.Item) (body any, size int, err error) {
	if it.DeadLetter != nil {
		letter := *it.DeadLetter
		settled := letter.Settled
		letter.Settled, letter.Members = nil, nil // for a requeue alone
		if letter.Events, size, err = a.withData(ctx, letter.Events, settled); err != nil || letter.Decision == nil {
			return &letter, size, err
		}
		d, more, err := a.decision(ctx, *letter.Decision, it.Position)
		letter.Decision = d
		return &letter, size + more, err
	}
	return a.decision(ctx, *it.Decision, it.Position)
}

// decision adds to a copy of a decision the data of its events, to the notice
// too.
func (a *API) decision(ctx context.Context, d engine.Decision, before engine.Position) (filled *engine.Decision, size int, err error) {
	settled, err := a.settledBefore(ctx, d.ID, before)
	if err != nil {
		return nil, 0, err
	}
	records, err := a.kept(ctx, settled)
	if err != nil {
		return nil, 0, err
	}
	d.Notice = engine.NoticeWithData(&d, settled, records)
	d.Events, size = fill(d.Events, records)
	return &d, size, nil
}

// settledBefore returns how the window was last closed before a position, nil
// when that is no longer kept.
func (a *API) settledBefore(ctx context.Context, window string, before engine.Position) (*engine.Settled, error) {
	steps, err := a.Log.Steps(ctx, store.StepQuery{Window: window, Kinds: []engine.StepKind{engine.StepSettled}, Limit: maxStory})
	if err != nil {
		return nil, fmt.Errorf("read how window %s settled: %w", window, err)
	}
	var last *engine.Settled
	for i := range steps {
		if steps[i].Position < before {
			last = steps[i].Step.Settled
		}
	}
	return last, nil
}

// kept returns those events of a window that are still in the log.
func (a *API) kept(ctx context.Context, settled *engine.Settled) ([]engine.Record, error) {
	if settled == nil {
		return nil, nil
	}
	records, err := a.Log.Events(ctx, settled.Events)
	if err != nil {
		return nil, fmt.Errorf("read the events of window %s: %w", settled.Window, err)
	}
	return records, nil
}

// withData returns a copy of a window's events with the data that is still
// kept.
func (a *API) withData(ctx context.Context, views []engine.EventView, settled *engine.Settled) (filled []engine.EventView, size int, err error) {
	records, err := a.kept(ctx, settled)
	if err != nil {
		return nil, 0, err
	}
	filled, size = fill(views, records)
	return filled, size, nil
}

// fill returns a copy of events with the data that the log holds, and its size.
func fill(views []engine.EventView, records []engine.Record) (filled []engine.EventView, size int) {
	filled = make([]engine.EventView, len(views)) // never null in the answer
	copy(filled, views)
	data := make(map[string][]byte, len(records)) // ids are unique in a window
	for i := range records {
		if e := records[i].Event; e != nil {
			data[e.ID] = e.Data
		}
	}
	for i := range filled {
		filled[i].Data = data[filled[i].ID]
		size += len(filled[i].Data)
	}
	return filled, size
}
