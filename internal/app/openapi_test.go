package app_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-chi/chi/v5"
	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/feed"
)

func TestDocument_IsServed(t *testing.T) {
	d := run(t, nil)
	want, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	r := d.ask(http.MethodGet, "/openapi.json", "").want(http.StatusOK, nil)
	if r.body != string(want) || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("Content-Type %q, %d bytes", r.header.Get("Content-Type"), len(r.body))
	}
	if doc := readDocument(t, false); !doc.IsOpenAPI31OrLater() {
		t.Errorf("it is OpenAPI %s", doc.OpenAPI)
	}
}

// operations are those of the document, as "GET /v1/scopes/{scope}".
func operations(doc *openapi3.T) map[string]*openapi3.Operation {
	all := make(map[string]*openapi3.Operation)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			all[method+" "+path] = op
		}
	}
	return all
}

func TestDocument_HasEveryRouteAndNoOther(t *testing.T) {
	d := run(t, nil)
	var served []string
	err := chi.Walk(d.app.Routes(), func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served = append(served, method+" "+route)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	documented := slices.Sorted(maps.Keys(operations(readDocument(t, false))))
	// Ingest says itself that other methods are none.
	served = slices.DeleteFunc(served, func(op string) bool {
		method, path, _ := strings.Cut(op, " ")
		if path != "/v1/ingest" || method == http.MethodPost {
			return false
		}
		return method == http.MethodConnect || // no client sends it to a server
			d.ask(method, path, "").status == http.StatusMethodNotAllowed
	})
	slices.Sort(served)
	if diff := cmp.Diff(documented, served); diff != "" {
		t.Errorf("routes (-document +daemon):\n%s", diff)
	}
}

// What a document says of an operation and nothing here has brought about, with
// where it is.
var notDriven = map[string]string{
	"POST /v1/ingest 400 answerUnread":            "a client that sends and does not read: internal/ingest",
	"POST /v1/ingest 408 idle":                    "takes a minute: internal/ingest",
	"POST /v1/ingest 429 linesRejected":           "needs a judge that takes its time: internal/ingest",
	"POST /v1/ingest 429 saturated":               "needs 256 bodies at once: internal/ingest",
	"POST /v1/ingest 503 storeUnavailable":        "a store that fails: internal/ingest",
	"POST /v1/ingest 503 stopping":                "a body that comes while the daemon stops: internal/ingest",
	"POST /v1/hooks/{name} 400 bodyCut":           "a connection that is cut: internal/ingest/hooks",
	"POST /v1/hooks/{name} 408 idle":              "takes half a minute: internal/ingest/hooks",
	"POST /v1/hooks/{name} 429 saturated":         "needs 64 bodies at once: internal/ingest/hooks",
	"POST /v1/hooks/{name} 429 windowFull":        "needs a judge that takes its time: internal/ingest/hooks",
	"POST /v1/hooks/{name} 503 saturated":         "needs 64 bodies at once: internal/ingest/hooks",
	"POST /v1/hooks/{name} 503 windowFull":        "needs a judge that takes its time: internal/ingest/hooks",
	"POST /v1/hooks/{name} 503 storeUnavailable":  "a store that fails: internal/ingest/hooks",
	"GET /v1/decisions 429 tooManyWaits":          "a thousand requests at once: internal/api",
	"GET /v1/decisions/stream 429 tooManyStreams": "a thousand streams at once: internal/api",
	"POST /v1/reload 409 noReload":                "the instant at which it stops: internal/api",
	"GET /readyz 503 notReady":                    "the instant at which it stops: internal/app",
	"POST /mcp 202":                               "internal/mcpserve",
	"GET /mcp 200":                                "internal/mcpserve",
	"DELETE /mcp 204":                             "internal/mcpserve",
}

// The document is true: whatever the daemon answers, to good requests and bad
// ones, it allows, and whatever it promises comes about.
func TestDocument_IsWhatTheDaemonDoes(t *testing.T) {
	seen := make(map[string]bool)
	for name, drive := range map[string]func(*testing.T) *contract{
		"good and bad requests": driveRequests,
		"dead letters":          driveDeadLetters,
		"Fields":                driveField,
		"access":                driveAccess,
		"sources":               driveSources,
		"hooks":                 driveHooks,
		"silences":              driveSilences,
		"reloads":               driveReloads,
	} {
		t.Run(name, func(t *testing.T) { maps.Copy(seen, drive(t).seen) })
	}
	for _, want := range promises(readDocument(t, false)) {
		_, excused := notDriven[want]
		generic := slices.ContainsFunc([]string{" 500 internal", " 503 unavailable", " 503 unknownOutcome", " 429 tooManyOperations"},
			func(answer string) bool { return strings.HasSuffix(want, answer) })
		switch {
		case generic:
			// The same code answers all of them: internal/api.
		case seen[want] && excused:
			t.Errorf("%s was seen: it needs no excuse", want)
		case !seen[want] && !excused:
			t.Errorf("the document promises %s, and no request here brings it about", want)
		}
	}
}

// promises lists the answers of every operation, with the codes of problems.
func promises(doc *openapi3.T) []string {
	var all []string
	for name, op := range operations(doc) {
		for status, answer := range op.Responses.Map() {
			if status == "default" {
				continue
			}
			content := answer.Value.Content["application/problem+json"]
			if content == nil {
				all = append(all, name+" "+status)
				continue
			}
			for _, code := range codesOf(content.Schema) {
				all = append(all, fmt.Sprintf("%s %s %v", name, status, code))
			}
		}
	}
	slices.Sort(all)
	return all
}

// codesOf returns the codes that a problem's schema allows: they stand beside
// the reference to Problem.
func codesOf(schema *openapi3.SchemaRef) []any {
	for _, part := range schema.Value.AllOf {
		if code := part.Value.Properties["code"]; code != nil && len(code.Value.Enum) > 0 {
			return code.Value.Enum
		}
	}
	return nil
}

func driveRequests(t *testing.T) *contract {
	d := run(t, nil, "--kinds", `{"message.*":"flush","build.*":"closing","page.*":"passive","log.*":"consequence"}`)
	c := hold(d)
	for _, line := range []string{
		`{"scope":"chat:1","id":"1","name":"message.created","text":"help","data":{"a": [1, null]},"at":1790000000000}`,
		`{"scope":"chat:1","id":"1","name":"message.created"}`,
		`{"scope":"repo:a/b","name":"build.failed","at":"2026-11-30T12:00:00Z","unknown":1}`,
		`{"scope":"repo:a/b","name":"page.viewed","data":null}`,
	} {
		c.fits("Event", []byte(line))
		d.ask(http.MethodPost, "/v1/ingest", line+"\n").want(http.StatusOK, nil)
	}
	driveIngest(d, c)
	_, cursor := d.next("")
	for _, path := range []string{
		"/v1/decisions?scope=chat:*&scope=repo:*&route=interrupt&route=queue&kinds=decision&kinds=deadLetter&after=start&limit=1&waitMs=1",
		"/v1/decisions?after=now", "/v1/decisions?after=" + cursor, "/v1/decisions?after=" + anotherLog,
		"/v1/deadletters", "/v1/deadletters?after=" + anotherLog,
		"/v1/scopes", "/v1/scopes?limit=1", "/v1/scopes/repo:a%2Fb", "/v1/scopes/never%20heard%20of",
		"/v1/consumers", "/v1/sources", "/healthz", "/readyz", "/metrics", "/openapi.json",
	} {
		d.ask(http.MethodGet, path, "").want(http.StatusOK, nil)
	}
	decisions, _ := d.next("")
	d.ask(http.MethodGet, "/v1/decisions/"+decisions[0].ID, "").want(http.StatusOK, nil)
	d.ask(http.MethodPost, "/v1/flush", `{"scope":"repo:a/b"}`).want(http.StatusAccepted, nil)
	d.ask(http.MethodPost, "/v1/scopes/repo:a%2Fb/flush", "").want(http.StatusAccepted, nil)
	driveStream(d, c)
	driveMistakes(d)
	driveConsumer(d)
	return c
}

// anotherLog is a cursor of a log that is not this one.
var anotherLog = feed.Cursor{Epoch: "other", Position: 1}.Encode()

// driveIngest sends the bodies that are answered in other ways than 200.
func driveIngest(d *running, c *contract) {
	d.t.Helper()
	lines := strings.Join([]string{
		`{"scope":"a","name":"x"}`, `{"name":"x"}`, `{"scope":"a"}`, `[]`, `{"scope":"a","name":"x"} {}`, `{"scope":"a","name":"x","at":"noon"}`,
		`{"scope":"a","name":1}`, `{"scope":"a","Name":"x"}`, `{"scope":"a","name":"x","id":""}`, `{"scope":"a\u0001","name":"x"}`, `{"scope":"a",`, `oh`,
	}, "\n")
	d.ask(http.MethodPost, "/v1/ingest", lines).problem(http.StatusUnprocessableEntity, "linesRejected")
	d.ask(http.MethodPost, "/v1/ingest?scope=a", `[{"name":"x"},{"name":"y","scope":"b"}]`, header("Content-Type", "application/json")).want(http.StatusOK, nil)
	d.ask(http.MethodPost, "/v1/ingest?scope=%00", "{}").problem(http.StatusBadRequest, "invalidScope")
	d.ask(http.MethodPost, "/v1/ingest", "{}", header("Content-Type", "text/plain")).problem(http.StatusUnsupportedMediaType, "unsupportedMediaType")
	d.ask(http.MethodPost, "/v1/ingest", "no gzip", header("Content-Encoding", "gzip")).problem(http.StatusBadRequest, "badEncoding")
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(bytes.Repeat([]byte("\n"), 16<<20))
	_ = z.Close()
	d.ask(http.MethodPost, "/v1/ingest", bomb.String(), header("Content-Encoding", "gzip")).problem(http.StatusRequestEntityTooLarge, "expandedTooLarge")
	streamed := d.ask(http.MethodPost, "/v1/ingest", `{"scope":"a","name":"x"}`+"\n{}\n", header("Accept", "application/x-ndjson")).want(http.StatusOK, nil)
	answers := strings.Split(strings.TrimSpace(streamed.body), "\n")
	for _, line := range answers[:len(answers)-1] {
		c.fits("Committed", []byte(line))
	}
	c.fits("IngestProblem", []byte(answers[len(answers)-1]))

	// A body that ends before its length.
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, "POST /v1/ingest HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\nContent-Length: 99\r\n\r\n{")
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	_, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	if err != nil || !strings.Contains(body, `"code":"bodyCut"`) {
		d.t.Errorf("%v: %s", err, answer)
	}
	c.fits("IngestProblem", []byte(body))
	c.seen["POST /v1/ingest 400 bodyCut"] = true
}

// driveStream opens a stream and checks an event of it.
func driveStream(d *running, c *contract) {
	d.t.Helper()
	s := d.stream("?after=start&kinds=decision&scope=chat:*", "Last-Event-ID", "")
	_, _, data, err := s.next()
	if err != nil {
		d.t.Fatal(err)
	}
	c.fits("Decision", []byte(data))
	d.stream("", "Last-Event-ID", anotherLog).want("truncated", `"cursor":`)
}

// driveMistakes sends to each operation what it refuses.
func driveMistakes(d *running) {
	d.t.Helper()
	for op := range operations(readDocument(d.t, false)) {
		method, path, _ := strings.Cut(op, " ")
		if strings.HasPrefix(path, "/v1/") && path != "/v1/ingest" && method == http.MethodGet {
			d.ask(method, fill(path)+"?nonsense=1", "").problem(http.StatusBadRequest, "invalidParameter")
		}
	}
	d.ask(http.MethodPost, "/v1/flush?x=1", `{"scope":"a"}`).problem(http.StatusBadRequest, "invalidParameter")
	d.ask(http.MethodPost, "/v1/scopes/a/flush?x=1", "").problem(http.StatusBadRequest, "invalidParameter")
	d.ask(http.MethodPost, "/v1/flush", `{"scop":"a"}`).problem(http.StatusBadRequest, "invalidBody")
	d.ask(http.MethodPost, "/v1/flush", `{"scope":"`+strings.Repeat("a", 65<<10)+`"}`).problem(http.StatusRequestEntityTooLarge, "bodyTooLarge")
	d.ask(http.MethodPost, "/v1/flush", "scope=a", header("Content-Type", "application/x-www-form-urlencoded")).problem(http.StatusUnsupportedMediaType, "unsupportedMediaType")
	for _, path := range []string{"/v1/decisions", "/v1/decisions/stream", "/v1/deadletters", "/v1/scopes"} {
		d.ask(http.MethodGet, path+"?after=abc", "").problem(http.StatusBadRequest, "invalidCursor")
	}
	for _, path := range []string{"/v1/decisions/none", "/v1/deadletters/none", "/v1/consumers/none"} {
		d.ask(http.MethodGet, path, "").problem(http.StatusNotFound, "notFound")
	}
}

// driveConsumer makes a consumer by the tool that makes them.
func driveConsumer(d *running) {
	d.t.Helper()
	d.ask(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"attend_wait","arguments":{"consumer":"coder","timeoutMs":0}}}`,
		header("Accept", "application/json, text/event-stream"), header("Mcp-Protocol-Version", "2025-11-25")).want(http.StatusOK, nil)
	d.ask(http.MethodGet, "/v1/consumers", "").want(http.StatusOK, nil)
	d.ask(http.MethodGet, "/v1/consumers/coder", "").want(http.StatusOK, nil)
}

// fill puts something into the places of a path.
func fill(path string) string {
	return strings.NewReplacer("{id}", "x", "{scope}", "x", "{name}", "x", "{op}", "x").Replace(path)
}

func driveDeadLetters(t *testing.T) *contract {
	file := filepath.Join(t.TempDir(), "attend.db")
	var judged, posted, gone, waiting string
	plant(t, file, func(s *seed) {
		judged = s.dead("dead:1", engine.StageJudge, 0)
		posted = s.dead("dead:2", engine.StageWebhook, 0)
		gone = s.dead("dead:3", engine.StageJudge, 1) // where the policy stands
		waiting = s.held("held:1")
	})
	d := run(t, []string{"ATTEND_TOKEN=secret-of-sixteen-bytes"}, "--store", "sqlite:"+file)
	c := hold(d)
	for _, path := range []string{
		"/v1/deadletters", "/v1/deadletters/" + judged, "/v1/decisions?kinds=deadLetter", "/v1/decisions/" + waiting, "/v1/scopes/held:1", "/v1/scopes",
	} {
		d.ask(http.MethodGet, path, "").want(http.StatusOK, nil)
	}
	var letter struct{ WindowID string }
	d.ask(http.MethodGet, "/v1/deadletters/"+gone, "").want(http.StatusOK, &letter)
	d.ask(http.MethodGet, "/v1/decisions/"+letter.WindowID, "").want(http.StatusOK, nil) // calls, failures, the dead letter
	requeue := func(id string) response {
		t.Helper()
		return d.ask(http.MethodPost, "/v1/deadletters/"+id+"/requeue", "")
	}
	requeue(judged).want(http.StatusAccepted, nil)
	requeue(posted).problem(http.StatusConflict, "notRequeueable")
	requeue(gone).problem(http.StatusConflict, "expired")
	requeue("none").problem(http.StatusNotFound, "notFound")
	d.ask(http.MethodPost, "/v1/deadletters/x/requeue?x=1", "").problem(http.StatusBadRequest, "invalidParameter")
	many := "/v1/deadletters/requeue"
	d.ask(http.MethodPost, many, `{"scope":"dead:*","limit":2}`).want(http.StatusAccepted, nil)
	d.ask(http.MethodPost, many, `{"stage":"ear"}`).problem(http.StatusBadRequest, "invalidParameter")
	d.ask(http.MethodPost, many, `{"after":"x"}`).problem(http.StatusBadRequest, "invalidCursor")
	d.ask(http.MethodPost, many, `{"scop":"x"}`).problem(http.StatusBadRequest, "invalidBody")
	d.ask(http.MethodPost, many, `{"scope":"`+strings.Repeat("a", 65<<10)+`"}`).problem(http.StatusRequestEntityTooLarge, "bodyTooLarge")
	d.ask(http.MethodPost, many, "scope=a", header("Content-Type", "application/x-www-form-urlencoded")).problem(http.StatusUnsupportedMediaType, "unsupportedMediaType")

	driveConsumer(d)
	d.ask(http.MethodDelete, "/v1/consumers/coder", "").want(http.StatusNoContent, nil)
	d.ask(http.MethodDelete, "/v1/consumers/coder", "").problem(http.StatusNotFound, "notFound")
	d.ask(http.MethodDelete, "/v1/consumers/coder?x=1", "").problem(http.StatusBadRequest, "invalidParameter")
	s := d.stream("?after=start&kinds=deadLetter", "Authorization", "Bearer "+d.token)
	_, event, data, err := s.next()
	if err != nil || event != "deadLetter" {
		t.Fatalf("event %q (%v)", event, err)
	}
	c.fits("DeadLetter", []byte(data))
	if strings.Contains(d.log.String(), "level=WARN") || !json.Valid([]byte(data)) {
		t.Errorf("the log was not as the rules have it:\n%s", d.log)
	}
	return c
}

// driveAccess asks for everything without a right.
func driveAccess(t *testing.T) *contract {
	var c *contract
	seen := make(map[string]bool)
	for _, env := range [][]string{nil, {"ATTEND_TOKEN=secret-of-sixteen-bytes"}} {
		d := run(t, env)
		c = hold(d)
		c.seen = seen
		for op, is := range operations(c.doc) {
			method, path, _ := strings.Cut(op, " ")
			path = fill(path)
			d.ask(method, path, "", host("evil.example")).problem(http.StatusForbidden, "hostNotAllowed")
			d.ask(method, path, "", header("Origin", "https://evil.example")).problem(http.StatusForbidden, "originNotAllowed")
			open := is.Security != nil && len(*is.Security) == 0
			admin := method == http.MethodDelete && path != "/mcp" || strings.HasSuffix(path, "/requeue")
			switch {
			case env != nil && !open:
				d.ask(method, path, "", func(r *http.Request) { r.Header.Del("Authorization") }).problem(http.StatusUnauthorized, "unauthorized")
			case env == nil && admin:
				d.ask(method, path, "").problem(http.StatusForbidden, "forbidden")
			}
		}
	}
	d, _, _ := manyTokens(t)
	c = hold(d)
	c.seen = seen
	for op, is := range operations(c.doc) {
		method, path, _ := strings.Cut(op, " ")
		refusal := is.Responses.Value("403").Value.Content["application/problem+json"]
		if slices.Contains(codesOf(refusal.Schema), any("forbidden")) {
			caller := "keeper"
			if right := rightsTable("", "")[op].right; right == "admin" {
				caller = "reader"
			}
			d.ask(method, fill(path), "", sayWho(caller)).problem(http.StatusForbidden, "forbidden")
		}
	}
	return c
}
