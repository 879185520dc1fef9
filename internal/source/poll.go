package source

import (
	"context"
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
			return ofServer("events/poll", err)
		}
		w.works(Polling, ModePoll)
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
		if page.HasMore && w.cursor != before {
			continue
		}
		t := time.NewTimer(w.between(&page))
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
