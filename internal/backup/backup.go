// Package backup writes everything that a store holds to a file, and reads it
// back into an empty store.
//
// The file is NDJSON. Its first line says what it is, its last one how much
// there was, so that a file which was cut is refused. Between them stand, in
// this order: the records of the log as attend log export writes them; events
// of the side table; state rows with their blocks of remembered ids; rows, as
// of consumers; changes of Fields. What only the store understands is base64.
//
// A copy has an epoch of its own, since it and the store that it was made of
// may go on side by side: cursors into the one are stale in the other.
// Positions and stamps are the same, so consumers go on where they were. The
// store's secret stays where it is.
package backup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"attend/internal/engine"
)

// Version is the version of the file that this package writes, and the highest
// that it reads.
const Version = 1

// Counts is how much of each there is.
type Counts struct {
	Records int `json:"records"`
	Aside   int `json:"aside"`
	States  int `json:"states"`
	Rows    int `json:"rows"`
	Changes int `json:"changes"`
}

// header is the first line.
type header struct {
	AttendLog  int             `json:"attendLog"` // Version
	Format     int             `json:"format"`    // of the records
	Epoch      string          `json:"epoch"`     // of the store that the file was made of
	Position   engine.Position `json:"position"`
	Stamp      engine.Time     `json:"stamp"`
	Kept       kept            `json:"kept"`
	Checkpoint engine.Position `json:"checkpoint"`
}

// kept is a store.Kept.
type kept struct {
	Events engine.Position `json:"events"`
	Steps  engine.Position `json:"steps"`
}

// line is any other line that is no record; exactly one is set.
type line struct {
	Aside  *record `json:"aside,omitempty"`
	State  *state  `json:"state,omitempty"`
	Row    *row    `json:"row,omitempty"`
	Change *change `json:"change,omitempty"`
	End    *Counts `json:"end,omitempty"`
}

// anyLine is a line that is read: one of line, or a record.
type anyLine struct {
	line
	record
}

type record struct {
	Position engine.Position `json:"position"`
	Stamp    engine.Time     `json:"stamp"`
	Scope    string          `json:"scope,omitempty"`
	Event    *event          `json:"event,omitempty"`
	Step     json.RawMessage `json:"step,omitempty"`
}

type event struct {
	ID     string       `json:"id"`
	Name   string       `json:"name"`
	Kind   engine.Kind  `json:"kind"`
	Policy uint32       `json:"policy"`
	At     *engine.Time `json:"at,omitempty"`
	Text   string       `json:"text,omitempty"`
	// Bytes are the event's data where they cannot stand on a line as they are.
	Bytes []byte          `json:"dataBytes,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"` // byte for byte
}

type state struct {
	Scope    string          `json:"scope"`
	Position engine.Position `json:"position"`
	WakeAt   engine.Time     `json:"wakeAt"`
	Live     bool            `json:"live"`
	Format   int             `json:"format"`
	Body     []byte          `json:"body"`
	Blocks   []block         `json:"blocks,omitempty"`
}

type block struct {
	Seq  int64  `json:"seq"`
	Body []byte `json:"body"`
}

type row struct {
	Space string `json:"space"`
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type change struct {
	Field  string `json:"field"`
	Number int64  `json:"number"`
	Format int    `json:"format"`
	Body   []byte `json:"body"`
}

// encode writes a value on a line. What a terminal would act on, within a
// string, is escaped.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	if bytes.IndexFunc(b.Bytes(), hidden) < 0 {
		return b.Bytes(), nil
	}
	var out []byte
	for _, r := range b.String() {
		switch {
		case !hidden(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out, nil
}

// hidden reports whether a character of a line is not simply shown.
func hidden(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }

// encodeRecord writes a record, within a key or as the line itself. An event's
// data are its last member, put in as they are: an encoder would change them.
func encodeRecord(r *engine.Record, key string) ([]byte, error) {
	out := record{Position: r.Position, Stamp: r.Stamp, Scope: r.Scope}
	texts := []string{r.Scope}
	var data string
	if e := r.Event; e != nil {
		out.Event = &event{ID: e.ID, Name: e.Name, Kind: e.Kind, Policy: e.Policy, At: e.At, Text: e.Text}
		texts = append(texts, e.ID, e.Name, e.Text)
		if plain(e.Data) {
			data = string(e.Data)
		} else {
			out.Event.Bytes = e.Data
		}
	} else {
		body, err := engine.EncodeStep(r.Step)
		if err != nil {
			return nil, err
		}
		out.Step = body
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("%q is not valid UTF-8 and cannot be written as JSON", text)
		}
	}
	b, err := encode(out)
	if err != nil {
		return nil, err
	}
	s := strings.TrimSuffix(string(b), "\n")
	if data != "" {
		const end = "}}" // of the event and of the record
		s = strings.TrimSuffix(s, end) + `,"data":` + data + end
	}
	if key != "" {
		s = `{"` + key + `":` + s + "}"
	}
	return []byte(s + "\n"), nil
}

// plain reports whether data can stand on a line that people may show on a
// terminal.
func plain(data []byte) bool {
	return json.Valid(data) && bytes.IndexFunc(data, func(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }) < 0
}

// decode reads a record back; format is the number in the header.
func (r *record) decode(format int) (engine.Record, error) {
	out := engine.Record{Position: r.Position, Stamp: r.Stamp, Scope: r.Scope}
	switch {
	case (r.Event == nil) == (len(r.Step) == 0):
		return out, fmt.Errorf("a record holds either an event or a step")
	case r.Event != nil:
		e := r.Event
		out.Event = &engine.Event{ID: e.ID, Name: e.Name, Kind: e.Kind, Policy: e.Policy, At: e.At, Text: e.Text, Data: e.Data}
		if len(e.Bytes) > 0 {
			out.Event.Data = e.Bytes
		}
		return out, nil
	}
	var err error
	out.Step, err = engine.DecodeStep(r.Step, format)
	return out, err
}
