package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/problem"
)

// Codes of the problems about Fields that are not the protocol's own.
const (
	codeForbidden = "forbidden"
	codeBusy      = "tooManyOperations"
	codeUnknown   = "unknownOutcome"
)

// Fields are the memories that agents share. [fields.Service] keeps them.
type Fields interface {
	// Do carries out an operation on the Field of that name; "" is "default".
	// What the protocol refuses is a *field.Error.
	Do(ctx context.Context, name string, op field.Op, params json.RawMessage) (any, error)
	// Names returns the names of all Fields that have a change, in order.
	Names(ctx context.Context) ([]string, error)
}

// FieldUse is what a caller wants of a Field.
type FieldUse struct {
	Field string   // its name
	Op    field.Op // what is to be done there
	Agent string   // whom the caller speaks for, "" for nobody
}

// fieldProblem is a problem with a code of the protocol.
type fieldProblem struct {
	problem.Problem
	// Details are figures for programs, such as the length that an intent must
	// have.
	Details map[string]any `json:"details,omitempty"`
}

// registerField adds the routes of the Fields.
func (a *API) registerField(r chi.Router) {
	for _, op := range field.Ops() {
		r.Method(http.MethodPost, "/v1/field/"+string(op), a.handle(func(w http.ResponseWriter, r *http.Request) error {
			return a.fieldOp(w, r, op)
		}))
	}
	r.Method(http.MethodPost, "/v1/field/{op}", a.handle(noFieldOp))
	r.Method(http.MethodGet, "/v1/fields", a.handle(a.listFields))
}

// noFieldOp answers what is the name of no operation.
func noFieldOp(http.ResponseWriter, *http.Request) error {
	ops := make([]string, 0, len(field.Ops()))
	for _, op := range field.Ops() {
		ops = append(ops, string(op))
	}
	return refuse(http.StatusNotFound, codeNotFound, "a Field has no such operation: it has %s", strings.Join(ops, ", "))
}

// fieldOp answers POST /v1/field/{op}.
func (a *API) fieldOp(w http.ResponseWriter, r *http.Request, op field.Op) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	call, err := readFieldCall(w, r, op)
	if err != nil {
		return err
	}
	if err := a.MayUseField(r.Context(), FieldUse{Field: call.field, Op: op, Agent: call.agent}); err != nil {
		return refuse(http.StatusForbidden, codeForbidden, "%v", err)
	}
	result, err := a.Fields.Do(r.Context(), call.field, op, call.params)
	if err == nil {
		return writeJSON(w, http.StatusOK, result)
	}
	if refused, ok := errors.AsType[*field.Error](err); ok {
		status := fieldStatus(refused.Code)
		problem.Write(w, status, fieldProblem{problem.New(status, refused.Code, refused.Message), refused.Details})
		return nil
	}
	return a.fieldFault(r, err)
}

// fieldStatus is the status that goes with a code of the protocol.
func fieldStatus(code string) int {
	switch code {
	case field.EntryNotFound, field.DraftNotFound:
		return http.StatusNotFound
	case field.RetractNotAuthorized:
		return http.StatusForbidden
	default:
		return http.StatusBadRequest
	}
}

// fieldFault tells the caller of what is not its mistake, where that is more
// than that the store does not answer.
func (a *API) fieldFault(r *http.Request, err error) error {
	switch {
	case errors.Is(err, fields.ErrUnknownOutcome):
		a.Logger.WarnContext(r.Context(), "the store's answer was lost", "route", describeRoute(r), "error", err)
		// No Retry-After: a client that obeys it would write twice.
		return refuse(http.StatusServiceUnavailable, codeUnknown, "%v", fields.ErrUnknownOutcome)
	case errors.Is(err, fields.ErrBusy):
		return refuse(http.StatusTooManyRequests, codeBusy, "%v", fields.ErrBusy)
	default:
		return err
	}
}

// listFields answers GET /v1/fields: those that the caller may read.
func (a *API) listFields(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	names, err := a.Fields.Names(r.Context())
	if err != nil {
		return err
	}
	shown := make([]string, 0, len(names))
	for _, name := range names {
		if a.MayUseField(r.Context(), FieldUse{Field: name, Op: field.OpRead}) == nil {
			shown = append(shown, name)
		}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"fields": shown})
}
