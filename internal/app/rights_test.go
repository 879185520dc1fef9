package app_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"attend/internal/engine"
)

// Tokens of the callers in the table below; the setup has one of every right.
const everyRight = "token-of-every-right-there-is"

// callers are who the table asks for: each is the name of a token, but for
// nobody and someone, who have none that is known.
var callers = []string{"nobody", "someone", "writer", "reader", "keeper", "elsewhere", "stranger", "gull"}

// sayWho sends a request as a caller.
func sayWho(caller string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Del("Authorization")
		if caller != "nobody" {
			r.Header.Set("Authorization", "Bearer token-of-"+caller+"-long-enough")
		}
	}
}

// manyTokens starts a daemon with a token for each of the callers: three have
// one right each, the others every right, but in other scopes alone, in another
// Field, or for another agent. It has a decision and a dead letter in scopes that
// begin with "chat:", and kelp's entry in the Field "default".
func manyTokens(t *testing.T) (d *running, decision, letter string) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "attend.yaml")
	config := "hooks: [{name: ci, type: cloudevents, bearerEnv: CI_TOKEN}]\ntokens:\n"
	for name, more := range map[string]string{
		"writer": "[ingest]", "reader": "[read]", "keeper": "[admin]",
		"elsewhere": `[ingest, read, admin], scopes: ["other:*"]`,
		"stranger":  `[ingest, read, admin], fields: [theirs]`,
		"gull":      `[ingest, read, admin], agents: [gull]`,
	} {
		config += "  - {name: " + name + ", token: token-of-" + name + "-long-enough, rights: " + more + "}\n"
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(dir, "attend.db")
	plant(t, store, func(s *seed) { letter = s.dead("chat:dead", engine.StageJudge, 0) })
	d = run(t, []string{"ATTEND_TOKEN=" + everyRight, "CI_TOKEN=token-of-the-hook-long-enough"}, "--config", file, "--store", "sqlite:"+store)
	d.ingest(`{"scope":"chat:1","id":"m1","name":"message.created","text":"help"}`)
	decisions, _ := d.next("")
	d.ask(http.MethodPost, "/v1/field/write", `{"agent":"kelp","entry":{"topic":"x"},"intent":"to be seen by some"}`).want(http.StatusOK, nil)
	return d, decisions[0].ID, letter
}

// open routes need no token, anyToken any of them.
const open, anyToken = "open", ""

// row is what is asked for, the right that it needs, and how it is answered.
type row struct {
	right     string
	method    string // in place of the route's
	path      string // in place of the route's pattern
	body      string
	ok        int // to whoever may
	elsewhere int // to who has other scopes; 0: as ok
	stranger  int // to who has another Field
	gull      int // to who speaks for another agent
}

// want is the status for a caller.
func (r *row) want(caller string) int {
	status := map[string]int{"elsewhere": r.elsewhere, "stranger": r.stranger, "gull": r.gull}[caller]
	of := map[string]string{"writer": "ingest", "reader": "read", "keeper": "admin"}[caller]
	switch {
	case r.right == open:
		return r.ok
	case caller == "nobody" || caller == "someone":
		return http.StatusUnauthorized
	case of != "" && r.right != anyToken && r.right != of:
		return http.StatusForbidden
	case status != 0:
		return status
	}
	return r.ok
}

// rightsTable has a row for every route.
func rightsTable(decision, letter string) map[string]row {
	const why = `"intent":"to see who may do so"`
	op := func(right, body string, ok, gull int) row {
		return row{right: right, body: body, ok: ok, stranger: 403, gull: gull}
	}
	return map[string]row{
		"GET /healthz":      {right: open, ok: 200},
		"GET /readyz":       {right: open, ok: 200},
		"GET /metrics":      {right: "read", ok: 200},
		"GET /openapi.json": {right: anyToken, ok: 200},
		// A hook takes its own secret alone, whatever the caller may do elsewhere.
		"POST /v1/hooks/{name}":    {right: open, path: "/v1/hooks/ci", body: "{}", ok: 401},
		"OPTIONS /v1/hooks/{name}": {right: open, path: "/v1/hooks/ci", ok: 200},

		"POST /v1/ingest": {right: "ingest", body: `{"scope":"chat:2","name":"log.line"}`, ok: 200, elsewhere: 422},
		"GET /mcp":        {right: anyToken, ok: 400},
		"DELETE /mcp":     {right: anyToken, ok: 400},
		"POST /mcp":       {right: anyToken, body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, ok: 202},

		"GET /v1/decisions":                 {right: "read", ok: 200},
		"GET /v1/decisions/stream":          {right: "read", method: http.MethodHead, ok: 200},
		"GET /v1/decisions/{id}":            {right: "read", path: "/v1/decisions/" + decision, ok: 200, elsewhere: 404},
		"POST /v1/flush":                    {right: "ingest", body: `{"scope":"chat:1"}`, ok: 202, elsewhere: 403},
		"POST /v1/scopes/{scope}/flush":     {right: "ingest", path: "/v1/scopes/chat:1/flush", ok: 202, elsewhere: 403},
		"GET /v1/scopes":                    {right: "read", ok: 200},
		"GET /v1/scopes/{scope}":            {right: "read", path: "/v1/scopes/chat:1", ok: 200, elsewhere: 403},
		"GET /v1/deadletters":               {right: "read", ok: 200},
		"GET /v1/deadletters/{id}":          {right: "read", path: "/v1/deadletters/" + letter, ok: 200, elsewhere: 404},
		"POST /v1/deadletters/requeue":      {right: "admin", body: `{"scope":"nowhere"}`, ok: 202},
		"POST /v1/deadletters/{id}/requeue": {right: "admin", path: "/v1/deadletters/" + letter + "/requeue", ok: 202, elsewhere: 404},
		"GET /v1/consumers":                 {right: "read", ok: 200},
		"GET /v1/consumers/{name}":          {right: "read", path: "/v1/consumers/none", ok: 404},
		"DELETE /v1/consumers/{name}":       {right: "admin", path: "/v1/consumers/none", ok: 404},
		"GET /v1/sources":                   {right: "read", ok: 200},
		"POST /v1/reload":                   {right: "admin", ok: 200},
		"GET /v1/silences":                  {right: "read", ok: 200},
		"POST /v1/silences":                 {right: "admin", body: `{"scope":"chat:9","forMs":60000,"why":"to see who may"}`, ok: 201, elsewhere: 403},
		"GET /v1/silences/{id}":             {right: "read", path: "/v1/silences/none", ok: 404},
		"DELETE /v1/silences/{id}":          {right: "admin", path: "/v1/silences/none", ok: 404},
		"GET /v1/fields":                    {right: "read", ok: 200},
		"POST /v1/field/{op}":               {right: anyToken, path: "/v1/field/forget", ok: 404},
		"POST /v1/field/register":           op("ingest", `{"id":"kelp","role":"cook"}`, 200, 403),
		"POST /v1/field/deregister":         op("ingest", `{"id":"kelp"}`, 200, 403),
		"POST /v1/field/write":              op("ingest", `{"agent":"kelp","entry":{},`+why+`}`, 200, 403),
		"POST /v1/field/draft":              op("ingest", `{"agent":"kelp","entry":{},`+why+`}`, 200, 403),
		"POST /v1/field/commit":             op("ingest", `{"draft_id":"none"}`, 404, 404), // whose is a draft that there is not?
		"POST /v1/field/discard":            op("ingest", `{"draft_id":"none","agent":"kelp",`+why+`}`, 404, 403),
		"POST /v1/field/retract":            op("ingest", `{"id":"none","agent":"kelp",`+why+`}`, 404, 403),
		"POST /v1/field/supersede":          op("ingest", `{"superseding_id":"none","agent":"kelp","entry":{},`+why+`}`, 404, 403),
		"POST /v1/field/attune":             op("read", `{"agent":"kelp"}`, 200, 403),
		"POST /v1/field/reckon":             op("read", `{"agent":"kelp"}`, 200, 403),
		"POST /v1/field/read":               op("read", `{}`, 200, 200),
	}
}

// Every route answers each caller as the table says, and a route without a row
// is a failure. What is hidden from a caller is in none of its answers.
func TestRights_OfEveryRoute(t *testing.T) {
	d, decision, letter := manyTokens(t)
	table := rightsTable(decision, letter)
	for _, route := range served(t, d) {
		r, known := table[route]
		if !known {
			t.Errorf("%s has no row: say in rightsTable who may", route)
			continue
		}
		delete(table, route)
		method, path, _ := strings.Cut(route, " ")
		if r.method != "" {
			method = r.method
		}
		if r.path != "" {
			path = r.path
		}
		for _, caller := range callers {
			got := d.ask(method, path, r.body, sayWho(caller))
			if want := r.want(caller); got.status != want {
				t.Errorf("%s as %s: status %d, want %d: %s", route, caller, got.status, want, got.body)
			}
			if challenge := got.header.Get("WWW-Authenticate"); (got.status == http.StatusUnauthorized) != strings.HasPrefix(challenge, "Bearer ") {
				t.Errorf("%s as %s: status %d, WWW-Authenticate %q", route, caller, got.status, challenge)
			}
			if caller == "elsewhere" && got.status == http.StatusOK && strings.Contains(got.body, "chat:") {
				t.Errorf("%s shows another's scope: %s", route, got.body)
			}
			if caller == "stranger" && route == "GET /v1/fields" && strings.Contains(got.body, "default") {
				t.Errorf("%s shows another's Field: %s", route, got.body)
			}
		}
	}
	for route := range table {
		t.Errorf("%s has a row, and is no route", route)
	}
	if log := d.log.String(); strings.Contains(log, everyRight) || strings.Contains(log, "long-enough") {
		t.Error("a token is in the log")
	}
}

// served lists the daemon's routes, with their methods.
func served(t *testing.T, d *running) (all []string) {
	t.Helper()
	err := chi.Walk(d.app.Routes(), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		if route != "/v1/ingest" || method == http.MethodPost { // it says itself that other methods are none
			all = append(all, method+" "+route)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A web page of another origin reaches no route, whatever it may send without
// asking first, and even with a token; and no answer lets a page read it.
func TestRights_NoRouteForAWebPage(t *testing.T) {
	origin := header("Origin", "https://evil.example")
	simple := func(media string) []func(*http.Request) {
		return []func(*http.Request){origin, header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors"), header("Content-Type", media)}
	}
	ways := map[string][]func(*http.Request){
		"a fetch":                {origin},
		"text":                   simple("text/plain"),
		"a form":                 simple("application/x-www-form-urlencoded"),
		"a form with files":      simple("multipart/form-data; boundary=x"),
		"JSON sent as a blob":    simple(""),
		"from a sandbox":         {header("Origin", "null")},
		"an image or a link":     {header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Mode", "no-cors")},
		"a name made to be ours": {host("rebound.example")},
		"the same, same-origin":  {host("rebound.example"), header("Origin", "http://rebound.example"), header("Sec-Fetch-Site", "same-origin")},
		"asking first":           {origin, header("Access-Control-Request-Method", "POST"), header("Access-Control-Request-Headers", "authorization,content-type")},
	}
	for name, env := range map[string][]string{"without tokens": nil, "with a token": {"ATTEND_TOKEN=" + everyRight}} {
		t.Run(name, func(t *testing.T) {
			d := run(t, env)
			for _, route := range served(t, d) {
				method, path, _ := strings.Cut(route, " ")
				for way, changes := range ways {
					if way == "asking first" {
						method = http.MethodOptions
					}
					r := d.ask(method, fill(path), `{"scope":"a","name":"message.created"}`, changes...)
					if r.status != http.StatusForbidden {
						t.Errorf("%s, %s: status %d: %s", route, way, r.status, r.body)
					}
					if got := r.header.Get("Access-Control-Allow-Origin"); got != "" {
						t.Errorf("%s, %s: a page may read it: %q", route, way, got)
					}
					method, _, _ = strings.Cut(route, " ")
				}
			}
			var page struct{ Decisions, Scopes []any }
			d.ask(http.MethodGet, "/v1/scopes", "").want(http.StatusOK, &page)
			if len(page.Scopes) != 0 {
				t.Errorf("something got in: %v", page.Scopes)
			}
		})
	}
}
