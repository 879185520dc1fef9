package field_test

import (
	"encoding/json"
	"testing"

	"attend/internal/field"
)

func TestRead_Query(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	for _, payload := range []string{
		`{"topic":"reef","depth":5}`,                      // e1
		`{"topic":"reef","depth":"5","agent":"in"}`,       // e2
		`{"topic":5,"size":{"x":1,"y":2}}`,                // e3
		`{"topic":null,"size":{"x":1,"z":{"a":1}}}`,       // e4
		`{"size":{},"list":[1]}`,                          // e5
		`{"size":[1],"topic":"bay","topic":"reef"}`,       // e6
		`{"d\u0065pth":5.0,"to\u0070ic":"r\u0065ef"}`,     // e7
		`{"open":true,"size":{"x":2,"x":1,"q":"\u00e9"}}`, // e8
	} {
		w.write("kelp", payload, intent20)
	}
	w.draft("mara", `{"topic":"reef"}`)
	w.do(field.OpRetract, `{"id":"e1","agent":"kelp","intent":"it was wrong"}`)
	for _, c := range []struct{ fact, ask, want string }{
		{"all", `{}`, "e1 e2 e3 e4 e5 e6 e7 e8"},
		{"no query", `{"query":{}}`, "e1 e2 e3 e4 e5 e6 e7 e8"},
		{"a text", `{"query":{"topic":"reef"}}`, "e1 e2 e6 e7"},
		{"of a key that stands twice the last value counts", `{"query":{"topic":"bay"}}`, ""},
		{"also in the query", `{"query":{"topic":"bay","topic":"reef"}}`, "e1 e2 e6 e7"},
		{"a number is not its digits", `{"query":{"depth":5}}`, "e1 e7"},
		{"nor are digits a number", `{"query":{"depth":"5"}}`, "e2"},
		{"all keys must hold", `{"query":{"topic":"reef","depth":5}}`, "e1 e7"},
		{"null is null", `{"query":{"topic":null}}`, "e4"},
		{"and does not match what is missing", `{"query":{"depth":null}}`, ""},
		{"a topic that is a number", `{"query":{"topic":5e0}}`, "e3"},
		{"true", `{"query":{"open":true}}`, "e8"},
		{"keys of the payload only", `{"query":{"agent":"in"}}`, "e2"},
		{"not the author", `{"query":{"agent":"kelp"}}`, ""},
		{"not the id", `{"query":{"id":"e1"}}`, ""},
		{"an object within", `{"query":{"size":{"x":1}}}`, "e3 e4 e8"},
		{"with each key", `{"query":{"size":{"x":1,"y":2}}}`, "e3"},
		{"an empty object matches every object", `{"query":{"size":{}}}`, "e3 e4 e5 e8"},
		{"one level deep only", `{"query":{"size":{"z":{"a":1}}}}`, ""},
		{"text within", `{"query":{"size":{"q":"é"}}}`, "e8"},
		{"an array matches nothing", `{"query":{"list":[1]}}`, ""},
		{"also within", `{"query":{"size":[1]}}`, ""},
		{"a topic that is an object", `{"query":{"topic":{}}}`, ""},
		{"a caller's drafts come last", `{"caller":"mara"}`, "e1 e2 e3 e4 e5 e6 e7 e8 e9"},
		{"the query holds for them too", `{"caller":"mara","query":{"topic":"reef"}}`, "e1 e2 e6 e7 e9"},
		{"and hides nothing", `{"caller":"kelp","query":{"topic":"reef"}}`, "e1 e2 e6 e7"},
		{"a limit", `{"limit":2}`, "e1 e2 more"},
		{"a limit of nothing", `{"limit":0}`, "more"},
		{"exactly all", `{"limit":8}`, "e1 e2 e3 e4 e5 e6 e7 e8"},
		{"what is left out is what matches", `{"limit":4,"query":{"topic":"reef"}}`, "e1 e2 e6 e7"},
		{"going on", `{"after":"e2","limit":3}`, "e3 e4 e5 more"},
		{"going on at the end", `{"after":"e8"}`, ""},
		{"going on with a draft", `{"after":"e8","caller":"mara"}`, "e9"},
		{"and after it", `{"after":"e9","caller":"mara"}`, ""},
	} {
		page := w.read("%s", c.ask)
		got := ""
		for _, e := range page.Entries {
			got += " " + e.ID
		}
		if page.More {
			got += " more"
		}
		equal(t, c.fact+": "+c.ask, got, " "[:min(1, len(c.want))]+c.want)
	}
	equal(t, "another's draft is no place", w.code(field.OpRead, `{"after":"e9","caller":"kelp"}`), field.InvalidQuery)
	equal(t, "status of what is retracted", string(w.read(`{"limit":1}`).Entries[0].Status), "retracted")
}

func TestRead_Limits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	for range field.DefaultRead + 1 {
		w.write("kelp", `{}`, intent20)
	}
	page := w.read(`{}`)
	if len(page.Entries) != field.DefaultRead || !page.More {
		t.Errorf("%d entries, more is %t", len(page.Entries), page.More)
	}
	page = w.read(`{"limit":1e9}`)
	if len(page.Entries) != field.DefaultRead+1 || page.More {
		t.Errorf("%d entries, more is %t", len(page.Entries), page.More)
	}
}

// The names on the wire.
func TestJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	show := func(op field.Op, params string) string {
		t.Helper()
		b, err := json.Marshal(w.do(op, "%s", params))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct {
		op           field.Op
		params, want string
	}{
		{field.OpAttune, `{"agent":"mara"}`, `{"entries":[],"epoch":0}`},
		{field.OpReckon, `{"agent":"mara"}`, `{"entries":[],"conflicts":[],"epoch":0}`},
		{field.OpRead, `{}`, `{"entries":[]}`},
		{
			field.OpRegister, `{"id":"kelp","role":"pilot"}`,
			`{"field_capabilities":["register","deregister","write","read","attune","reckon","draft","commit","discard","retract","supersede"],"field_protocol_version":"0.2","session_id":"kelp"}`,
		},
		{field.OpWrite, `{"entry":{"topic":"reef"},"intent":"0123456789"}`, `{"id":"e1","timestamp":1005,"epoch":0}`},
		{field.OpDraft, `{"entry":{"topic":"reef"},"intent":"0123456789","agent":"kelp"}`, `{"draft_id":"e2"}`},
		{field.OpCommit, `{"draft_id":"e2"}`, `{"id":"e2","timestamp":1007,"epoch":2}`},
		{field.OpSupersede, `{"superseding_id":"e1","entry":{"topic":"reef"},"intent":"0123456789","agent":"kelp"}`, `{"id":"e3","timestamp":1008,"epoch":3}`},
		{field.OpRetract, `{"id":"e2","intent":"0123456789","agent":"kelp"}`, `{}`},
		{field.OpDeregister, `{"id":"kelp"}`, `{}`},
		{
			field.OpAttune, `{"agent":"mara"}`,
			`{"entries":[{"id":"e3","timestamp":1008,"epoch":3,"agent":"kelp","status":"committed","entry":{"topic":"reef"},"intent":"0123456789","supersedes":"e1","relevance_score":0.16,"relevance_reason":{"components":{"topic":0,"role":0,"recency":0.15,"intent":0.010000000000000002},"summary":"written recently"}}],"epoch":5}`,
		},
		{
			field.OpRead, `{"limit":2}`,
			`{"entries":[{"id":"e1","timestamp":1005,"epoch":0,"status":"superseded","entry":{"topic":"reef"},"intent":"0123456789","superseded_by":"e3"},{"id":"e2","timestamp":1007,"epoch":2,"agent":"kelp","status":"retracted","entry":{"topic":"reef"},"intent":"0123456789","retract_intent":"0123456789","retracted_at":1009}],"more":true}`,
		},
	} {
		equal(t, string(c.op), show(c.op, c.params), c.want)
	}
}
