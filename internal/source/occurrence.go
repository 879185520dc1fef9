package source

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"attend/internal/engine"
)

// occurrence is an event as the extension writes it (events contract, 3).
type occurrence struct {
	EventID   string          `json:"eventId"`
	Name      string          `json:"name"`
	Timestamp string          `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
}

// decode reads an occurrence. Its error says why it can be no event.
func decode(raw json.RawMessage) (occurrence, engine.Time, error) {
	var o occurrence
	if err := json.Unmarshal(raw, &o); err != nil {
		return o, 0, fmt.Errorf("an event cannot be read: %w", err)
	}
	switch {
	case o.EventID == "":
		return o, 0, errors.New("an event has no eventId, by which it would be known again")
	case o.Name == "":
		return o, 0, fmt.Errorf("event %s has no name", o.EventID)
	case o.Timestamp == "":
		return o, 0, fmt.Errorf("event %s has no timestamp", o.EventID)
	}
	at, ok := instant(o.Timestamp)
	if !ok {
		return o, 0, fmt.Errorf("event %s has the timestamp %q: want ISO 8601, as 2026-01-31T12:00:00Z", o.EventID, o.Timestamp)
	}
	return o, at, nil
}

// instant reads a time as ISO 8601 writes it. One without a zone is in UTC.
func instant(text string) (engine.Time, bool) {
	for _, layout := range []string{
		time.RFC3339, "2006-01-02T15:04:05-0700", "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly,
	} {
		if t, err := time.Parse(layout, text); err == nil {
			return engine.Time(t.UnixMilli()), true
		}
	}
	return 0, false
}

// event makes an event of an occurrence; wanted is false for one that Only
// leaves out.
func (s *Source) event(raw json.RawMessage) (e Event, wanted bool, err error) {
	o, at, err := decode(raw)
	if err != nil {
		return e, false, err
	}
	if len(s.Only) > 0 && !slices.ContainsFunc(s.Only, func(pattern string) bool { return engine.Glob(pattern, o.Name) }) {
		return e, false, nil
	}
	e = Event{Scope: s.Scope, Name: o.Name, ID: o.EventID, At: &at, Data: o.Data}
	if s.ScopeOf != nil {
		if e.Scope, err = s.ScopeOf(o.Data); err != nil {
			return e, false, fmt.Errorf("event %s gives no scope: %w", o.EventID, err)
		}
	}
	return e, true, nil
}

// Bounds of what is shown, in bytes.
const (
	maxShown = 300     // of a server's words
	maxWords = 3 << 10 // of a whole message
)

// clip makes words of a server fit to be shown: on one line, and not many.
func clip(text string, limit int) string { return engine.EscapeLine(engine.Shorten(text, limit)) }
