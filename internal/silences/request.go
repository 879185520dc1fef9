package silences

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"attend/internal/engine"
)

// Request asks for a silence, as everyone writes it.
type Request struct {
	Scope        string `json:"scope"`
	Event        string `json:"event"`
	Until        Moment `json:"until"` // Unix ms, or RFC 3339
	ForMs        *int64 `json:"forMs"` // in place of until
	IncludeFlush bool   `json:"includeFlush"`
	Why          string `json:"why"`
}

// Moment is an instant as callers write it: a whole number of Unix milliseconds,
// or text as RFC 3339 has it. nil is none.
type Moment json.RawMessage

// UnmarshalJSON keeps what was written.
func (m *Moment) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*m = nil
		return nil
	}
	*m = append(Moment(nil), b...)
	return nil
}

// At reads the instant.
func (m Moment) At() (engine.Time, error) {
	var ms int64
	if err := json.Unmarshal(m, &ms); err == nil {
		return engine.Time(ms), nil
	}
	var text string
	if err := json.Unmarshal(m, &text); err == nil {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			return engine.Time(at.UnixMilli()), nil
		}
	}
	return 0, fmt.Errorf("must be Unix milliseconds, or an instant as 2027-01-31T18:00:00Z")
}

// Mistake is what is wrong with a request, and how to mend it.
type Mistake struct {
	Field   string // as "scope"
	Problem string
}

// Error names the field.
func (m *Mistake) Error() string { return m.Field + " " + m.Problem }

func mistake(field, format string, args ...any) error {
	return &Mistake{field, fmt.Sprintf(format, args...)}
}

// silence checks the request. The silence has neither id nor principal yet.
func (r *Request) silence(now engine.Time) (engine.Silence, error) {
	of := engine.Silence{Scope: r.Scope, Event: r.Event, IncludeFlush: r.IncludeFlush, Why: r.Why}
	if err := Check(r.Scope, r.Event, r.Why); err != nil {
		return of, err
	}
	switch {
	case r.Until == nil && r.ForMs == nil:
		return of, mistake("until", "is missing: say until when, or forMs for how long; a silence without an end stands in the configuration")
	case r.Until != nil && r.ForMs != nil:
		return of, mistake("until", "and forMs are both given: give one of them")
	case r.ForMs != nil:
		if *r.ForMs < 1 || *r.ForMs > MaxMs {
			return of, mistake("forMs", "is %d: must be from 1 to %d, a hundred years", *r.ForMs, int64(MaxMs))
		}
		of.Until = now + engine.Time(*r.ForMs)
		return of, nil
	}
	at, err := r.Until.At()
	switch {
	case err != nil:
		return of, mistake("until", "%v", err)
	case at <= now:
		return of, mistake("until", "is %d, which has passed (it is %d)", at, now)
	case at-now > MaxMs:
		return of, mistake("until", "is %d: at most a hundred years from now", at)
	}
	of.Until = at
	return of, nil
}

// Check says what is wrong with the parts of a silence: its patterns, and the
// reason for it. The error is a *Mistake.
func Check(scope, event, why string) error {
	switch {
	case scope == "":
		return mistake("scope", `is missing: a pattern, as chat:42 or repo:*, or "*" for every scope`)
	case strings.TrimSpace(why) == "":
		return mistake("why", "is missing: say why, for whoever wonders why nothing comes")
	}
	for _, part := range []struct {
		name, text string
		most       int
	}{{"scope", scope, MaxScope}, {"event", event, MaxEvent}, {"why", why, MaxWhy}} {
		switch {
		case len(part.text) > part.most:
			return mistake(part.name, "has %d bytes: may have at most %d", len(part.text), part.most)
		case !utf8.ValidString(part.text):
			return mistake(part.name, "is not valid UTF-8")
		case strings.ContainsFunc(part.text, unicode.IsControl):
			return mistake(part.name, "holds a control character")
		}
	}
	return nil
}
