package fields

import (
	"cmp"
	"encoding/json"
	"fmt"
	"unicode"
	"unicode/utf8"

	"attend/internal/field"
)

const (
	defaultName = "default"
	maxName     = 128 // bytes
)

// checkRequest holds a request against the limits that are not the protocol's,
// and returns the Field's name.
func checkRequest(name string, op field.Op, params json.RawMessage) (string, error) {
	if name == "" {
		name = defaultName
	}
	if why := nameFlaw(name); why != "" {
		return "", refusal(op, "field", why)
	}
	if len(params) > maxRequest {
		return "", refusal(op, "", fmt.Sprintf("the request has %d bytes: at most %d", len(params), maxRequest))
	}
	return name, nil
}

// Name reads the name of a Field where it stands among an operation's
// parameters, as JSON; without one it is "default". What is no text is a
// *field.Error with the code that an unknown parameter has.
func Name(op field.Op, raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return defaultName, nil
	}
	name, ok := field.Text(raw)
	if !ok {
		return "", refusal(op, "field", `field is not a text, or holds half of a surrogate pair: it is the name of a Field, as "default"`)
	}
	return cmp.Or(name, defaultName), nil
}

// nameFlaw says what is wrong with a Field's name, "" for nothing.
func nameFlaw(name string) string {
	switch {
	case len(name) > maxName:
		return fmt.Sprintf("the field's name has %d bytes: at most %d", len(name), maxName)
	case !utf8.ValidString(name):
		return "the field's name is not UTF-8"
	}
	for _, r := range name {
		if unicode.IsControl(r) {
			return fmt.Sprintf("the field's name holds the control character %U: leave it out", r)
		}
	}
	return ""
}

// refusal is an error of the protocol about a part of a request, with the code
// that belongs to the operation.
func refusal(op field.Op, part, why string) *field.Error {
	code := field.InvalidQuery
	if op.Changes() {
		code = field.InvalidEntry
	}
	e := &field.Error{Code: code, Message: why}
	if part != "" {
		e.Details = map[string]any{"parameter": part}
	}
	return e
}
