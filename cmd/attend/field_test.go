package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"attend/internal/field"
)

// Every operation of the protocol is a command.
func TestField_EveryOperation(t *testing.T) {
	have := make(map[string]fieldOp)
	for _, op := range fieldOps() {
		have[op.name] = op
	}
	for _, op := range field.Ops() {
		switch c, ok := have[string(op)]; {
		case !ok:
			t.Errorf("there is no command for %s", op)
		case c.writes != op.Changes():
			t.Errorf("%s: writes is %v, and the rules say %v", op, c.writes, op.Changes())
		}
	}
	if len(have) != len(field.Ops()) {
		t.Errorf("%d commands, %d operations", len(have), len(field.Ops()))
	}
}

// What is sent is what was typed: the parameters that were given and no other,
// under the protocol's names, and an entry byte for byte but for blanks.
func TestField_Sends(t *testing.T) {
	var path, body string
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		path, body = r.Method+" "+r.URL.Path, strings.TrimSpace(string(b))
		_, _ = io.WriteString(w, "{}")
	}))
	defer daemon.Close()
	for _, c := range []struct {
		args       []string
		path, body string
	}{
		{[]string{"register", "kelp", "--role", "a", "--capability", "x,y", "--capability", "z"}, "POST /v1/field/register", `{"capabilities":["x,y","z"],"id":"kelp","role":"a"}`},
		{[]string{"write", `{ "b" : 1e2, "a": "<\u0041" }`, "--intent="}, "POST /v1/field/write", `{"entry":{"b":1e2,"a":"<\u0041"},"intent":""}`},
		{[]string{"supersede", "X", "null", "--field", "shop"}, "POST /v1/field/supersede", `{"entry":null,"field":"shop","superseding_id":"X"}`},
		{[]string{"attune", "--agent", "a", "--max-units", "0", "--only-topic"}, "POST /v1/field/attune", `{"agent":"a","max_units":0,"only_topic":true}`},
		{[]string{"reckon", "--agent", "a", "--topic", "7", "--role", "", "--deep=false"}, "POST /v1/field/reckon", `{"agent":"a","deep":false,"role":"","topic":"7"}`},
		{[]string{"read"}, "POST /v1/field/read", `{}`},
		{[]string{"read", `{"a":null}`, "--caller", "b"}, "POST /v1/field/read", `{"caller":"b","query":{"a":null}}`},
		{[]string{"commit", "X"}, "POST /v1/field/commit", `{"draft_id":"X"}`},
		{[]string{"names"}, "GET /v1/fields", ``},
	} {
		code, _, stderr := runMain(t, []string{"ATTEND_URL=" + daemon.URL}, append([]string{"field"}, append(c.args, "--json")...)...)
		if code != exitOK || path != c.path || body != c.body {
			t.Errorf("%q: %d %s\n%s %s\nwant %s %s", c.args, code, stderr, path, body, c.path, c.body)
		}
	}
}

// A write whose answer did not come may have been done. One that did not leave
// was not, and neither was one that was refused.
func TestField_SaysWhenItIsNotKnown(t *testing.T) {
	broken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	go func() {
		for {
			conn, err := broken.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1024))
			_ = conn.Close()
		}
	}()
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	for _, c := range []struct {
		url     string
		args    string
		unknown bool
	}{
		{"http://" + broken.Addr().String(), "field commit X", true},
		{"http://" + broken.Addr().String(), "field attune --agent a", false},
		{"http://127.0.0.1:1", "field commit X", false},
		{refusing.URL, "field commit X", false},
	} {
		code, _, stderr := runMain(t, []string{"ATTEND_URL=" + c.url}, strings.Fields(c.args)...)
		if code != exitFailed || strings.Contains(stderr, "may have been done") != c.unknown {
			t.Errorf("%s at %s: %d %s", c.args, c.url, code, stderr)
		}
	}
}
