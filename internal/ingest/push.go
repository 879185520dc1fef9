package ingest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Push takes in events that are parsed already, under the rules of a body's
// lines, which it numbers from 1. The error is the store's: then the result
// counts what was committed before, and names what was not.
func (h *Handler) Push(ctx context.Context, events []Line) (Result, error) {
	return h.push(ctx, "", len(events), func(in *intake, i int) {
		l := &events[i]
		size := len(l.Scope) + len(l.Name) + len(l.ID) + len(l.Data) + len(l.Text)
		in.open(i+1, size)
		if f := in.line(i+1, size, l); f != nil {
			in.group.result.refuse(i+1, f)
		}
	})
}

// PushJSON takes in events as they would stand in an array of a body: each is
// one JSON object with the fields of a line. Those without a scope get the
// scope given, if it is not "".
func (h *Handler) PushJSON(ctx context.Context, scope string, events []json.RawMessage) (Result, error) {
	if scope != "" {
		if err := checkScope(scope); err != nil {
			return Result{Errors: []LineError{}}, err
		}
	}
	return h.push(ctx, scope, len(events), func(in *intake, i int) {
		in.piece(piece{number: i + 1, bytes: events[i]})
	})
}

func (h *Handler) push(ctx context.Context, scope string, n int, take func(in *intake, i int)) (Result, error) {
	in, done := h.newIntake(ctx, scope)
	defer done()
	for i := 0; i < n && in.failed == nil; i++ {
		take(in, i)
		if in.full() {
			in.commit(ctx)
		}
	}
	if in.failed == nil {
		in.commit(ctx)
	}
	return in.result(), in.failed
}

// line takes in one parsed event.
func (in *intake) line(number, size int, l *Line) *fault {
	if f := in.desk.check(l); f != nil {
		return f
	}
	e, f := in.admit(number, size, l.Scope, l.Name, l.ID)
	if e == nil {
		return f
	}
	e.At, e.Data, e.Text = l.At, bytes.Clone(l.Data), l.Text
	return nil
}

// check holds a parsed event against the rules that the decoder keeps.
func (d *decoder) check(l *Line) *fault {
	for _, part := range []struct {
		field field
		value string
		limit int
	}{{fieldScope, l.Scope, maxScope}, {fieldName, l.Name, maxName}, {fieldID, l.ID, maxID}, {fieldText, l.Text, 0}} {
		if !utf8.ValidString(part.value) {
			return &fault{code: CodeInvalidUTF8, text: fmt.Sprintf("field %q is not UTF-8", part.field)}
		}
		if part.limit == 0 || part.field == fieldID && part.value == "" {
			continue
		}
		if f := checkText(part.field, []byte(part.value), part.limit); f != nil {
			return f
		}
	}
	if l.At != nil && (*l.At < minAt || *l.At > maxAt) {
		return &fault{code: CodeBadTime, text: `field "at" is not in the years 0 to 9999`}
	}
	if l.Data == nil {
		return nil
	}
	d.reset(l.Data)
	switch {
	case !d.value(2):
	case d.i < len(d.b):
		d.unexpected("the end of the value")
	default:
		d.hard = d.soft
	}
	if d.hard != nil {
		return &fault{code: d.hard.code, text: `field "data": ` + d.hard.String()}
	}
	return nil
}

// checkScope holds a scope for a whole body against the rule of scopes.
func checkScope(scope string) error {
	if !utf8.ValidString(scope) {
		return fmt.Errorf(`field "scope" is not UTF-8`)
	}
	if f := checkText(fieldScope, []byte(scope), maxScope); f != nil {
		return fmt.Errorf("%s", f.text)
	}
	return nil
}
