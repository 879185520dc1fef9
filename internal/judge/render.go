package judge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"attend/internal/engine"
)

// Rendered is an input as a judge reads it.
type Rendered struct {
	JSON []byte // compact, on one line
	Cut  int    // events of the window for which there was no room
}

// shortText is what is left of a text at least, in bytes, where even the
// events that stay do not fit.
const shortText = 160

// Render writes an input as compact JSON of at most limit bytes: guidance,
// predicate questions, recent routes, facts, and the window with its events,
// oldest first (seed, "llmJudge"). Routes are not in it: they go where the
// judge takes them.
//
// What does not fit is cut by the notice's rule, after each text or data of
// more than 4 KiB and an eighth of the limit has been shortened to that, so
// that one event cannot push out all others. Events that are left out are counted as "cut", those with a
// shortened text or data as "shortened"; data that was shortened is a string.
// Facts get half of the limit, and "factsBytes" says how many they had. Guidance
// and questions are the operator's and are never cut: where they alone pass the
// limit, so does the result.
//
// Nothing in it is hidden: control, bidi, zero-width and tag characters are
// escaped as JSON escapes them, and no string holds what looks like a fence.
func Render(in *Input, limit int) Rendered {
	doc := document(in, limit)
	const counts = len(`"cut":1234567890,"shortened":1234567890,`)
	room := limit - len(encode(doc)) - counts
	events := in.Window.Events
	kinds := make([]engine.Kind, len(events))
	for i := range events {
		kinds[i] = events[i].Kind
	}
	text := longest(events, room, max(limit/8, engine.ViewText))
	keep, least := engine.CutToFit(kinds, room, shortText, func(i, to int) int {
		return len(event(&events[i], min(text, to)).json) + len(",")
	})
	for i, kept := range keep {
		if !kept {
			doc.Window.Cut++
			continue
		}
		e := event(&events[i], min(text, least))
		if e.shortened {
			doc.Window.Shortened++
		}
		doc.Window.Events = append(doc.Window.Events, e.json)
	}
	return Rendered{JSON: encode(doc), Cut: doc.Window.Cut}
}

// longest is how long a text may be before the rule is applied: as long as it
// is where the window fits, else most.
func longest(events []engine.EventView, room, most int) int {
	sum, whole := 0, 0
	for i := range events {
		e := &events[i]
		whole = max(whole, len(e.Text), len(e.Data))
		sum += len(event(e, whole).json) + len(",")
	}
	if sum <= room {
		return whole
	}
	return most
}

type rendering struct {
	Guidance   string             `json:"guidance,omitempty"`
	Predicates []engine.Predicate `json:"predicates,omitempty"`
	Recent     []renderedRecent   `json:"recent,omitempty"`
	Facts      any                `json:"facts,omitempty"`
	FactsBytes int                `json:"factsBytes,omitempty"`
	Window     renderedWindow     `json:"window"`
}

type renderedRecent struct {
	At    engine.Time  `json:"at"`
	Route engine.Route `json:"route"`
}

type renderedWindow struct {
	ID        string            `json:"id"`
	Reason    engine.Reason     `json:"reason"`
	Trigger   engine.Trigger    `json:"trigger,omitempty"`
	Waits     int               `json:"waits"`
	Dropped   int               `json:"dropped"`
	Gap       bool              `json:"gap"`
	SettledAt engine.Time       `json:"settledAt"`
	Cut       int               `json:"cut,omitempty"`
	Shortened int               `json:"shortened,omitempty"`
	Events    []json.RawMessage `json:"events"`
}

// document is everything but the events.
func document(in *Input, limit int) *rendering {
	w := &in.Window
	doc := &rendering{
		Guidance: in.Guidance, Predicates: in.Predicates,
		Window: renderedWindow{
			ID: w.ID, Reason: w.Reason, Trigger: w.Trigger, Waits: w.Waits, Dropped: w.Dropped, Gap: w.Gap,
			SettledAt: w.SettledAt, Events: []json.RawMessage{},
		},
	}
	for _, r := range in.Recent {
		doc.Recent = append(doc.Recent, renderedRecent{r.At, r.Route})
	}
	if len(in.Facts) > 0 {
		facts, cut := value(in.Facts, limit/2)
		if doc.Facts = facts; cut {
			doc.FactsBytes = len(in.Facts)
		}
	}
	return doc
}

type renderedEvent struct {
	ID     string      `json:"id,omitempty"`
	Name   string      `json:"name"`
	Kind   engine.Kind `json:"kind"`
	SeenAt engine.Time `json:"seenAt"`
	Text   string      `json:"text,omitempty"`
	Data   any         `json:"data,omitempty"`
}

type eventJSON struct {
	json      []byte
	shortened bool
}

// event writes an event with its text and its data cut to a limit each.
func event(e *engine.EventView, limit int) eventJSON {
	out := renderedEvent{ID: e.ID, Name: e.Name, Kind: e.Kind, SeenAt: e.SeenAt, Text: engine.Shorten(e.Text, limit)}
	shortened := len(out.Text) < len(e.Text)
	if len(e.Data) > 0 {
		data, cut := value(json.RawMessage(e.Data), limit)
		out.Data = data
		shortened = shortened || cut
	}
	return eventJSON{encode(out), shortened}
}

// value is a JSON value as it is, or the beginning of it as a string.
func value(raw json.RawMessage, limit int) (v any, cut bool) {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil { // a hook's, or a record of another time
		return engine.Shorten(string(raw), limit), len(raw) > limit
	}
	if b.Len() <= limit {
		return json.RawMessage(b.Bytes()), false
	}
	return engine.Shorten(b.String(), limit), true
}

// encode writes JSON in which nothing is hidden.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // a model reads < better than \u003c
	if err := e.Encode(v); err != nil {
		return []byte("null") // only invalid raw JSON fails, and value lets none through
	}
	return visible(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
}

// Quote writes a text as a JSON string in which nothing is hidden, as Render
// does.
func Quote(s string) string { return string(encode(s)) }

// dashes are as many hyphens in a row as begin a fence.
const dashes = 5

// visible escapes what a reader of JSON would not see, and every fifth hyphen
// of a row. Both stand only within strings, where an escape means the same.
func visible(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	row := 0
	for i := 0; i < len(doc); {
		r, n := utf8.DecodeRune(doc[i:])
		if r == '-' {
			row++
		} else {
			row = 0
		}
		switch {
		case row == dashes:
			out = append(out, `\u002d`...)
			row = 0
		case hidden(r):
			for _, unit := range utf16.Encode([]rune{r}) {
				out = fmt.Appendf(out, `\u%04x`, unit)
			}
		default:
			out = append(out, doc[i:i+n]...)
		}
		i += n
	}
	return out
}

// hidden reports whether a character does not show, or turns the order of what
// is read: text for a person may hold it, an order to a model may hide in it.
func hidden(r rune) bool {
	return r >= 0x7f && (r == utf8.RuneError || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector))
}
