package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"attend/internal/field"
)

// maxFieldBytes bounds a body: that of the largest entry, written with escapes,
// is smaller.
const maxFieldBytes = 1 << 20

// fieldCall is the body of a call, taken apart.
type fieldCall struct {
	field  json.RawMessage // what the body calls the Field; nil where it does not
	params json.RawMessage // the protocol's parameters, as they came
}

// readFieldCall reads a body: an object with the protocol's parameters, each
// once, and the name of the Field beside them.
func readFieldCall(w http.ResponseWriter, r *http.Request, op field.Op) (fieldCall, error) {
	curl := `curl -H 'Content-Type: application/json' -d '` + fieldExample(op) + `' http://…/v1/field/` + string(op)
	body, err := readBody(w, r, maxFieldBytes, curl)
	if err != nil {
		return fieldCall{}, err
	}
	call, err := splitFieldCall(body)
	if err != nil {
		return fieldCall{}, unreadable(err, curl)
	}
	return call, nil
}

// fieldExample is a body that the operation understands.
func fieldExample(op field.Op) string {
	switch op {
	case field.OpRegister:
		return `{"id":"kelp","role":"market analyst"}`
	case field.OpDeregister:
		return `{"id":"kelp"}`
	case field.OpWrite, field.OpDraft:
		return `{"agent":"kelp","entry":{"topic":"price","value":"$49/mo"},"intent":"seen on their pricing page"}`
	case field.OpCommit:
		return `{"draft_id":"01K…"}`
	case field.OpDiscard:
		return `{"draft_id":"01K…","intent":"it was a guess"}`
	case field.OpRetract:
		return `{"id":"01K…","agent":"kelp","intent":"the page was out of date"}`
	case field.OpSupersede:
		return `{"superseding_id":"01K…","agent":"kelp","entry":{"topic":"price","value":"$39/mo"},"intent":"the price was lowered"}`
	case field.OpRead:
		return `{"query":{"topic":"price"}}`
	case field.OpAttune, field.OpReckon:
		return `{"agent":"writer","topic":"price"}`
	}
	return `{}`
}

// splitFieldCall takes a body apart. Its errors say what is wrong with it.
func splitFieldCall(body []byte) (fieldCall, error) {
	var call fieldCall
	if !utf8.Valid(body) {
		return call, errors.New("it is not UTF-8")
	}
	// Within an entry it is the Field's to say what a key that stands twice means,
	// and anywhere what half of a surrogate pair does.
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil {
			return call, err
		}
		return call, errors.New("it is no JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return call, err
	}
	seen := make(map[string]bool)
	params := []byte{'{'}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return call, err
		}
		name := token.String()
		value, err := dec.ReadValue()
		if err != nil {
			return call, err
		}
		if seen[name] {
			return call, fmt.Errorf("%.100q stands in it twice", name)
		}
		seen[name] = true
		if name == "field" {
			call.field = json.RawMessage(value.Clone())
			continue
		}
		if len(params) > 1 {
			params = append(params, ',')
		}
		if params, err = jsontext.AppendQuote(params, name); err != nil {
			return call, err
		}
		params = append(append(params, ':'), value...)
	}
	if _, err := dec.ReadToken(); err != nil { // the end of the object
		return call, err
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return call, errors.New("something stands behind the object")
	}
	call.params = append(params, '}')
	return call, nil
}
