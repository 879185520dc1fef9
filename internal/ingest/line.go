package ingest

import (
	"bytes"
	"fmt"
	"time"
	"unicode"
	"unicode/utf8"

	"attend/internal/engine"
)

// Limits of the fields, in bytes of UTF-8.
const (
	maxScope = 512
	maxName  = 256
	maxID    = 256
)

// Line is one event as a producer sends it (design, section 6).
type Line struct {
	Scope string       // 1 to 512 bytes, no control characters
	Name  string       // 1 to 256 bytes
	ID    string       // up to 256 bytes; "" draws one, and the event cannot be deduplicated
	At    *engine.Time // the source's time; nil when it gave none
	Data  []byte       // a JSON value; nil for none
	Text  string       // what the agent should read
}

// field is one of the six that attend knows.
type field uint8

const (
	fieldScope field = 1 << iota
	fieldName
	fieldID
	fieldAt
	fieldData
	fieldText
	noField field = 0
)

// names of the fields, in the order of their bits.
var fieldNames = [...]string{"scope", "name", "id", "at", "data", "text"}

func (f field) String() string {
	for i, name := range fieldNames {
		if f == 1<<i {
			return name
		}
	}
	return "none"
}

// fieldOf finds the field with this name, exactly.
func fieldOf(key []byte) field {
	for i, name := range fieldNames {
		if string(key) == name {
			return 1 << i
		}
	}
	return noField
}

// fields are the parts of a line. They point into the line or into the
// decoder, and are good until the decoder's next line.
type fields struct {
	has                   field
	scope, name, id, text []byte
	data                  []byte
	at                    engine.Time
	unknown               [][]byte // names, at most maxUnknown
	unknowns              int      // how many there were
}

// maxUnknown is how many unknown names of one line are looked at.
const maxUnknown = 16

// decoder reads lines. It is used again for the next line, so that a line
// costs no memory but for what is kept of it.
type decoder struct {
	scanner
	fields
}

// decode reads one line, which may have space around it. Faults in the JSON
// go before faults in what it says; of these the first is told.
func (d *decoder) decode(line []byte) *fault {
	d.reset(line)
	d.fields = fields{unknown: d.unknown[:0]}
	d.space()
	if !d.sees('{') {
		return d.notObject()
	}
	if !d.members() || !d.end() {
		return d.hard
	}
	return d.soft
}

// notObject says what stands there in place of an object.
func (d *decoder) notObject() *fault {
	start := d.i
	what := "nothing"
	if start < len(d.b) {
		what = typeName(d.b[start])
	}
	if !d.value(1) || !d.end() {
		return d.hard
	}
	text := "a line is one JSON object, and this is " + what
	if what == "an array" {
		text += ": send an array as application/json, or its elements line by line"
	}
	return &fault{code: CodeNotObject, column: start + 1, text: text}
}

// end makes sure that nothing but space follows.
func (d *decoder) end() bool {
	d.space()
	switch {
	case d.i == len(d.b):
		return true
	case d.sees('{') || d.sees('['):
		return d.fail(CodeTwoValues, d.i, "a second value on the line: put each on a line of its own")
	case d.sees(','):
		return d.fail(CodeSyntax, d.i, "a comma after the object: a line is no element of an array")
	default:
		return d.unexpected("the end of the line")
	}
}

// members reads the event's object.
func (d *decoder) members() bool {
	d.i++
	d.space()
	if d.sees('}') {
		d.i++
		return true
	}
	for {
		if !d.sees('"') {
			return d.unexpected("a field name in quotes")
		}
		start := d.i
		key, escaped, ok := d.str()
		if !ok {
			return false
		}
		if escaped {
			key = d.unescape(key)
		}
		if !d.colon() || !d.member(key, start) {
			return false
		}
		if more, ok := d.next('}'); !more {
			return ok
		}
	}
}

// member reads the value of the field whose name stands at column start.
func (d *decoder) member(key []byte, start int) bool {
	f := fieldOf(key)
	if f == noField {
		d.stranger(key, start)
		return d.value(2)
	}
	if d.has&f != 0 {
		d.note(CodeDuplicateField, start, fmt.Sprintf("field %q stands twice: which one counts cannot be known", f))
	}
	d.has |= f
	switch f {
	case fieldScope:
		return d.named(f, &d.scope, maxScope)
	case fieldName:
		return d.named(f, &d.name, maxName)
	case fieldID:
		return d.named(f, &d.id, maxID)
	case fieldAt:
		return d.instant()
	case fieldData:
		from := d.i
		ok := d.value(2)
		d.data = d.b[from:d.i]
		return ok
	default:
		_, ok := d.stringOf(f, &d.text)
		return ok
	}
}

// stranger keeps the name of a field that attend does not know.
func (d *decoder) stranger(key []byte, start int) {
	for _, name := range fieldNames {
		if bytes.EqualFold(key, []byte(name)) {
			d.note(CodeFieldCase, start, fmt.Sprintf("field %q: write it as %q", key, name))
			return
		}
	}
	d.unknowns++
	if len(d.unknown) < maxUnknown {
		d.unknown = append(d.unknown, key)
	}
}

// stringOf reads the value of a field that must be a string. fine is false when
// it is not one.
func (d *decoder) stringOf(f field, into *[]byte) (fine, ok bool) {
	if !d.sees('"') {
		d.wrongType(f, "a string")
		return false, d.value(2)
	}
	raw, escaped, ok := d.str()
	if escaped && ok {
		raw = d.unescape(raw)
	}
	*into = raw
	return ok, ok
}

func (d *decoder) wrongType(f field, want string) {
	if d.i < len(d.b) {
		d.note(CodeWrongType, d.i, fmt.Sprintf("field %q is %s: it must be %s, or be left out", f, typeName(d.b[d.i]), want))
	}
}

// named reads a string of one byte to limit bytes.
func (d *decoder) named(f field, into *[]byte, limit int) bool {
	start := d.i
	fine, ok := d.stringOf(f, into)
	if !fine {
		return ok
	}
	if flaw := checkText(f, *into, limit); flaw != nil {
		d.note(flaw.code, start, flaw.text)
	}
	return true
}

// checkText holds a scope, name or id against its rule.
func checkText(f field, b []byte, limit int) *fault {
	switch {
	case len(b) == 0 && f == fieldID:
		return &fault{code: CodeEmptyField, text: fmt.Sprintf("field %q is empty: give 1 to %d bytes, or leave it out", f, limit)}
	case len(b) == 0:
		return &fault{code: CodeEmptyField, text: fmt.Sprintf("field %q is empty: give 1 to %d bytes", f, limit)}
	case len(b) > limit:
		return &fault{code: CodeTooLong, text: fmt.Sprintf("field %q has %d bytes: at most %d", f, len(b), limit)}
	case f == fieldScope:
		if r, found := control(b); found {
			return &fault{code: CodeControl, text: fmt.Sprintf("field %q holds the control character %U: leave it out", f, r)}
		}
	}
	return nil
}

func control(b []byte) (rune, bool) {
	for i := 0; i < len(b); {
		if c := b[i]; c < utf8.RuneSelf {
			if c < 0x20 || c == 0x7f {
				return rune(c), true
			}
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if unicode.IsControl(r) {
			return r, true
		}
		i += size
	}
	return 0, false
}

// The years 0 to 9999, in Unix milliseconds: what RFC 3339 can say.
const (
	minAt = -62167219200000
	maxAt = 253402300799999
)

// instant reads the field at: Unix milliseconds, or RFC 3339.
func (d *decoder) instant() bool {
	start := d.i
	if d.sees('"') {
		raw, escaped, ok := d.str()
		if !ok {
			return false
		}
		if escaped {
			raw = d.unescape(raw)
		}
		at, good := rfc3339(raw)
		if !good {
			d.note(CodeBadTime, start, `field "at" is no RFC 3339 time: write it as "2026-01-31T12:00:00Z", or as Unix milliseconds`)
		}
		d.at = at
		return true
	}
	if d.i < len(d.b) && d.b[d.i] != '-' && !digit(d.b[d.i]) {
		d.wrongType(fieldAt, "Unix milliseconds or an RFC 3339 string")
		return d.value(2)
	}
	if !d.number() {
		return false
	}
	at, flaw := milliseconds(d.b[start:d.i])
	if flaw != "" {
		d.note(CodeBadTime, start, flaw)
	}
	d.at = at
	return true
}

// rfc3339 reads a time as RFC 3339 writes it. time.Parse takes more: an hour of
// one digit, a comma before the fraction, a zone of 99 hours.
func rfc3339(b []byte) (at engine.Time, ok bool) {
	const shape = "0000-00-00T00:00:00"
	if !shaped(b, shape) || bytes.IndexByte(b, ',') >= 0 {
		return 0, false
	}
	if zone := len(b) - len("+00:00"); b[len(b)-1] != 'Z' && (!shaped(b[zone+1:], "00:00") || string(b[zone+1:]) >= "24" || b[zone+4] >= '6') {
		return 0, false
	}
	t, err := time.Parse(time.RFC3339, string(b))
	return engine.Time(t.UnixMilli()), err == nil
}

// shaped reports whether b begins like shape, where 0 is any digit.
func shaped(b []byte, shape string) bool {
	if len(b) < len(shape) {
		return false
	}
	for i := range len(shape) {
		if shape[i] == '0' && !digit(b[i]) || shape[i] != '0' && b[i] != shape[i] {
			return false
		}
	}
	return true
}

// milliseconds reads a JSON number that must be a whole number of Unix
// milliseconds; flaw says why it is not.
func milliseconds(number []byte) (at engine.Time, flaw string) {
	digits := bytes.TrimPrefix(number, []byte("-"))
	var n int64
	for _, c := range digits {
		if !digit(c) {
			return 0, `field "at" is no whole number: write Unix milliseconds without fraction or exponent`
		}
		if n < 1e17 { // enough to see that it is too much
			n = n*10 + int64(c-'0')
		}
	}
	if len(digits) < len(number) {
		n = -n
	}
	if n < minAt || n > maxAt {
		return 0, `field "at" is not in the years 0 to 9999: write Unix milliseconds, not micro- or nanoseconds`
	}
	return engine.Time(n), ""
}

// typeName names the type of the value that begins with c.
func typeName(c byte) string {
	switch c {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}
