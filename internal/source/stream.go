package source

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// stream follows a stream until it is over, and returns why.
func (w *worker) stream(ctx context.Context, session Session) error {
	in := newInbox(w.f.MaxBuffered)
	open, cancel := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() {
		over <- session.Stream(open, w.request(), in.put)
		close(over)
	}()
	ended := false
	defer func() {
		cancel()
		for range over { // until it is
		}
	}()
	idle := time.NewTimer(w.f.IdleTimeout)
	defer idle.Stop()
	var late <-chan time.Time
	var why error
	w.active = time.Time{}
	for {
		batch, flooded := in.take()
		switch {
		case flooded:
			return breaks(kindOverflow, "more than %d notifications, or %d bytes of them, came while others were stored", w.f.MaxBuffered, maxInboxBytes)
		case len(batch) > 0:
			if err := w.hear(ctx, batch); err != nil {
				return err
			}
			late = w.later()
			continue
		case ended:
			return w.streamOver(ctx, why)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-in.came:
		case <-late:
			if err := w.commit(ctx, nil); err != nil {
				return err
			}
			late = w.later()
		case why = <-over:
			ended = true // what was heard before is still in the inbox
		case <-idle.C:
			silent := in.silence()
			if silent >= w.f.IdleTimeout {
				return breaks(kindIdle, "nothing was heard of the stream for %s, not even a heartbeat", w.f.IdleTimeout)
			}
			idle.Reset(w.f.IdleTimeout - silent)
		}
	}
}

// streamOver says what it means that a stream's request has returned.
func (w *worker) streamOver(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		return breaks(kindStream, "the server has ended the stream")
	}
	why := ofServer("events/stream", err)
	if w.active.IsZero() {
		return why
	}
	if time.Since(w.active) >= steady {
		w.moved()
	}
	if why.kind == kindConnection && !errors.Is(err, ErrClosed) && w.tries == 0 {
		why.remedy = reopen // it was cut: that is no reason to stay away
		w.tries++
	}
	return why
}

// later comes when it is time to store what was too soon to be stored, nil when
// there is nothing.
func (w *worker) later() <-chan time.Time {
	if !w.behind() || w.gap && w.f.ScopeOf != nil { // such a gap waits for events
		return nil
	}
	return time.After(minPoll)
}

// hear takes in what a stream has brought, in order: one commit, but for gaps
// and the end, before which what came stands by itself.
func (w *worker) hear(ctx context.Context, batch []Notification) error {
	var events []Event
	for i := range batch {
		n := &batch[i]
		var over error
		switch n.Kind {
		case "active":
			w.works(Streaming, ModeStream)
			w.active = time.Now()
			if truncates(n.Params) {
				if err := w.commit(ctx, events); err != nil {
					return err
				}
				events = nil
				w.truncated()
			}
		case "event":
			events = w.admit(n.Params, events)
		case "error":
			w.warn(kindStream, troubleOf(n.Params))
		case "terminated":
			over = breaks(kindStream, "the server has terminated the subscription: %w", troubleOf(n.Params))
		}
		if err := w.moves(cursorOf(n.Params)); err != nil {
			return err
		}
		if over != nil {
			return errors.Join(w.commit(ctx, events), over)
		}
	}
	return w.commit(ctx, events)
}

// cursorOf takes the cursor out of a notification, whatever else is wrong with
// it.
func cursorOf(params json.RawMessage) *string {
	var p struct {
		Cursor *string `json:"cursor"`
	}
	if json.Unmarshal(params, &p) != nil {
		return nil
	}
	return p.Cursor
}

// truncates reports whether an active notification tells of lost events.
func truncates(params json.RawMessage) bool {
	var p struct {
		Truncated bool `json:"truncated"`
	}
	return json.Unmarshal(params, &p) == nil && p.Truncated
}

// troubleOf is the error that a notification tells of.
func troubleOf(params json.RawMessage) error {
	var p struct {
		Error struct {
			Code    int64  `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(params, &p); err != nil {
		return errors.New("the server does not say what")
	}
	return &ServerError{Code: p.Error.Code, Message: p.Error.Message}
}
