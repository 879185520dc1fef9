package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// Only the route can fail an answer (design, section 5, 12). What else stands in
// one is read with the types below: in the place of what should be there anything
// else counts as absent.

// Number is a JSON number. Anything else counts as none, a number too large to
// be one too.
type Number struct {
	Value float64
	Given bool
}

// UnmarshalJSON implements json.Unmarshaler, and never fails.
func (n *Number) UnmarshalJSON(b []byte) error {
	x, err := strconv.ParseFloat(string(b), 64)
	if *n = (Number{}); err == nil {
		*n = Number{x, true}
	}
	return nil
}

// Pointer is nil where there is no number.
func (n Number) Pointer() *float64 {
	if !n.Given {
		return nil
	}
	return &n.Value
}

// Count is a number of tokens. What is none counts nothing.
func (n Number) Count() int64 {
	const most = 1 << 40 // more is a mistake, and would spend a budget
	if !n.Given || n.Value < 0 || n.Value > most {
		return 0
	}
	return int64(n.Value)
}

// Text is a JSON string. Anything else counts as an empty one.
type Text string

// UnmarshalJSON implements json.Unmarshaler, and never fails.
func (t *Text) UnmarshalJSON(b []byte) error {
	var s string
	*t = ""
	if json.Unmarshal(b, &s) == nil {
		*t = Text(s)
	}
	return nil
}

// Loose is a value of some shape. Anything else counts as an empty one.
type Loose[T any] struct{ Value T }

// UnmarshalJSON implements json.Unmarshaler, and never fails.
func (l *Loose[T]) UnmarshalJSON(b []byte) error {
	var v T
	if json.Unmarshal(b, &v) != nil {
		v = *new(T)
	}
	l.Value = v
	return nil
}

// Members visits the members of exactly one JSON object in their order. Names
// are exact, and may come twice.
//
// Errors: that it is none, and the first of visit.
func Members(raw []byte, visit func(key string, value json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	none := errors.New("is not one JSON object")
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return none
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return none
		}
		name, _ := key.(string)
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return none
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return none
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return none
	}
	return nil
}
