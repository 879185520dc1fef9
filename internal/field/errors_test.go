package field_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/field"
)

// Which refusal comes, and which of several comes first. "" is none. Each row
// meets a fresh Field in which kelp has written e1 and mara drafted e2.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const (
		some  = `"intent":"0123456789"`
		short = `"intent":"012345678"`
	)
	long := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		op field.Op
		params,
		want string
	}{
		{field.OpWrite, `{"entry":{},` + some + `}`, ""},
		{field.OpWrite, `{"entry":{},` + short + `}`, field.IntentTooShort},
		{field.OpWrite, `{"entry":{},"intent":"   nine char   "}`, field.IntentTooShort},
		{field.OpWrite, `{"entry":{},"intent":""}`, field.IntentTooShort},
		{field.OpWrite, `{"entry":{},"intent":"🌊🌊🌊🌊🌊"}`, ""},
		{field.OpWrite, `{"entry":{},"intent":"\ufeff23456789\u00a0"}`, field.IntentTooShort},
		{field.OpWrite, `{"entry":{},"intent":"\u0085123456789"}`, ""},
		{field.OpWrite, `{"entry":{},"intent":null}`, field.IntentRequired},
		{field.OpWrite, `{"entry":{}}`, field.IntentRequired},
		{field.OpWrite, `{"entry":{},"intent":7}`, field.IntentRequired},
		{field.OpWrite, `{"entry":null}`, field.InvalidEntry},
		{field.OpWrite, `{"entry":[1]}`, field.InvalidEntry},
		{field.OpWrite, `{"entry":"x"}`, field.InvalidEntry},
		{field.OpWrite, `{"entry":1}`, field.InvalidEntry},
		{field.OpWrite, `{` + some + `}`, field.InvalidEntry},
		{field.OpWrite, ``, field.InvalidEntry},
		{field.OpWrite, `null`, field.InvalidEntry},
		{field.OpWrite, `[]`, field.InvalidEntry},
		{field.OpWrite, `{"entry":{},`, field.InvalidEntry},
		{field.OpWrite, "{\"entry\":{},\"intent\":\"\xff123456789\"}", field.InvalidEntry},
		{field.OpWrite, `{"entry":{},` + some + `,"agent":5}`, field.AgentRequired},
		{field.OpWrite, `{"entry":{},` + some + `,"agent":null}`, ""},
		{field.OpWrite, `{"entry":{},` + some + `,"agent":""}`, ""},
		{field.OpWrite, `{"entry":{},` + some + `,"agent":"` + long(256) + `"}`, ""},
		{field.OpWrite, `{"entry":{},` + some + `,"agent":"` + long(257) + `"}`, field.AgentRequired},
		{field.OpWrite, `{"entry":{},"intent":"` + long(8192) + `"}`, ""},
		{field.OpWrite, `{"entry":{},"intent":"` + long(8193) + `"}`, field.InvalidEntry},
		{field.OpWrite, `{"entry":{"x":"` + long(64<<10-8) + `"},` + some + `}`, ""},
		{field.OpWrite, `{"entry":{"x":  "` + long(64<<10-8) + `"},` + some + `}`, ""}, // space is taken out
		{field.OpWrite, `{"entry":{"x":"` + long(64<<10-7) + `"},` + some + `}`, field.InvalidEntry},
		{field.OpWrite, `{"entry":{},` + some + `,"role":"pilot"}`, field.InvalidEntry},
		{field.OpWrite, `{"entry":{},` + some + `,"Agent":"kelp"}`, field.InvalidEntry},
		{field.OpWrite, `{"entry":{},` + some + `,"field":"default"}`, ""}, // who calls has chosen it by this
		{field.OpWrite, `{"entry":1,"entry":{},` + some + `}`, ""},         // the last of a parameter counts
		{field.OpWrite, `{"extra":1}`, field.InvalidEntry},

		{field.OpDraft, `{"entry":{},` + some + `}`, ""},
		{field.OpDraft, `{"entry":1}`, field.InvalidEntry},
		{field.OpDraft, `{"entry":{},"intent":""}`, field.IntentRequired},
		{field.OpDraft, `{"entry":{},"intent":"   "}`, field.IntentRequired},
		{field.OpDraft, `{"entry":{},"intent":"short"}`, field.IntentTooShort},

		{field.OpCommit, `{"draft_id":"e2"}`, ""},
		{field.OpCommit, `{"draft_id":"e1"}`, field.DraftNotFound},
		{field.OpCommit, `{"draft_id":""}`, field.DraftNotFound},
		{field.OpCommit, `{"draft_id":2}`, field.DraftNotFound},
		{field.OpCommit, `{}`, field.DraftNotFound},
		{field.OpCommit, `null`, field.DraftNotFound},
		{field.OpCommit, `{"draft_id":"e2","agent":"mara"}`, field.InvalidEntry},

		{field.OpDiscard, `{"draft_id":"e2",` + some + `}`, ""},
		{field.OpDiscard, `{"draft_id":"e9"}`, field.DraftNotFound},
		{field.OpDiscard, `{"draft_id":"e2"}`, field.IntentRequired},
		{field.OpDiscard, `{"draft_id":"e2","intent":""}`, field.IntentRequired},
		{field.OpDiscard, `{"draft_id":"e2","intent":null}`, field.IntentRequired},
		{field.OpDiscard, `{"draft_id":"e2","intent":"   "}`, field.IntentTooShort},
		{field.OpDiscard, `{"draft_id":"e2",` + some + `,"agent":1}`, field.AgentRequired},
		{field.OpDiscard, `{"draft_id":"e2",` + some + `,"id":"e2"}`, field.InvalidEntry},

		{field.OpRetract, `{"id":"e1","agent":"kelp",` + some + `}`, ""},
		{field.OpRetract, `{"id":"","agent":"kelp",` + some + `}`, field.EntryNotFound},
		{field.OpRetract, `{"agent":" "}`, field.EntryNotFound},
		{field.OpRetract, `null`, field.EntryNotFound},
		{field.OpRetract, `{"id":"e9","agent":"kelp",` + some + `}`, field.EntryNotFound},
		{field.OpRetract, `{"id":"e9","agent":"kelp",` + short + `}`, field.IntentTooShort},
		{field.OpRetract, `{"id":"e1","agent":" "}`, field.AgentRequired},
		{field.OpRetract, `{"id":"e1"}`, field.AgentRequired},
		{field.OpRetract, `{"id":"e1","agent":"kelp"}`, field.IntentTooShort},
		{field.OpRetract, `{"id":"e1","agent":"gull",` + short + `}`, field.IntentTooShort},
		{field.OpRetract, `{"id":"e1","agent":"gull",` + some + `}`, field.RetractNotAuthorized},
		{field.OpRetract, `{"id":"e2","agent":"mara",` + some + `}`, field.EntryNotFound},
		{field.OpRetract, `{"id":"e1","agent":"kelp","why":1,` + some + `}`, field.InvalidEntry},

		{field.OpSupersede, `{"superseding_id":"e1","entry":{},"agent":"gull",` + some + `}`, ""},
		{field.OpSupersede, `{}`, field.EntryNotFound},
		{field.OpSupersede, `{"superseding_id":"e1"}`, field.InvalidEntry},
		{field.OpSupersede, `{"superseding_id":"e1","entry":{}}`, field.AgentRequired},
		{field.OpSupersede, `{"superseding_id":"e1","entry":{},"agent":"gull"}`, field.IntentTooShort},
		{field.OpSupersede, `{"superseding_id":"e9","entry":{},"agent":"gull",` + short + `}`, field.IntentTooShort},
		{field.OpSupersede, `{"superseding_id":"e9","entry":{},"agent":"gull",` + some + `}`, field.EntryNotFound},
		{field.OpSupersede, `{"superseding_id":"e1","entry":{},"agent":"gull",` + some + `,"id":"e1"}`, field.InvalidEntry},
		{field.OpSupersede, `{"superseding_id":"e2","entry":{},"agent":"mara",` + some + `}`, field.EntryNotFound},

		{field.OpRegister, `{"id":"kelp","role":"pilot"}`, ""},
		{field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":[]}`, ""},
		{field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":["a", "b"]}`, ""},
		{field.OpRegister, `{"id":"kelp","role":"pilot","topic":"reef"}`, field.InvalidEntry},
		{field.OpRegister, `{"id":" ","role":"pilot"}`, field.AgentRequired},
		{field.OpRegister, `{"id":5,"role":"pilot"}`, field.AgentRequired},
		{field.OpRegister, `{"id":"kelp","role":"\ufeff"}`, field.AgentRequired},
		{field.OpRegister, `{"id":"kelp"}`, field.AgentRequired},
		{field.OpRegister, `null`, field.AgentRequired},
		{field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":"x"}`, field.InvalidEntry},
		{field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":["a",1]}`, field.InvalidEntry},
		{field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":["a",null]}`, field.InvalidEntry},
		{field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":null}`, field.InvalidEntry},
		{field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":[` + strings.Repeat(`"a",`, 63) + `"a"]}`, ""},
		{field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":[` + strings.Repeat(`"a",`, 64) + `"a"]}`, field.InvalidEntry},
		{field.OpRegister, `{"id":"kelp","role":"pilot","capabilities":["` + long(257) + `"]}`, field.InvalidEntry},
		{field.OpRegister, `{"id":"kelp","role":"` + long(257) + `"}`, field.AgentRequired},

		{field.OpDeregister, `{"id":"nobody"}`, ""},
		{field.OpDeregister, `{"id":""}`, field.AgentRequired},
		{field.OpDeregister, `{"id":"  "}`, field.AgentRequired},
		{field.OpDeregister, ``, field.AgentRequired},
		{field.OpDeregister, `{"id":"kelp","role":"pilot"}`, field.InvalidEntry},

		{field.OpRead, ``, ""},
		{field.OpRead, `{}`, ""},
		{field.OpRead, `{"query":{}}`, ""},
		{field.OpRead, `{"query":null}`, field.InvalidQuery},
		{field.OpRead, `{"query":"q"}`, field.InvalidQuery},
		{field.OpRead, `{"query":42}`, field.InvalidQuery},
		{field.OpRead, `{"query":[1]}`, field.InvalidQuery},
		{field.OpRead, `"q"`, field.InvalidQuery},
		{field.OpRead, `{"caller":1}`, field.InvalidQuery},
		{field.OpRead, `{"limit":-1}`, field.InvalidQuery},
		{field.OpRead, `{"limit":"1"}`, field.InvalidQuery},
		{field.OpRead, `{"after":"e9"}`, field.InvalidQuery},
		{field.OpRead, `{"topic":"reef"}`, field.InvalidQuery},
	} {
		w := newWorld(t, gradedMode)
		w.write("kelp", `{}`, intent20)
		w.draft("mara", `{}`)
		if got := w.code(c.op, c.params); got != c.want {
			t.Errorf("%s %.120s: %q, want %q", c.op, c.params, got, c.want)
		}
		if c.want != "" && w.state.Epoch() != 2 {
			t.Errorf("%s %.120s: refused, and an epoch taken", c.op, c.params)
		}
	}
}

func TestRefusals_OfQuestions(t *testing.T) {
	t.Parallel()
	for _, op := range []field.Op{field.OpAttune, field.OpReckon} {
		for _, c := range []struct{ params, want string }{
			{`{"agent":"mara"}`, ""},
			{`{}`, field.AgentRequired},
			{`null`, field.AgentRequired},
			{``, field.AgentRequired},
			{`[]`, field.AgentRequired},
			{`{"agent":""}`, field.AgentRequired},
			{`{"agent":"  "}`, field.AgentRequired},
			{`{"agent":5}`, field.AgentRequired},
			{`{"agent":" ","max_units":-1}`, field.AgentRequired},
			{`{"agent":"mara","max_units":-1}`, field.InvalidQuery},
			{`{"agent":"mara","max_units":-0.5}`, field.InvalidQuery},
			{`{"agent":"mara","max_units":2.7}`, field.InvalidQuery},
			{`{"agent":"mara","max_units":20000.5}`, field.InvalidQuery},
			{`{"agent":"mara","max_units":"2"}`, field.InvalidQuery},
			{`{"agent":"mara","max_units":null}`, ""},
			{`{"agent":"mara","max_units":2.0}`, ""},
			{`{"agent":"mara","max_units":-0}`, ""},
			{`{"agent":"mara","max_units":1e300}`, ""},
			{`{"agent":"mara","topic":{}}`, field.InvalidQuery},
			{`{"agent":"mara","topic":["reef"]}`, field.InvalidQuery},
			{`{"agent":"mara","topic":null}`, ""},
			{`{"agent":"mara","topic":5}`, ""},
			{`{"agent":"mara","topic":false}`, ""},
			{`{"agent":"mara","role":5}`, field.InvalidQuery},
			{`{"agent":"mara","only_topic":1}`, field.InvalidQuery},
			{`{"agent":"mara","only_topic":true}`, ""},
			{`{"agent":"mara","since_epoch":1}`, field.InvalidQuery},
			{`{"agent":"mara","field":"default"}`, ""},
		} {
			w := newWorld(t, referenceMode)
			if got := w.code(op, c.params); got != c.want {
				t.Errorf("%s %s: %q, want %q", op, c.params, got, c.want)
			}
		}
	}
	w := newWorld(t, referenceMode)
	equal(t, "deep is reckon's alone", w.code(field.OpAttune, `{"agent":"mara","deep":true}`), field.InvalidQuery)
}

// Without a minimum some intents still are none.
func TestRefusals_NoMinimum(t *testing.T) {
	t.Parallel()
	for _, least := range []int{0, -3} {
		w := newWorld(t, field.Settings{Mode: field.Reference, MinIntent: least})
		for _, c := range []struct {
			op           field.Op
			params, want string
		}{
			{field.OpWrite, `{"entry":{},"intent":"","agent":"kelp"}`, ""},
			{field.OpDraft, `{"entry":{},"intent":""}`, field.IntentRequired},
			{field.OpDraft, `{"entry":{},"intent":" "}`, field.IntentRequired},
			{field.OpDraft, `{"entry":{},"intent":"x"}`, ""},
			{field.OpDiscard, `{"draft_id":"e2","intent":""}`, field.IntentRequired},
			{field.OpDiscard, `{"draft_id":"e2","intent":"  "}`, ""},
			{field.OpRetract, `{"id":"e1","agent":"kelp"}`, field.IntentTooShort},
			{field.OpSupersede, `{"superseding_id":"e1","entry":{},"agent":"kelp","intent":""}`, ""},
			{field.OpRetract, `{"id":"e3","agent":"kelp","intent":""}`, ""},
		} {
			equal(t, fmt.Sprint(least, " ", c.op, " ", c.params), w.code(c.op, c.params), c.want)
		}
	}
}

func TestError(t *testing.T) {
	t.Parallel()
	refused := func(op field.Op, params string) *field.Error {
		t.Helper()
		_, err := newWorld(t, gradedMode).try(op, params)
		var e *field.Error
		if !errors.As(err, &e) {
			t.Fatalf("%s %s: %v", op, params, err)
		}
		return e
	}
	for intent, length := range map[string]int{`"012345678"`: 9, `"   nine char   "`: 9, `""`: 0, `"🌊"`: 2} {
		e := refused(field.OpWrite, `{"entry":{},"intent":`+intent+`}`)
		if diff := cmp.Diff(map[string]any{"minIntentLength": 10, "actualLength": length}, e.Details); diff != "" {
			t.Errorf("%s (-want +got):\n%s", intent, diff)
		}
	}
	e := refused(field.OpAttune, `{"agent":"mara","topics":["reef"]}`)
	equal(t, "an unknown parameter", e.Error(),
		`INVALID_QUERY: attune has no parameter "topics": it has agent, topic, role, max_units, only_topic`)
	e = refused(field.OpReckon, `{"agent":"mara","conflictsOnly":true}`)
	equal(t, "a parameter of subscriptions alone", e.Error(),
		`INVALID_QUERY: reckon has no parameter "conflictsOnly": it has agent, topic, role, max_units, only_topic, deep`)
	e = refused(field.OpDiscard, `{"draft_id":"e7","intent":"0123456789"}`)
	equal(t, "a draft that there is not", e.Error(),
		`DRAFT_NOT_FOUND: discard: there is no draft "e7": it was committed or discarded before, or never was`)
	e = refused(field.OpCommit, `{}`)
	equal(t, "no draft is named", e.Error(), `DRAFT_NOT_FOUND: commit needs draft_id: the id that draft gave`)
}

func TestDecide_Mistakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	w.write("kelp", `{}`, intent20)
	for _, c := range []struct {
		op   field.Op
		id   string
		want string
	}{
		{"forget", "e2", `no operation "forget"`},
		{"", "e2", `no operation ""`},
		{field.OpWrite, "", "draw a new one"},
		{field.OpWrite, "e1", "draw a new one"},
		{field.OpDraft, strings.Repeat("x", 257), "draw a new one"},
	} {
		_, err := w.state.Decide(c.op, json.RawMessage(`{"entry":{},"intent":"0123456789"}`), gradedMode, field.Draw{ID: c.id})
		var e *field.Error
		if err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q with id %q: %v, want %q", c.op, c.id, err, c.want)
		}
	}
	if _, err := field.ParseQuery(field.OpWrite, json.RawMessage(`{}`), gradedMode); err == nil {
		t.Error("write is parsed as a question")
	}
}
