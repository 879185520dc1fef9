package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// fieldRefusals are bodies that each operation refuses, and how. DRAFT is the
// id of a draft, ENTRY that of a committed entry of kelp's.
var fieldRefusals = map[string][]struct {
	body   string
	status int
	code   string
}{
	"register":   {{`{"id":" ","role":"x"}`, 400, "AGENT_REQUIRED"}, {`{"id":"a","role":"x","capabilities":"y"}`, 400, "INVALID_ENTRY"}},
	"deregister": {{`{}`, 400, "AGENT_REQUIRED"}, {`{"id":"a","x":1}`, 400, "INVALID_ENTRY"}},
	"write": {
		{`{"entry":[],"intent":"a list is no entry"}`, 400, "INVALID_ENTRY"},
		{`{"entry":{}}`, 400, "INTENT_REQUIRED"},
		{`{"entry":{},"intent":"short"}`, 400, "INTENT_TOO_SHORT"},
		{`{"entry":{},"intent":"the agent is a number","agent":7}`, 400, "AGENT_REQUIRED"},
	},
	"draft": {
		{`{"intent":"there is no entry"}`, 400, "INVALID_ENTRY"},
		{`{"entry":{},"intent":"  "}`, 400, "INTENT_REQUIRED"},
		{`{"entry":{},"intent":"short"}`, 400, "INTENT_TOO_SHORT"},
		{`{"entry":{},"intent":"the agent is a number","agent":7}`, 400, "AGENT_REQUIRED"},
	},
	"commit": {{`{"draft_id":"none"}`, 404, "DRAFT_NOT_FOUND"}, {`{"draft_id":"DRAFT","x":1}`, 400, "INVALID_ENTRY"}},
	"discard": {
		{`{"draft_id":"none"}`, 404, "DRAFT_NOT_FOUND"},
		{`{"draft_id":"DRAFT"}`, 400, "INTENT_REQUIRED"},
		{`{"draft_id":"DRAFT","intent":"short"}`, 400, "INTENT_TOO_SHORT"},
		{`{"draft_id":"DRAFT","intent":"the agent is a number","agent":7}`, 400, "AGENT_REQUIRED"},
		{`{"draft_id":"DRAFT","intent":"a strange parameter","x":1}`, 400, "INVALID_ENTRY"},
	},
	"retract": {
		{`{"id":"none","agent":"kelp","intent":"it was never there"}`, 404, "ENTRY_NOT_FOUND"},
		{`{"id":"ENTRY","intent":"nobody says so"}`, 400, "AGENT_REQUIRED"},
		{`{"id":"ENTRY","agent":"kelp"}`, 400, "INTENT_TOO_SHORT"},
		{`{"id":"ENTRY","agent":"gull","intent":"it is not mine"}`, 403, "RETRACT_NOT_AUTHORIZED"},
		{`{"id":"ENTRY","agent":"kelp","intent":"a strange parameter","x":1}`, 400, "INVALID_ENTRY"},
	},
	"supersede": {
		{`{"superseding_id":"none","entry":{},"agent":"gull","intent":"it was never there"}`, 404, "ENTRY_NOT_FOUND"},
		{`{"superseding_id":"ENTRY","agent":"gull"}`, 400, "INVALID_ENTRY"},
		{`{"superseding_id":"ENTRY","entry":{}}`, 400, "AGENT_REQUIRED"},
		{`{"superseding_id":"ENTRY","entry":{},"agent":"gull"}`, 400, "INTENT_TOO_SHORT"},
	},
	"attune": {{`{}`, 400, "AGENT_REQUIRED"}, {`{"agent":"a","max_units":-1}`, 400, "INVALID_QUERY"}},
	"reckon": {{`{"agent":7}`, 400, "AGENT_REQUIRED"}, {`{"agent":"a","topic":[]}`, 400, "INVALID_QUERY"}},
	"read":   {{`{"query":"price"}`, 400, "INVALID_QUERY"}},
}

// driveField takes entries through every status, and sends to each operation
// what it refuses.
func driveField(t *testing.T) *contract {
	d := run(t, nil)
	c := hold(d)
	ask := func(op, body string) (id string) {
		t.Helper()
		var got struct {
			ID    string
			Draft string `json:"draft_id"`
		}
		d.ask(http.MethodPost, "/v1/field/"+op, body).want(http.StatusOK, &got)
		return got.ID + got.Draft
	}
	ask("register", `{"id":"kelp","role":"lead market analyst","capabilities":["search"]}`)
	ask("register", `{"id":"writer","role":"market analyst","field":"other"}`)
	entry := ask("write", `{"agent":"kelp","entry":{"topic":"price","value":1,"size":{"depth":1}},"intent":"seen on their page"}`)
	ask("write", `{"entry":{"topic":"price","value":2,"size":{"depth":2}},"intent":"nobody says so"}`)
	draft := ask("draft", `{"agent":"kelp","entry":{"topic":7},"intent":"not for others yet"}`)
	for op, refusals := range fieldRefusals {
		path := "/v1/field/" + op
		for _, bad := range refusals {
			d.ask(http.MethodPost, path, strings.NewReplacer("DRAFT", draft, "ENTRY", entry).Replace(bad.body)).problem(bad.status, bad.code)
		}
		d.ask(http.MethodPost, path, `{"field":"a","field":"b"}`).problem(http.StatusBadRequest, "invalidBody")
		d.ask(http.MethodPost, path+"?x=1", `{}`).problem(http.StatusBadRequest, "invalidParameter")
		d.ask(http.MethodPost, path, `{"entry":"`+strings.Repeat("a", 1<<20)+`"}`).problem(http.StatusRequestEntityTooLarge, "bodyTooLarge")
		d.ask(http.MethodPost, path, "agent=a", header("Content-Type", "application/x-www-form-urlencoded")).problem(http.StatusUnsupportedMediaType, "unsupportedMediaType")
	}
	ask("attune", `{"agent":"kelp","topic":null,"role":"x","max_units":5,"only_topic":false}`)
	ask("reckon", `{"agent":"writer","topic":"price","deep":true}`)
	ask("read", `{"query":{"topic":7},"caller":"kelp"}`)
	ask("commit", `{"draft_id":"`+draft+`"}`)
	ask("discard", `{"draft_id":"`+ask("draft", `{"entry":{},"intent":"to be given up"}`)+`","intent":"it was a rumour"}`)
	next := ask("supersede", `{"superseding_id":"`+entry+`","agent":"gull","entry":{},"intent":"in the place of kelp's"}`)
	ask("retract", `{"id":"`+next+`","agent":"gull","intent":"it was wrong too"}`)
	ask("deregister", `{"id":"kelp"}`)
	ask("read", `{}`)
	ask("read", `{"limit":1}`)
	d.ask(http.MethodPost, "/v1/field/forget", `{}`).problem(http.StatusNotFound, "notFound")
	d.ask(http.MethodGet, "/v1/fields", "").want(http.StatusOK, nil)
	d.ask(http.MethodGet, "/v1/fields?x=1", "").problem(http.StatusBadRequest, "invalidParameter")
	return c
}
