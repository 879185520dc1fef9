package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Bounds of one commit. A page of a poll is one commit whatever it holds, since
// it has one cursor.
const (
	maxCommitEvents = 500
	maxCommitBytes  = 1 << 20
)

// truncated takes note that the server has lost events before what comes next.
func (w *worker) truncated() {
	w.f.board.change(func(s *Status) { s.Counts.Gaps++ })
	if w.seldom("truncated") {
		w.s.log.Warn("the server of a source no longer has all events: its windows are marked with a gap", "source", w.f.Name, "server", w.f.Server)
	}
	w.loses()
}

// loses has a gap told with what is committed next.
func (w *worker) loses() {
	w.gap = true
	if w.f.ScopeOf != nil {
		w.lost = make(map[string]bool)
	}
}

// admit makes an event of an occurrence, if it is one that is wanted.
func (w *worker) admit(raw json.RawMessage, events []Event) []Event {
	e, wanted, err := w.f.event(raw)
	switch {
	case err != nil:
		w.malformed(1, err)
	case !wanted:
		w.f.board.change(func(s *Status) { s.Counts.Filtered++ })
	default:
		events = append(events, e)
	}
	return events
}

// malformed counts what can be no events, and tells of one.
func (w *worker) malformed(n int, err error) {
	w.s.metrics.errors.WithLabelValues(w.f.Name, kindMalformed).Add(float64(n - 1))
	w.f.board.change(func(s *Status) { s.Counts.Malformed += int64(n) })
	w.warn(kindMalformed, fmt.Errorf("skipped: %w", err))
}

// Bounds of commits that hold no event, since a server can ask for as many as
// it likes: so many at once, then one each minPoll; of gaps without an event
// between them, one in gapEvery.
const (
	bareBurst = 10
	gapEvery  = 10 * time.Second
)

// behind reports whether something is to be stored although no event is.
func (w *worker) behind() bool { return w.gap || w.cursor != w.stored }

// waits reports whether it is too soon to store something without an event.
// Nothing is lost by that: it is stored with what comes next, or later.
func (w *worker) waits() bool {
	return w.gap && !w.bare.IsZero() && time.Since(w.bare) < gapEvery || !w.pace.Allow()
}

// commit stores events and the cursor behind them, in one append.
func (w *worker) commit(ctx context.Context, events []Event) error {
	if len(events) == 0 && (!w.behind() || w.waits()) {
		return nil
	}
	gaps := w.gaps(events)
	if w.gap && len(gaps) == 0 {
		return nil // no scope is known that could be told: the old cursor stays, which says the same again
	}
	put, err := w.put()
	if err != nil {
		return err
	}
	taken, err := w.s.opt.Intake.Take(ctx, &Batch{Gaps: gaps, Events: events, Put: put, Fence: w.fence})
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return ofIntake(err)
	}
	if len(gaps) > 0 {
		w.bare = time.Now()
	}
	if len(events) > 0 {
		w.bare = time.Time{}
	}
	if w.cursor != w.stored {
		w.moved()
	}
	w.stored, w.gap, w.stalls = w.cursor, false, 0
	for _, scope := range gaps {
		w.told(scope)
	}
	now := w.s.now()
	w.f.board.change(func(s *Status) {
		s.Cursor = w.stored != ""
		s.Counts.Accepted += int64(taken.Accepted)
		s.Counts.Duplicates += int64(taken.Duplicates)
		if len(events) > 0 {
			s.LastEventAt = now
		}
	})
	if taken.Refused > 0 {
		reason := "it cannot be taken in"
		if len(taken.Reasons) > 0 {
			reason = taken.Reasons[0]
		}
		w.malformed(taken.Refused, errors.New(reason))
	}
	return nil
}

// maxLost bounds the scopes that are remembered to have been told of a gap.
const maxLost = 10_000

// gaps are the scopes to tell, before these events, that events were lost. Of
// a source whose events go to many scopes, each is told once, before the first
// event that comes for it.
func (w *worker) gaps(events []Event) []string {
	if w.f.ScopeOf == nil {
		if w.gap {
			return []string{w.f.Source.Scope}
		}
		return nil
	}
	if w.lost == nil {
		return nil
	}
	var scopes []string
	seen := make(map[string]bool)
	for i := range events {
		if scope := events[i].Scope; !w.lost[scope] && !seen[scope] {
			seen[scope] = true
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// told notes that a scope knows of the gap.
func (w *worker) told(scope string) {
	if w.lost == nil {
		return
	}
	w.lost[scope] = true
	if len(w.lost) >= maxLost {
		w.lost = nil
	}
}
