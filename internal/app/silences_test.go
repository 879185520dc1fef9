package app_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attend/internal/silences"
)

// silenced is what the tests look at of a silence.
type silenced struct {
	ID, Scope, Who, Why string
	Since, Until        int64
	Active              bool
	EndedBy             *string
	Hid                 struct{ Windows, Events int }
}

// driveSilences brings about every answer of the routes of silences.
func driveSilences(t *testing.T) *contract {
	d := run(t, []string{"ATTEND_TOKEN=" + everyRight}, "--config", writeConfig(t, `tokens:
- {name: reader, token: token-of-reader-long-enough, rights: [read]}
- {name: elsewhere, token: token-of-elsewhere-long-enough, rights: [ingest, read, admin], scopes: ["other:*"]}
`))
	c := hold(d)
	var made silenced
	d.ask(http.MethodPost, "/v1/silences", `{"scope":"chat:*","event":"build.*","forMs":3600000,"why":"the deploy"}`).want(http.StatusCreated, &made)
	d.ask(http.MethodGet, "/v1/scopes/chat:1", "").want(http.StatusOK, nil)
	one := "/v1/silences/" + made.ID
	for _, r := range []struct {
		method, path, body, caller string
		status                     int
		code                       string
	}{
		{http.MethodGet, "/v1/silences?all&limit=10", "", "reader", 200, ""},
		{http.MethodGet, "/v1/silences?all=yes", "", "reader", 400, "invalidParameter"},
		{http.MethodGet, "/v1/silences", "", "nobody", 401, "unauthorized"},
		{http.MethodGet, one, "", "reader", 200, ""},
		{http.MethodGet, one + "?x=1", "", "reader", 400, "invalidParameter"},
		{http.MethodGet, one, "", "elsewhere", 404, "notFound"},
		{http.MethodGet, one, "", "nobody", 401, "unauthorized"},
		{http.MethodDelete, one, "", "reader", 403, "forbidden"},
		{http.MethodDelete, one, "", "elsewhere", 404, "notFound"},
		{http.MethodDelete, one, "", "nobody", 401, "unauthorized"},
		{http.MethodDelete, one + "?x=1", "", "", 400, "invalidParameter"},
		{http.MethodDelete, one, "", "", 200, ""},
		{http.MethodPost, "/v1/silences", `{}`, "nobody", 401, "unauthorized"},
		{http.MethodPost, "/v1/silences", `{}`, "reader", 403, "forbidden"},
		{http.MethodPost, "/v1/silences?x=1", `{}`, "", 400, "invalidParameter"},
		{http.MethodPost, "/v1/silences", `{"scope":"chat:*"}`, "", 400, "invalidBody"},
		{http.MethodPost, "/v1/silences", `{"scope":"*","forMs":1,"why":"x"}`, "elsewhere", 403, "forbidden"},
		{http.MethodPost, "/v1/silences", `{"scope":"` + strings.Repeat("x", 70_000) + `"}`, "", 413, "bodyTooLarge"},
	} {
		got := d.ask(r.method, r.path, r.body, as(r.caller))
		if r.code == "" {
			got.want(r.status, nil)
		} else {
			got.problem(r.status, r.code)
		}
	}
	d.ask(http.MethodPost, "/v1/silences", `x`, header("Content-Type", "text/plain")).problem(415, "unsupportedMediaType")
	for i := range silences.MaxLimited {
		d.ask(http.MethodPost, "/v1/silences", fmt.Sprintf(`{"scope":"other:%d","forMs":3600000,"why":"many"}`, i), as("elsewhere")).want(http.StatusCreated, nil)
	}
	d.ask(http.MethodPost, "/v1/silences", `{"scope":"other:1","forMs":3600000,"why":"too many of one"}`, as("elsewhere")).problem(409, "tooManySilences")
	for i := range silences.MaxActive - silences.MaxLimited {
		d.ask(http.MethodPost, "/v1/silences", fmt.Sprintf(`{"scope":"n:%d","forMs":3600000,"why":"many"}`, i)).want(http.StatusCreated, nil)
	}
	d.ask(http.MethodPost, "/v1/silences", `{"scope":"one","forMs":1,"why":"too many"}`).problem(409, "tooManySilences")
	d.ask(http.MethodGet, "/v1/silences", "", as("writer")).problem(401, "unauthorized")
	return c
}

// as sends a request as a caller of the tests; "" is who has every right.
func as(caller string) func(*http.Request) {
	if caller == "" {
		return func(*http.Request) {}
	}
	return sayWho(caller)
}

// An administrator's agent silences scopes for a day at most, and ends it; each
// use stands in the log.
func TestSilences_ByATool(t *testing.T) {
	file := writeConfig(t, "tokens: [{name: agent, token: token-of-agent-long-enough, rights: [ingest, read, admin], scopes: [\"repo:*\"]}]\n")
	d := run(t, nil, "--config", file)
	d.token = "token-of-agent-long-enough"
	use := func(arguments string) (made silenced, message string) {
		t.Helper()
		_, message = d.outcome("agent", "tools/call", `"name":"attend_silence","arguments":`+arguments)
		var answer struct {
			Result struct {
				StructuredContent silenced
				IsError           bool
			}
		}
		if err := json.Unmarshal([]byte(message), &answer); err != nil {
			t.Fatalf("%v in %s", err, message)
		}
		return answer.Result.StructuredContent, message
	}
	for arguments, want := range map[string]string{
		`{"scope":"repo:a","why":"x"}`:                       "from 1 to 86400000, a day",
		`{"scope":"repo:a","forMs":86400001,"why":"x"}`:      "86400000",
		`{"scope":"repo:a","forMs":1000}`:                    "why",
		`{"forMs":1000,"why":"x"}`:                           "scope",
		`{"scope":"*","forMs":1000,"why":"x"}`:               `"reason":"scope"`,
		`{"end":"none"}`:                                     "no silence",
		`{"end":"none","scope":"repo:a"}`:                    "stands alone",
		`{"scope":"repo:a","until":9999999999999,"why":"x"}`: "until",
	} {
		if _, got := use(arguments); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", arguments, got, want)
		}
	}
	made, _ := use(`{"scope":"repo:*","forMs":86400000,"includeFlush":true,"why":"the migration"}`)
	if made.Who != "agent" || !made.Active || made.Until < made.Since+86399000 {
		t.Errorf("made: %+v", made)
	}
	until(t, "the silence is applied", func() bool {
		return strings.Contains(d.ask(http.MethodGet, "/v1/scopes/repo:a", "").body, made.ID)
	})
	time.Sleep(2 * time.Millisecond) //arch:sleep what is due at the silence's own instant is not covered
	d.ingest(`{"scope":"repo:a","id":"1","name":"message.created"}`)
	if got := d.comesTo("repo:a"); got.Route != "skip" {
		t.Errorf("it is decided as %+v", got)
	}
	ended, text := use(fmt.Sprintf(`{"end":%q}`, made.ID))
	if ended.Active || ended.EndedBy == nil || *ended.EndedBy != "agent" || ended.Hid.Windows != 1 || !strings.Contains(text, "It hid 1 window with 1 event.") {
		t.Errorf("ended: %+v: %s", ended, text)
	}
}

// writeConfig writes an attend.yaml, and returns its path.
func writeConfig(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "attend.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
