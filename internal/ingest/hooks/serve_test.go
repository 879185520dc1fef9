package hooks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

const token = "a-token-that-a-request-bears"

func bearer() []string { return []string{"Authorization", "Bearer " + token} }

// mapped is a generic hook that bears a token.
func mapped(m Mapping) Hook {
	return Hook{Name: "any", Type: Generic, Bearer: []string{"the one before", token}, Event: m}
}

// simple maps what the tests send.
func simple() Mapping {
	return Mapping{Scope: "body.scope", Name: "body.name", ID: `body.?id.orValue("")`}
}

func asJSON(headers ...string) []string {
	return append([]string{"Content-Type", "application/json"}, headers...)
}

// Whoever does not bear the secret learns nothing of the hook, and nothing of
// what was sent is read.
func TestServe_WhoBearsNothing(t *testing.T) {
	w := newWorld(t, mapped(simple()), Hook{Name: "basic", Type: Alertmanager, Basic: &Basic{User: "am", Passwords: []string{"old-password", "new-password"}}})
	basic := func(credential string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(credential))
	}
	for _, headers := range [][]string{
		{},
		{"Authorization", ""},
		{"Authorization", "Bearer"},
		{"Authorization", "Bearer "},
		{"Authorization", token},
		{"Authorization", "Basic " + token},
		{"Authorization", "Bearer " + token + "x"},
		{"Authorization", "Bearer " + token[1:]},
		{"X-Authorization", "Bearer " + token},
		{"Authorization", "Bearer " + token, "Authorization", "Bearer " + token},
	} {
		r := httptest.NewRequest(http.MethodPost, Path+"any", iotest.ErrReader(errors.New("the body was read")))
		w.send(r, headers...).want(t, 401, "unauthorized")
	}
	for _, credential := range []string{"am:", "am:new-passwor", "other:new-password", "new-password", ""} {
		w.post("basic", `{"alerts":[]}`, asJSON("Authorization", basic(credential))...).want(t, 401, "unauthorized")
	}
	for _, credential := range []string{"am:old-password", "am:new-password"} {
		w.post("basic", `{"alerts":[]}`, asJSON("Authorization", basic(credential))...).want(t, 200, "")
	}
	w.post("any", `{"scope":"a","name":"b"}`, asJSON("Authorization", "bearer "+token)...).want(t, 200, "")
	w.post("any", `{"scope":"a","name":"b"}`, asJSON("Authorization", "Bearer the one before")...).want(t, 200, "")
	if w.count("any", "unauthorized") != 10 || w.count("basic", "unauthorized") != 5 || w.count("any", "accepted") != 2 || w.count("basic", "ignored") != 2 {
		t.Error("the requests are not counted as they were answered")
	}
}

// There is one answer for every name that is no hook, whatever is sent to it.
func TestServe_NoSuchHook(t *testing.T) {
	w := newWorld(t, mapped(simple()))
	first := ""
	for i, name := range []string{"none", "", "any/", "ANY", "any%20", "%61ny", "..", strings.Repeat("x", 5000)} {
		for _, method := range []string{http.MethodPost, http.MethodOptions, http.MethodGet} {
			r := httptest.NewRequest(method, Path+name, iotest.ErrReader(errors.New("the body was read")))
			got := w.send(r, bearer()...).want(t, 404, "notFound")
			if all := fmt.Sprint(got.Header(), got.Body); first == "" {
				first = all
			} else if all != first {
				t.Errorf("%d: %s, and %s before", i, all, first)
			}
		}
	}
	if w.count(unknownHook, "notFound") != 24 {
		t.Errorf("%d counted", w.count(unknownHook, "notFound"))
	}
}

// What is wrong with a request, and how it is answered.
func TestServe_Answers(t *testing.T) {
	good := `{"scope":"a","name":"b"}`
	for name, c := range map[string]struct {
		body    string
		headers []string
		status  int
		code    string
		result  string
		detail  string
	}{
		"taken":             {good, asJSON(), 200, "", "accepted", `{"accepted":1,"duplicates":0}`},
		"a form":            {"scope=a&name=b&scope=c", []string{"Content-Type", "application/x-www-form-urlencoded"}, 200, "", "accepted", ""},
		"JSON of a kind":    {good, []string{"Content-Type", "application/vnd.x+json; charset=utf-8"}, 200, "", "accepted", ""},
		"no type":           {good, nil, 415, "unsupportedMediaType", "invalid", "application/json"},
		"another type":      {good, []string{"Content-Type", "text/plain"}, 415, "unsupportedMediaType", "invalid", "application/json"},
		"compressed":        {good, asJSON("Content-Encoding", "gzip"), 415, "unsupportedMediaType", "invalid", "without a Content-Encoding"},
		"no JSON":           {"{", asJSON(), 422, "invalidBody", "invalid", "no JSON"},
		"nothing":           {"", asJSON(), 422, "invalidBody", "invalid", "no JSON"},
		"two values":        {good + good, asJSON(), 422, "invalidBody", "invalid", "no JSON"},
		"a missing key":     {`{"scope":"a"}`, asJSON(), 422, "mappingFailed", "invalid", "event.name there is no such key: name: ask has() first"},
		"another type of a": {`{"scope":{},"name":"b"}`, asJSON(), 422, "mappingFailed", "invalid", "event.scope is a map, and must be a string"},
		"no name":           {`{"scope":"a","name":""}`, asJSON(), 422, "eventsRejected", "invalid", `"errors":[{"event":1,"error":"ingest refuses it"}]`},
		"too large":         {strings.Repeat("x", maxBody+1), asJSON(), 413, "bodyTooLarge", "tooLarge", fmt.Sprint(maxBody)},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, mapped(simple()))
			got := w.post("any", c.body, append(bearer(), c.headers...)...).want(t, c.status, c.code)
			if !strings.Contains(got.Body.String(), c.detail) || w.count("any", c.result) != 1 {
				t.Errorf("%s counted as %d: %s", c.result, w.count("any", c.result), got.Body)
			}
			if took := len(w.taken); (took == 1) != (c.status == 200) {
				t.Errorf("%d events", took)
			}
			if got.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", got.Header())
			}
		})
	}
}

// A body without a known length is not read beyond the limit either.
func TestServe_ALongStreamIsTooLarge(t *testing.T) {
	w := newWorld(t, mapped(simple()))
	body := &endless{}
	r := httptest.NewRequest(http.MethodPost, Path+"any", body)
	r.ContentLength = -1
	w.send(r, bearer()...).want(t, 413, "bodyTooLarge")
	if body.read > 3*maxBody {
		t.Errorf("%d bytes were read", body.read)
	}
	w.emptied()
}

type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	return len(p), nil
}

// What may pass later is said in the way that makes each sender try again.
func TestServe_Later(t *testing.T) { synctest.Test(t, testLater) }

func testLater(t *testing.T) {
	secret := []byte("a secret of 24 bytes or so")
	all := []Hook{
		gitHubHook(), mapped(simple()),
		{Name: "bus", Type: CloudEvents, Bearer: []string{token}},
		{Name: "alerts", Type: Alertmanager, Bearer: []string{token}},
		{Name: "std", Type: StandardWebhooks, Secrets: [][]byte{secret}},
	}
	send := map[string]func(w *world) sent{
		"gh":  func(w *world) sent { return w.deliver("fork", "1", `{}`) },
		"any": func(w *world) sent { return w.post("any", `{"scope":"a","name":"b"}`, asJSON(bearer()...)...) },
		"bus": func(w *world) sent {
			return w.post("bus", `{"specversion":"1.0","id":"1","source":"/s","type":"t"}`, append(bearer(), "Content-Type", typeCloudEvent)...)
		},
		"alerts": func(w *world) sent {
			return w.post("alerts", `{"alerts":[{"status":"firing","startsAt":"2026-01-02T03:04:05Z"}]}`, asJSON(bearer()...)...)
		},
		"std": func(w *world) sent { return w.standard(secret, "m1", 0, `{}`) },
	}
	busy := map[string]int{"gh": 429, "any": 503, "bus": 429, "alerts": 503, "std": 429}
	for name, post := range send {
		w := newWorld(t, all...)
		w.fails = fmt.Errorf("%w: scope x", ErrBusy)
		if got := post(w).want(t, busy[name], "windowFull"); got.Header().Get("Retry-After") != "1" {
			t.Errorf("%s: headers %v", name, got.Header())
		}
		w.fails = errors.New("the disk is full of secrets")
		if got := post(w).want(t, 503, "storeUnavailable"); got.Header().Get("Retry-After") != "5" || strings.Contains(got.Body.String(), "disk") {
			t.Errorf("%s: headers %v: %s", name, got.Header(), got.Body)
		}
		w.fails = nil
		release := w.fill(w.service.desk)
		if post(w).want(t, busy[name], "saturated").Header().Get("Retry-After") != "1" {
			t.Errorf("%s: no Retry-After", name)
		}
		release()
		release = w.fill(w.service.open.small, w.service.known.small)
		post(w).want(t, busy[name], "saturated")
		release()
		if post(w).want(t, 200, ""); len(w.taken) != 1 || w.count(name, "busy") != 3 || w.count(name, "unavailable") != 1 || w.count(name, "accepted") != 1 {
			t.Errorf("%s: %d events", name, len(w.taken))
		}
	}
}

// A connection that is cut, over a real one: nothing is taken of a body that is
// not whole, though its signature may be known.
func TestServe_ABodyThatIsCut(t *testing.T) {
	w := newWorld(t, gitHubHook())
	server := httptest.NewServer(w.service)
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST %sgh HTTP/1.1\r\nHost: x\r\nX-GitHub-Event: fork\r\nX-Hub-Signature-256: sha256=%s\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{}",
		Path, signed(gitHubSecret, "{}"))
	_ = conn.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400") || !strings.Contains(string(answer), `"code":"bodyCut"`) {
		t.Errorf("%v: %s", err, answer)
	}
	if len(w.taken) != 0 || w.count("gh", "cut") != 1 {
		t.Errorf("%d events", len(w.taken))
	}
}

// A body that does not come in time is told of, and so is one whose deadline is
// the connection's.
func TestServe_ABodyThatIsLate(t *testing.T) {
	w := newWorld(t, gitHubHook())
	r := httptest.NewRequest(http.MethodPost, Path+"gh", iotest.ErrReader(fmt.Errorf("read: %w", context.DeadlineExceeded)))
	w.send(r).want(t, 400, "bodyCut")
	r = httptest.NewRequest(http.MethodPost, Path+"gh", iotest.ErrReader(&net.OpError{Op: "read", Err: timeout{}}))
	w.send(r).want(t, 408, "idle")
}

// timeout is the error of a deadline that has passed.
type timeout struct{}

func (timeout) Error() string        { return "i/o timeout" }
func (timeout) Is(target error) bool { return target == os.ErrDeadlineExceeded }

// A new list is in force at once; one that is wrong changes nothing.
func TestService_Replace(t *testing.T) {
	w := newWorld(t, gitHubHook())
	if err := w.service.Replace([]Hook{{Name: "open", Type: Generic, Event: simple()}}); err == nil {
		t.Fatal("a hook that anybody may use was taken")
	}
	w.deliver("fork", "1", "{}").want(t, 200, "")
	if err := w.service.Replace([]Hook{mapped(simple())}); err != nil {
		t.Fatal(err)
	}
	w.deliver("fork", "2", "{}").want(t, 404, "notFound")
	w.post("any", `{"scope":"a","name":"b"}`, asJSON(bearer()...)...).want(t, 200, "")
}

// What a hook must have.
func TestNew_HooksThatAreNotWhole(t *testing.T) {
	key := keys("a-secret")
	for want, h := range map[string]Hook{
		"neither a secret":                  {Name: "x", Type: GitHub},
		"more than one way":                 {Name: "x", Type: Generic, Event: simple(), Bearer: []string{"a"}, Secrets: key},
		"github signs what it sends":        {Name: "x", Type: GitHub, Bearer: []string{"a"}},
		"unknown type":                      {Name: "x", Type: "gitlab", Bearer: []string{"a"}},
		"a secret has 8 bytes":              {Name: "x", Type: StandardWebhooks, Secrets: key},
		"event has no scope":                {Name: "x", Type: Generic, Bearer: []string{"a"}, Event: Mapping{Name: "body.name"}},
		"event.scope: 1:1":                  {Name: "x", Type: Generic, Bearer: []string{"a"}, Event: Mapping{Scope: "bdy", Name: "body.name"}},
		"has no header":                     {Name: "x", Type: Generic, Secrets: key, Event: simple()},
		"holds no {body}":                   {Name: "x", Type: Generic, Secrets: key, Event: simple(), Scheme: Signature{Header: "X", Signed: "v0"}},
		"does not say where it is":          {Name: "x", Type: Generic, Secrets: key, Event: simple(), Scheme: Signature{Header: "X", Signed: "{timestamp}{body}"}},
		"idHeader does not say":             {Name: "x", Type: Generic, Secrets: key, Event: simple(), Scheme: Signature{Header: "X", Signed: "{id}{body}"}},
		"timestampHeader names what signed": {Name: "x", Type: Generic, Secrets: key, Event: simple(), Scheme: Signature{Header: "X", TimestampHeader: "T"}},
		"unknown algorithm":                 {Name: "x", Type: Generic, Secrets: key, Event: simple(), Scheme: Signature{Header: "X", Algorithm: "md5"}},
		"unknown encoding":                  {Name: "x", Type: Generic, Secrets: key, Event: simple(), Scheme: Signature{Header: "X", Encoding: "base32"}},
		"an empty secret":                   {Name: "x", Type: GitHub, Secrets: [][]byte{{}}},
		"a brace that is not closed":        {Name: "x", Type: GitHub, Secrets: key, Scope: "a{b"},
		"given twice, or empty":             {Type: GitHub, Secrets: key},
	} {
		_, err := New(Options{Hooks: []Hook{h}, Push: func(context.Context, []Event) (Pushed, error) { return Pushed{}, nil }})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := New(Options{}); err == nil {
		t.Error("hooks without Push were made")
	}
}

// Before the secret has been checked there is nothing that could tell of it: a
// body that is no JSON is refused in the same words.
func TestServe_NothingIsParsedBeforeTheSignature(t *testing.T) {
	w := newWorld(t, gitHubHook())
	var answers []string
	for _, body := range []string{"{}", "{", "", strings.Repeat("[", 100_000)} {
		got := w.post("gh", body, "Content-Type", "text/plain", "Content-Encoding", "br").want(t, 401, "unauthorized")
		answers = append(answers, got.Body.String())
	}
	if diff := cmp.Diff([]string{answers[0], answers[0], answers[0], answers[0]}, answers); diff != "" {
		t.Error(diff)
	}
}
