package source

import (
	"context"
	"errors"
	"time"
)

// Bounds of what a server may ask for as the time between two polls.
const (
	minPoll = 100 * time.Millisecond
	maxPoll = 24 * time.Hour
)

// poll asks for pages until something breaks it off.
func (w *worker) poll(ctx context.Context, session Session) error {
	for {
		page, err := w.ask(ctx, session)
		if err != nil {
			why := ofServer("events/poll", err)
			if errors.Is(err, ErrPage) {
				why.kind, why.remedy = kindRefused, end // it would be the same page again
			}
			return why
		}
		w.works(Polling, ModePoll)
		w.moved() // whatever broke before, this page could be read
		if page.Truncated {
			w.truncated()
		}
		var events []Event
		for _, raw := range page.Events {
			events = w.admit(raw, events)
		}
		before := w.cursor
		if err := w.moves(page.Cursor); err != nil {
			return err
		}
		if err := w.commit(ctx, events); err != nil {
			return err
		}
		wait := w.between(&page)
		if page.HasMore && w.cursor != before {
			if len(page.Events) > 0 {
				continue
			}
			wait = minPoll // more that is nothing must not keep anybody busy
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// ask polls once.
func (w *worker) ask(ctx context.Context, session Session) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return session.Poll(ctx, w.request())
}

// between is how long to wait before the next poll: as the server says, else as
// the configuration does.
func (w *worker) between(page *Page) time.Duration {
	if ms := page.NextPollMs; ms != nil && *ms >= 0 {
		return time.Duration(min(max(*ms, float64(minPoll.Milliseconds())), float64(maxPoll.Milliseconds())) * float64(time.Millisecond))
	}
	return w.f.Poll
}
