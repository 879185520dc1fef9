package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/access"
	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store"
)

// fakeFields answers every operation alike, and notes what it was asked.
type fakeFields struct {
	calls  []string
	result any
	err    error
	names  []string
	drafts map[string]string // whose each is, by id
}

func (f *fakeFields) DraftAgent(_ context.Context, _, id string) (agent string, ok bool, err error) {
	agent, ok = f.drafts[id]
	return agent, ok, f.err
}

func (f *fakeFields) Do(_ context.Context, name string, op field.Op, params json.RawMessage) (any, error) {
	f.calls = append(f.calls, fmt.Sprintf("%q %s %s", name, op, params))
	return f.result, f.err
}

func (f *fakeFields) Names(context.Context) ([]string, error) { return f.names, f.err }

// A body is the protocol's parameters, byte for byte, and the Field's name.
func TestField_TakesABodyApart(t *testing.T) {
	w := newWorld(t)
	w.fields.result = map[string]any{"epoch": 7, "entry": json.RawMessage(`{"<": "&"}`)}
	for _, c := range []struct{ op, body, call string }{
		{"attune", `{"agent":"ada"}`, `"default" attune {"agent":"ada"}`},
		{"write", ` { "field" : "shop/1" , "entry": { "a" : 1e2, "a": "\u0041" }, "intent":"x" } `, `"shop/1" write {"entry":{ "a" : 1e2, "a": "\u0041" },"intent":"x"}`},
		{"read", `{}`, `"default" read {}`},
		{"read", `{"field":"\u0061"}`, `"a" read {}`},
		{"reckon", `{"a\"b":null,"field":""}`, `"default" reckon {"a\"b":null}`},
	} {
		w.fields.calls = nil
		r := w.do(http.MethodPost, "/v1/field/"+c.op, c.body)
		if r.status != http.StatusOK || r.body != `{"entry":{"<":"&"},"epoch":7}`+"\n" || r.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %d %s", c.op, c.body, r.status, r.body)
		}
		if diff := cmp.Diff([]string{c.call}, w.fields.calls); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.op, c.body, diff)
		}
	}
}

// What is no object with each key once never reaches the Field.
func TestField_RefusesBodies(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string]string{
		`[]`:                                    "no JSON object",
		`"x"`:                                   "no JSON object",
		`{`:                                     "EOF",
		`{"agent":"a",}`:                        "",
		`{"agent":"a" "b":1}`:                   "",
		`{"agent":"a","agent":"b"}`:             `"agent" stands in it twice`,
		`{"field":"a","\u0066ield":"b"}`:        `"field" stands in it twice`,
		`{"agent":"a"} {}`:                      "behind the object",
		"{\"agent\":\"\xff\"}":                  "UTF-8",
		`{"agent":"` + "\n" + `"}`:              "",
		`{"agent":nul}`:                         "",
		`{"entry":{"a":{"b":[1,2}}}`:            "",
		`{"entry":{"a":1},"intent":"i"}garbage`: "",
	} {
		r := w.do(http.MethodPost, "/v1/field/write", body)
		if p := r.problem(http.StatusBadRequest, "invalidBody"); !strings.Contains(p, want) || !strings.Contains(p, "/v1/field/write") {
			t.Errorf("%s: %s, want %q and a command that works", body, p, want)
		}
	}
	w.do(http.MethodPost, "/v1/field/write", `{"x":"`+strings.Repeat("a", 1<<20)+`"}`).problem(http.StatusRequestEntityTooLarge, "bodyTooLarge")
	if p := w.do(http.MethodPost, "/v1/field/write?field=a", `{}`).problem(http.StatusBadRequest, "invalidParameter"); p != `unknown parameter "field": this route takes none` {
		t.Errorf("a parameter in the query string: %s", p)
	}
	w.do(http.MethodPost, "/v1/field/write", ``).problem(http.StatusUnsupportedMediaType, "unsupportedMediaType")
	if len(w.fields.calls) > 0 {
		t.Errorf("the Field was asked: %q", w.fields.calls)
	}
}

// Every operation's example is a body that it understands.
func TestField_ExamplesAreUnderstood(t *testing.T) {
	w := newWorld(t)
	for _, op := range field.Ops() {
		detail := w.do(http.MethodPost, "/v1/field/"+string(op), "").problem(http.StatusUnsupportedMediaType, "unsupportedMediaType")
		_, rest, _ := strings.Cut(detail, "-d '")
		body, _, found := strings.Cut(rest, "'")
		if !found {
			t.Fatalf("%s: no example in %s", op, detail)
		}
		_, err := field.NewState().Decide(op, json.RawMessage(body), field.DefaultSettings(), field.Draw{Now: 1, ID: "01ARZ3NDEKTSV4RRFFQ69G5FAV"})
		var refused *field.Error
		missing := []string{field.EntryNotFound, field.DraftNotFound} // a Field that holds nothing has none
		if err != nil && (!errors.As(err, &refused) || !slices.Contains(missing, refused.Code)) {
			t.Errorf("%s %s: %v", op, body, err)
		}
	}
}

func TestField_UnknownOperation(t *testing.T) {
	w := newWorld(t)
	detail := w.do(http.MethodPost, "/v1/field/forget", `{}`).problem(http.StatusNotFound, "notFound")
	for _, op := range field.Ops() {
		if !strings.Contains(detail, string(op)) {
			t.Errorf("%s is not among those that there are: %s", op, detail)
		}
	}
	if r := w.get("/v1/field/attune"); r.status != http.StatusMethodNotAllowed {
		t.Errorf("GET is answered with %d", r.status)
	}
}

// Errors of the protocol keep their code; others are the store's and ours.
func TestField_Errors(t *testing.T) {
	unknown := fmt.Errorf("field %q: write: %w: %w", "a", fields.ErrUnknownOutcome, store.ErrUnavailable)
	for _, c := range []struct {
		err    error
		status int
		code   string
		retry  string
	}{
		{&field.Error{Code: field.IntentRequired, Message: "why?"}, 400, "INTENT_REQUIRED", ""},
		{&field.Error{Code: field.IntentTooShort, Message: "why?"}, 400, "INTENT_TOO_SHORT", ""},
		{&field.Error{Code: field.InvalidEntry, Message: "why?"}, 400, "INVALID_ENTRY", ""},
		{&field.Error{Code: field.InvalidQuery, Message: "why?"}, 400, "INVALID_QUERY", ""},
		{&field.Error{Code: field.AgentRequired, Message: "why?"}, 400, "AGENT_REQUIRED", ""},
		{&field.Error{Code: field.RetractNotAuthorized, Message: "why?"}, 403, "RETRACT_NOT_AUTHORIZED", ""},
		{&field.Error{Code: field.EntryNotFound, Message: "why?"}, 404, "ENTRY_NOT_FOUND", ""},
		{fmt.Errorf("wrapped: %w", &field.Error{Code: field.DraftNotFound, Message: "why?"}), 404, "DRAFT_NOT_FOUND", ""},
		{unknown, 503, "unknownOutcome", ""},
		{fmt.Errorf("a: %w", fields.ErrBusy), 429, "tooManyOperations", "1"},
		{fields.ErrStopping, 503, "unavailable", "1"},
		{store.ErrUnavailable, 503, "unavailable", "1"},
		{store.ErrConflict, 503, "unavailable", "1"},
		{errors.New("oh"), 500, "internal", ""},
	} {
		w := newWorld(t)
		w.fields.err = c.err
		r := w.do(http.MethodPost, "/v1/field/write", `{}`)
		r.problem(c.status, c.code)
		if got := r.header.Get("Retry-After"); got != c.retry {
			t.Errorf("%s: Retry-After %q, want %q", c.code, got, c.retry)
		}
	}
	w := newWorld(t)
	w.fields.err = &field.Error{Code: field.IntentTooShort, Message: "why?", Details: map[string]any{"actualLength": 3}}
	if r := w.do(http.MethodPost, "/v1/field/write", `{}`); !strings.Contains(r.body, `"details":{"actualLength":3}`) {
		t.Errorf("no details: %s", r.body)
	}
}

// Whoever may not use a Field, or speak for an agent, is told so, and does not
// see its name. A draft belongs to its agent, whoever the call names.
func TestField_Access(t *testing.T) {
	w := newWorld(t)
	w.fields.names = []string{"mine", "theirs"}
	w.fields.drafts = map[string]string{"D1": "ada", "D2": "bob", "D3": ""}
	w.who = access.NewPrincipal(access.Grant{
		Name: "ann", Rights: []string{access.Read, access.Ingest}, Fields: []string{"mine"}, Agents: []string{"ada"},
	})
	const why = `,"intent":"x"`
	for _, c := range []struct{ op, body, denied string }{
		{"attune", `{"field":"theirs","agent":"ada"}`, `the Field "theirs"`},
		{"attune", `{"field":"mine","agent":"ada"}`, ""},
		{"write", `{"agent":"ada","entry":{}` + why + `}`, `the Field "default"`},
		{"register", `{"field":"mine","id":"ada","agent":"bob"}`, ""},
		{"deregister", `{"field":"mine","id":"bob","agent":"ada"}`, `the agent "bob"`},
		{"write", `{"field":"mine","agent":"\u0061da","id":"bob"}`, ""},
		{"write", `{"field":"mine","entry":{}` + why + `}`, `the agent ""`},
		{"read", `{"field":"mine","caller":"bob"}`, `the agent "bob"`},
		{"read", `{"field":"mine"}`, ""},
		{"commit", `{"field":"mine","draft_id":"D1"}`, ""},
		{"commit", `{"field":"mine","draft_id":"D2"}`, `the draft "D2"`},
		{"commit", `{"field":"mine","draft_id":"D3"}`, `the draft "D3"`},
		{"commit", `{"field":"mine","draft_id":"none"}`, ""}, // the Field says that there is none
		{"commit", `{"field":"mine","draft_id":7}`, ""},
		{"discard", `{"field":"mine","draft_id":"D1"` + why + `}`, ""},
		{"discard", `{"field":"mine","draft_id":"D2","agent":"ada"` + why + `}`, `the draft "D2"`},
		{"discard", `{"field":"mine","draft_id":"D1","agent":"bob"` + why + `}`, `the agent "bob"`},
		{"retract", `{"field":"mine","id":"E1","agent":"bob"` + why + `}`, `the agent "bob"`},
		{"retract", `{"field":"mine","agent":7}`, ""},
	} {
		w.fields.calls = nil
		r := w.do(http.MethodPost, "/v1/field/"+c.op, c.body)
		if c.denied == "" {
			if r.status != http.StatusOK || len(w.fields.calls) != 1 {
				t.Errorf("%s %s: %d %s", c.op, c.body, r.status, r.body)
			}
			continue
		}
		if detail := r.problem(http.StatusForbidden, "forbidden"); !strings.Contains(detail, c.denied) || len(w.fields.calls) > 0 {
			t.Errorf("%s %s: %s; calls %q", c.op, c.body, detail, w.fields.calls)
		}
	}
	if r := w.get("/v1/fields"); r.status != http.StatusOK || r.body != `{"fields":["mine"]}`+"\n" {
		t.Errorf("the list is %s", r.body)
	}
	w.fields.err = store.ErrUnavailable // while it is asked whose the draft is
	w.do(http.MethodPost, "/v1/field/commit", `{"field":"mine","draft_id":"D1"}`).problem(http.StatusServiceUnavailable, "unavailable")
}

// A Field's name that is no text has the protocol's code, as one that is too
// long has.
func TestField_BadName(t *testing.T) {
	w := newWorld(t)
	w.do(http.MethodPost, "/v1/field/write", `{"field":7}`).problem(http.StatusBadRequest, "INVALID_ENTRY")
	w.do(http.MethodPost, "/v1/field/attune", `{"field":{}}`).problem(http.StatusBadRequest, "INVALID_QUERY")
	if len(w.fields.calls) > 0 {
		t.Errorf("the Field was asked: %q", w.fields.calls)
	}
}

func TestField_Names(t *testing.T) {
	w := newWorld(t)
	if r := w.get("/v1/fields"); r.body != `{"fields":[]}`+"\n" {
		t.Errorf("without Fields: %s", r.body)
	}
	w.get("/v1/fields?x=1").problem(http.StatusBadRequest, "invalidParameter")
	w.fields.err = store.ErrUnavailable
	w.get("/v1/fields").problem(http.StatusServiceUnavailable, "unavailable")
}
