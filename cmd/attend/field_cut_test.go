package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Nobody takes a part of an answer for the whole.
func TestField_SaysWhatWasCut(t *testing.T) {
	const entry = `{"id":"X","epoch":1,"status":"committed","entry":{"a":1},"intent":"i"}`
	answer := ""
	daemon := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
	defer daemon.Close()
	for _, c := range []struct{ op, more, last string }{
		{"attune", ``, `    i`},
		{"attune", `,"cut":3`, "and 3 more entries, for which the answer had no room: ask for fewer"},
		{"reckon", `,"cut":3`, "and 3 more entries, for which the answer had no room: ask for fewer"},
		{"reckon", `,"cut":3,"conflicts":[{"a":` + entry + `,"b":` + entry + `,"keys":["a"]}]`, "and 3 more entries and conflicts, for which the answer had no room: ask for fewer"},
		{"read", `,"more":true`, "and more: --after X"},
	} {
		answer = fmt.Sprintf(`{"entries":[%s]%s}`, entry, c.more)
		args := []string{"field", c.op}
		if c.op != "read" {
			args = append(args, "--agent", "mara")
		}
		code, stdout, stderr := runMain(t, []string{"ATTEND_URL=" + daemon.URL}, args...)
		lines := strings.Split(strings.TrimRight(stdout, "\n"), "\n")
		if code != exitOK || lines[len(lines)-1] != c.last {
			t.Errorf("%s%s: %d %s\n%s\nwant %q last", c.op, c.more, code, stderr, stdout, c.last)
		}
	}
}
