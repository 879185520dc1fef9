package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"attend/internal/access"
	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/problem"
)

// Codes of the problems about Fields that are not the protocol's own.
const (
	codeBusy    = "tooManyOperations"
	codeUnknown = "unknownOutcome"
)

// Fields are the memories that agents share. [fields.Service] keeps them.
type Fields interface {
	// Do carries out an operation on the Field of that name; "" is "default".
	// What the protocol refuses is a *field.Error.
	Do(ctx context.Context, name string, op field.Op, params json.RawMessage) (any, error)
	// Names returns the names of all Fields that have a change, in order.
	Names(ctx context.Context) ([]string, error)
	fields.Drafts
}

// fieldProblem is a problem with a code of the protocol.
type fieldProblem struct {
	problem.Problem
	// Details are figures for programs, such as the length that an intent must
	// have.
	Details map[string]any `json:"details,omitempty"`
}

// fieldRoutes are the routes of the Fields.
func (a *API) fieldRoutes() []route {
	var all []route
	for _, op := range field.Ops() {
		right := access.Read
		if op.Changes() {
			right = access.Ingest
		}
		all = append(all, route{http.MethodPost, "/v1/field/" + string(op), right, func(w http.ResponseWriter, r *http.Request) error {
			return a.fieldOp(w, r, op)
		}})
	}
	return append(all,
		route{http.MethodPost, "/v1/field/{op}", anyRight, noFieldOp},
		route{http.MethodGet, "/v1/fields", access.Read, a.listFields})
}

// fieldAccess says which Fields the sender of a request may use, and for which
// agents it may speak there.
func fieldAccess(ctx context.Context) fields.Access {
	caller := access.From(ctx)
	return fields.Access{MayField: caller.MayField, MayAgent: caller.SpeaksFor()}
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
	result, err := a.doField(r.Context(), op, call)
	if err == nil {
		return writeJSON(w, http.StatusOK, result)
	}
	if denied, ok := errors.AsType[*fields.Denied](err); ok {
		return refuse(http.StatusForbidden, codeForbidden, "%s", denied)
	}
	if refused, ok := errors.AsType[*field.Error](err); ok {
		status := fieldStatus(refused.Code)
		problem.Write(w, status, fieldProblem{problem.New(status, refused.Code, refused.Message), refused.Details})
		return nil
	}
	return a.fieldFault(err)
}

// doField carries out an operation for whoever may.
func (a *API) doField(ctx context.Context, op field.Op, call fieldCall) (any, error) {
	name, err := fields.Name(op, call.field)
	if err != nil {
		return nil, err
	}
	if err := fieldAccess(ctx).Check(ctx, a.Fields, name, op, call.params); err != nil {
		return nil, err
	}
	return a.Fields.Do(ctx, name, op, call.params)
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
func (a *API) fieldFault(err error) error {
	switch {
	case errors.Is(err, fields.ErrUnknownOutcome):
		a.outage.Failed(access.Ingest, err)
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
	may := fieldAccess(r.Context())
	shown := make([]string, 0, len(names))
	for _, name := range names {
		if may.Sees(name) {
			shown = append(shown, name)
		}
	}
	return writeJSON(w, http.StatusOK, map[string]any{"fields": shown})
}
