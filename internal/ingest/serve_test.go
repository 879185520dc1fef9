package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/store"
)

func TestServe_EveryFieldReachesTheLog(t *testing.T) {
	w := newWorld(t)
	got := w.send(t, `{"scope":"s","name":"message.created","id":"1","at":5,"data":{"b": 1, "a":1e400},"text":"hé\n"}`+"\n")
	if got.counts() != "200: 1 accepted, 0 duplicates, 0 rejected" {
		t.Fatal(got)
	}
	at := engine.Time(5)
	want := []store.NewEvent{{Scope: "s", Event: engine.Event{
		ID: "1", Name: "message.created", Kind: engine.Flush, Policy: 7, At: &at, Data: []byte(`{"b": 1, "a":1e400}`), Text: "hé\n",
	}}}
	if diff := cmp.Diff(want, w.log.all()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServe_AnEventWithoutAnIDGetsOne(t *testing.T) {
	w := newWorld(t)
	got := w.send(t, "{\"scope\":\"s\",\"name\":\"n\"}\n{\"scope\":\"s\",\"name\":\"n\"}\n")
	if got.counts() != "200: 2 accepted, 0 duplicates, 0 rejected" {
		t.Fatal(got)
	}
	a, b := w.log.all()[0].ID, w.log.all()[1].ID
	if len(a) != 26 || len(b) != 26 || a >= b {
		t.Errorf("ids %q and %q: want two ULIDs, rising", a, b)
	}
	if e := w.log.all()[0]; e.At != nil || e.Data != nil || e.Text != "" {
		t.Errorf("what was absent is not: %+v", e)
	}
}

// line makes a good line with an id.
func line(id string) string { return `{"scope":"s","name":"n","id":"` + id + `"}` }

func TestServe_Bodies(t *testing.T) {
	big := `{"scope":"s","name":"n","id":"big","text":"` + strings.Repeat("x", 1<<20) + `"}`
	exact := func(size int) string {
		head, tail := `{"scope":"s","name":"n","id":"exact","text":"`, `"}`
		return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
	}
	wide := `{"scope":"wide","name":"n","id":"w","text":"` + strings.Repeat("x", 2<<20) + `"}`
	for _, c := range []struct {
		name, body string
		json       bool
		want       string // counts
		ids        string // in the log
		codes      string
	}{
		{name: "nothing", want: "200: 0 accepted, 0 duplicates, 0 rejected"},
		{name: "blank lines alone", body: "\n\r\n \t\n  ", want: "200: 0 accepted, 0 duplicates, 0 rejected"},
		{name: "a byte order mark alone", body: "\xef\xbb\xbf", want: "200: 0 accepted, 0 duplicates, 0 rejected"},
		{name: "lines", body: line("1") + "\n" + line("2") + "\n", want: "200: 2 accepted, 0 duplicates, 0 rejected", ids: "1 2"},
		{name: "a last line without newline", body: line("1") + "\n" + line("2"), want: "200: 2 accepted, 0 duplicates, 0 rejected", ids: "1 2"},
		{name: "CRLF", body: line("1") + "\r\n" + line("2") + "\r\n", want: "200: 2 accepted, 0 duplicates, 0 rejected", ids: "1 2"},
		{name: "CR alone is space, not a newline", body: line("1") + "\r" + line("2") + "\n", want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:twoValues"},
		{name: "blank lines are counted and skipped", body: "\n" + line("1") + "\n \n\r\n{}\n" + line("2"), want: "422: 2 accepted, 0 duplicates, 1 rejected", ids: "1 2", codes: "5:missingField"},
		{name: "a byte order mark at the start", body: "\xef\xbb\xbf" + line("1") + "\n", want: "200: 1 accepted, 0 duplicates, 0 rejected", ids: "1"},
		{name: "a byte order mark further on", body: line("1") + "\n\xef\xbb\xbf" + line("2") + "\n", want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:syntax"},
		{name: "a bad line between good ones", body: line("1") + "\nbad\n" + line("2") + "\n", want: "422: 2 accepted, 0 duplicates, 1 rejected", ids: "1 2", codes: "2:syntax"},
		{name: "two values on a line", body: line("1") + line("2") + "\n" + line("3"), want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "3", codes: "1:twoValues"},
		{name: "a last line that is not whole", body: line("1") + "\n" + `{"scope":"s","na`, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:incomplete"},
		{name: "an object over several lines", body: "{\n\"scope\":\"s\"\n}\n", want: "422: 0 accepted, 0 duplicates, 3 rejected", codes: "1:incomplete 2:syntax 3:syntax"},
		{name: "no scope", body: `{"name":"n"}`, want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:missingField"},
		{name: "no name", body: `{"scope":"s"}`, want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:missingField"},
		{name: "a line that is too large", body: line("1") + "\n" + big + "\n" + line("2") + "\n", want: "422: 2 accepted, 0 duplicates, 1 rejected", ids: "1 2", codes: "2:tooLarge"},
		{name: "a last line that is too large", body: line("1") + "\n" + big, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:tooLarge"},
		{name: "as large as may be", body: exact(1<<20) + "\r\n" + line("2"), want: "200: 2 accepted, 0 duplicates, 0 rejected", ids: "exact 2"},
		{name: "one byte more", body: exact(1<<20+1) + "\r\n" + line("2"), want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "2", codes: "1:tooLarge"},
		{name: "one byte more at the end", body: exact(1<<20 + 1), want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:tooLarge"},
		{name: "a scope with larger events", body: wide + "\n" + strings.Replace(wide, "wide", "other", 1) + "\n" + line("2"), want: "422: 2 accepted, 0 duplicates, 1 rejected", ids: "w 2", codes: "2:tooLarge"},
		{name: "the same id twice", body: line("1") + "\n" + line("2") + "\n" + line("1") + "\n", want: "200: 2 accepted, 1 duplicates, 0 rejected", ids: "1 2"},
		{name: "one id in two scopes", body: line("1") + "\n" + `{"scope":"t","name":"n","id":"1"}`, want: "200: 2 accepted, 0 duplicates, 0 rejected", ids: "1 1"},

		{name: "JSON: nothing", json: true, want: "200: 0 accepted, 0 duplicates, 0 rejected"},
		{name: "JSON: space", body: " \n\t", json: true, want: "200: 0 accepted, 0 duplicates, 0 rejected"},
		{name: "JSON: an empty array", body: " [ ] ", json: true, want: "200: 0 accepted, 0 duplicates, 0 rejected"},
		{name: "JSON: an object", body: line("1"), json: true, want: "200: 1 accepted, 0 duplicates, 0 rejected", ids: "1"},
		{name: "JSON: an object over several lines", body: "\xef\xbb\xbf {\n\"scope\":\"s\",\n\"name\":\"n\",\"id\":\"1\"\n}\n", json: true, want: "200: 1 accepted, 0 duplicates, 0 rejected", ids: "1"},
		{name: "JSON: an array", body: "[" + line("1") + " ,\n" + line("2") + "]\n", json: true, want: "200: 2 accepted, 0 duplicates, 0 rejected", ids: "1 2"},
		{name: "JSON: brackets and quotes in strings", body: `[{"scope":"s","name":"n","id":"]}\\\"","data":["}",{"k":"\\"}]},` + line("2") + `]`, json: true, want: "200: 2 accepted, 0 duplicates, 0 rejected", ids: `]}\" 2`},
		{name: "JSON: a bad event between good ones", body: "[" + line("1") + `,{"scope":"s"},7,"x",null,[],` + line("2") + "]", json: true, want: "422: 2 accepted, 0 duplicates, 5 rejected", ids: "1 2", codes: "2:missingField 3:notObject 4:notObject 5:notObject 6:notObject"},
		{name: "JSON: an element that is no UTF-8", body: "[{\"scope\":\"s\",\"name\":\"\xff\"}," + line("2") + "]", json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "2", codes: "1:invalidUtf8"},
		{name: "JSON: nothing is read after what is no JSON", body: "[" + line("1") + `,{"scope":"s","name":bad},` + line("2") + "]", json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:syntax"},
		{name: "JSON: a stray quote cannot make an event of text", body: `[{"scope":"s","name":"n","text":"a " b"},` + line("2") + `,"c"}]`, json: true, want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:syntax"},
		{name: "JSON: an element that is too large", body: "[" + big + "," + line("2") + "]", json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "2", codes: "1:tooLarge"},
		{name: "JSON: as large as may be", body: "[" + exact(1<<20) + "]", json: true, want: "200: 1 accepted, 0 duplicates, 0 rejected", ids: "exact"},
		{name: "JSON: an object that is too large", body: big, json: true, want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:tooLarge"},
		{name: "JSON: lines", body: line("1") + "\n" + line("2"), json: true, want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:twoValues"},
		{name: "JSON: a value after the array", body: "[" + line("1") + "]" + line("2"), json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:twoValues"},
		{name: "JSON: an array that is not closed", body: "[" + line("1"), json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:incomplete"},
		{name: "JSON: an array that ends at a comma", body: "[" + line("1") + ",", json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:incomplete"},
		{name: "JSON: an array that ends in an element", body: "[" + line("1") + `,{"scope":"s`, json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:incomplete"},
		{name: "JSON: an array with nothing in it but its bracket", body: "[", json: true, want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:incomplete"},
		{name: "JSON: a comma too many", body: "[" + line("1") + ",]", json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:syntax"},
		{name: "JSON: a comma at the start", body: "[," + line("1") + "]", json: true, want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:syntax"},
		{name: "JSON: no comma", body: "[" + line("1") + line("2") + "]", json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:syntax"},
		{name: "JSON: a bracket of the other sort", body: "[" + line("1") + "}", json: true, want: "422: 1 accepted, 0 duplicates, 1 rejected", ids: "1", codes: "2:syntax"},
		{name: "JSON: a scalar", body: "12", json: true, want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:notObject"},
		{name: "JSON: no JSON", body: "hello", json: true, want: "422: 0 accepted, 0 duplicates, 1 rejected", codes: "1:syntax"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// How the bytes come changes nothing.
			for name, cut := range map[string]func(r *http.Request){
				"whole":         func(*http.Request) {},
				"half by half":  func(r *http.Request) { r.Body = readCloser{iotest.HalfReader(r.Body)} },
				"end with data": func(r *http.Request) { r.Body = readCloser{iotest.DataErrReader(r.Body)} },
				"byte by byte": func(r *http.Request) {
					if len(c.body) < 10000 {
						r.Body = readCloser{iotest.OneByteReader(r.Body)}
					}
				},
			} {
				w := newWorld(t, func(w *world, _ *Options) {
					w.owner.policy = testPolicy(t, func(p *engine.Policy) {
						s := engine.Defaults()
						s.MaxEventBytes = 4 << 20
						p.Scopes = []engine.ScopeSettings{{Scope: "wide", Settings: s}}
						if strings.Contains(c.name, "large") && !strings.Contains(c.name, "scope") {
							p.Scopes = nil
						}
					})
				})
				got := w.send(t, c.body, cut, func(r *http.Request) {
					if c.json {
						asJSON(r)
					}
				})
				if got.counts() != c.want || codes(got.Body.Errors) != c.codes {
					t.Errorf("%s: got  %s; %s %v\nwant %s; %s", name, got.counts(), codes(got.Body.Errors), got.Body.Errors, c.want, c.codes)
				}
				if have := ids(w.log.all()); have != c.ids {
					t.Errorf("%s: the log holds %q, want %q", name, have, c.ids)
				}
			}
		})
	}
}

type readCloser struct {
	reader interface{ Read([]byte) (int, error) }
}

func (r readCloser) Read(p []byte) (int, error) { return r.reader.Read(p) }
func (readCloser) Close() error                 { return nil }

func TestServe_TheDefaultScope(t *testing.T) {
	w := newWorld(t)
	got := w.send(t, "{\"name\":\"n\"}\n{\"scope\":\"own\",\"name\":\"n\"}\n{\"scope\":\"\",\"name\":\"n\"}\n", func(r *http.Request) {
		r.URL.RawQuery = "scope=repo%3Aa%2Fb%20c"
	})
	if got.counts() != "422: 2 accepted, 0 duplicates, 1 rejected" || codes(got.Body.Errors) != "3:emptyField" {
		t.Error(got)
	}
	if a, b := w.log.all()[0].Scope, w.log.all()[1].Scope; a != "repo:a/b c" || b != "own" {
		t.Errorf("scopes %q and %q", a, b)
	}
}

func TestServe_WhatIsRefusedUnread(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(r *http.Request)
		status int
		code   string
		says   string // a part of the detail
	}{
		{"no content type", func(r *http.Request) { r.Header.Del("Content-Type") }, 415, "unsupportedMediaType", `names no Content-Type`},
		{"a form", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-www-form-urlencoded") }, 415, "unsupportedMediaType", `curl -H 'Content-Type: application/x-ndjson' --data-binary @events.ndjson 'http://example.com/v1/ingest'`},
		{"a form, over TLS", func(r *http.Request) { r.Header.Del("Content-Type"); r.TLS = new(tls.ConnectionState) }, 415, "unsupportedMediaType", `'https://example.com/v1/ingest'`},
		{"no media type at all", func(r *http.Request) { r.Header.Set("Content-Type", ";;") }, 415, "unsupportedMediaType", `";;"`},
		{"another charset", func(r *http.Request) { r.Header.Set("Content-Type", "application/x-ndjson; charset=latin1") }, 415, "unsupportedMediaType", `"latin1"`},
		{"brotli", func(r *http.Request) { r.Header.Set("Content-Encoding", "br") }, 415, "unsupportedMediaType", `"br"`},
		{"gzip twice", func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip, gzip") }, 415, "unsupportedMediaType", `"gzip, gzip"`},
		{"PUT", func(r *http.Request) { r.Method = http.MethodPut }, 405, "methodNotAllowed", `curl -T needs -X POST`},
		{"an empty scope", func(r *http.Request) { r.URL.RawQuery = "scope=" }, 400, "invalidScope", `field "scope" is empty`},
		{"a scope with a newline", func(r *http.Request) { r.URL.RawQuery = "scope=a%0Ab" }, 400, "invalidScope", `control character U+000A`},
		{"a scope that is no UTF-8", func(r *http.Request) { r.URL.RawQuery = "scope=%ff" }, 400, "invalidScope", `not UTF-8`},
		{"a scope that is too long", func(r *http.Request) { r.URL.RawQuery = "scope=" + strings.Repeat("s", 513) }, 400, "invalidScope", `513 bytes`},
		{"two scopes", func(r *http.Request) { r.URL.RawQuery = "scope=a&scope=b" }, 400, "invalidScope", `several scopes`},
		{"a query that is none", func(r *http.Request) { r.URL.RawQuery = "scope=%zz" }, 400, "invalidScope", `%zz`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			got := w.send(t, line("1"), c.change)
			if got.Status != c.status || got.Body.Status != c.status || got.Body.Code != c.code || !strings.Contains(got.Body.Detail, c.says) {
				t.Errorf("got %+v", got)
			}
			if got.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("Content-Type %q", got.Header.Get("Content-Type"))
			}
			if len(w.log.all()) != 0 {
				t.Error("something was committed")
			}
		})
	}
}

func TestServe_WaysToNameTheBody(t *testing.T) {
	for _, c := range []struct{ contentType, encoding string }{
		{"application/x-ndjson", ""},
		{"application/x-ndjson; charset=utf-8", "identity"},
		{`Application/X-NDJSON;charset="UTF-8"`, ""},
		{"application/json;charset=us-ascii", ""},
	} {
		w := newWorld(t)
		got := w.send(t, line("1"), func(r *http.Request) {
			r.Header.Set("Content-Type", c.contentType)
			if c.encoding != "" {
				r.Header.Set("Content-Encoding", c.encoding)
			}
		})
		if got.counts() != "200: 1 accepted, 0 duplicates, 0 rejected" {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// The answers by what became of the lines.
func TestServe_Statuses(t *testing.T) {
	refuse := func(scope string, k engine.Kind) string {
		switch {
		case scope == "lane":
			return "outboxFull"
		case scope == "window" && k.Act():
			return "windowFull"
		}
		return ""
	}
	full := func(scope, name, id string) string {
		return fmt.Sprintf(`{"scope":%q,"name":%q,"id":%q}`, scope, name, id) + "\n"
	}
	down := func(call int) func(w *world, _ *Options) {
		return func(w *world, o *Options) {
			o.Limits.GroupLines = 2
			w.log.before = func(n int, _ *store.Entry) error {
				if n >= call {
					return fmt.Errorf("%w: the disk is away", store.ErrUnavailable)
				}
				return nil
			}
		}
	}
	for _, c := range []struct {
		name, body string
		world      func(w *world, o *Options)
		want       string
		codes      string
		code       string // of the problem
		retryAfter string
		ids        string
	}{
		{name: "all accepted", body: line("1"), want: "200: 1 accepted, 0 duplicates, 0 rejected", ids: "1"},
		{
			name: "all duplicates", body: line("old") + "\n" + line("old"), want: "200: 0 accepted, 2 duplicates, 0 rejected", ids: "old",
			world: func(w *world, _ *Options) {
				w.log.events = []store.NewEvent{{Scope: "s", Event: engine.Event{ID: "old"}}}
			},
		},
		{name: "all rejections are final", body: line("1") + "\n{}\n", want: "422: 1 accepted, 0 duplicates, 1 rejected", codes: "2:missingField", code: "linesRejected", ids: "1"},
		{name: "a lane is full", body: line("1") + "\n" + full("lane", "n", "2") + "{}\n", want: "429: 1 accepted, 0 duplicates, 2 rejected", codes: "2:outboxFull 3:missingField", code: "linesRejected", retryAfter: "1", ids: "1"},
		{name: "a window is full: consequences still go in", body: full("window", "n", "1") + full("window", "other", "2"), want: "429: 1 accepted, 0 duplicates, 1 rejected", codes: "1:windowFull", code: "linesRejected", retryAfter: "1", ids: "2"},
		{name: "a refused id is no first copy", body: full("window", "n", "1") + full("window", "n", "1"), want: "429: 0 accepted, 0 duplicates, 2 rejected", codes: "1:windowFull 2:windowFull", code: "linesRejected", retryAfter: "1"},
		{
			name: "a duplicate is one even where nothing new goes in", body: full("lane", "n", "old"), want: "200: 0 accepted, 1 duplicates, 0 rejected", ids: "old",
			world: func(w *world, _ *Options) {
				w.log.events = []store.NewEvent{{Scope: "lane", Event: engine.Event{ID: "old"}}}
			},
		},
		{name: "the store is down from the start", body: line("1") + "\n{}\n" + line("2"), world: down(1), want: "503: 0 accepted, 0 duplicates, 2 rejected", codes: "1:storeUnavailable 2:missingField", code: "storeUnavailable", retryAfter: "5"},
		{name: "the store goes down in the middle", body: line("1") + "\n" + line("2") + "\n{}\n" + line("3") + "\n" + line("4"), world: down(2), want: "503: 2 accepted, 0 duplicates, 2 rejected", codes: "3:missingField 4:storeUnavailable", code: "storeUnavailable", retryAfter: "5", ids: "1 2"},
		{name: "a copy in the group that is lost is lost too", body: line("1") + "\n" + line("1"), world: down(1), want: "503: 0 accepted, 0 duplicates, 2 rejected", codes: "1:storeUnavailable 2:storeUnavailable", code: "storeUnavailable", retryAfter: "5"},
		{name: "a duplicate of what was committed before is not lost", body: line("1") + "\n" + line("2") + "\n" + line("1") + "\n" + line("3"), world: down(2), want: "503: 2 accepted, 1 duplicates, 1 rejected", codes: "4:storeUnavailable", code: "storeUnavailable", retryAfter: "5", ids: "1 2"},
		{
			name: "scopes that the caller may not write to", body: line("1") + "\n" + full("secret", "n", "2"), want: "422: 1 accepted, 0 duplicates, 1 rejected", codes: "2:forbiddenScope", code: "linesRejected", ids: "1",
			world: func(_ *world, o *Options) {
				o.Allows = func(_ context.Context, scope string) bool { return scope == "s" }
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(w *world, o *Options) {
				w.owner.refuse = refuse
				if c.world != nil {
					c.world(w, o)
				}
			})
			got := w.send(t, c.body)
			if got.counts() != c.want || codes(got.Body.Errors) != c.codes || got.Body.Code != c.code {
				t.Errorf("got  %s; %s; %s\nwant %s; %s; %s", got.counts(), codes(got.Body.Errors), got.Body.Code, c.want, c.codes, c.code)
			}
			if after := got.Header.Get("Retry-After"); after != c.retryAfter {
				t.Errorf("Retry-After %q, want %q", after, c.retryAfter)
			}
			for _, e := range got.Body.Errors {
				later := e.Code == CodeOutboxFull || e.Code == CodeWindowFull || e.Code == CodeStoreUnavailable
				if e.Retryable != later {
					t.Errorf("line %d: %s is retryable: %v", e.Line, e.Code, e.Retryable)
				}
			}
			if have := ids(w.log.all()); have != c.ids {
				t.Errorf("the log holds %q, want %q", have, c.ids)
			}
		})
	}
}

func TestServe_TheAnswerWordForWord(t *testing.T) {
	for _, c := range []struct{ name, body, contentType, want string }{
		{"all well", line("1"), typeJSON, `{"accepted":1,"duplicates":0,"rejected":0,"errors":[]}`},
		{"an empty body", "", typeJSON, `{"accepted":0,"duplicates":0,"rejected":0,"errors":[],"note":"the body held no events"}`},
		{
			"a rejection", `{"scope":"s","name":""}`, "application/problem+json",
			`{"type":"about:blank","title":"Unprocessable Entity","detail":"1 of 1 lines were rejected: mend them before sending them again","code":"linesRejected","status":422,` +
				`"accepted":0,"duplicates":0,"rejected":1,"errors":[{"line":1,"code":"emptyField","error":"column 21: field \"name\" is empty: give 1 to 256 bytes","retryable":false}]}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/v1/ingest", strings.NewReader(c.body))
			r.Header.Set("Content-Type", typeLines)
			newWorld(t).ServeHTTP(rec, r)
			if diff := cmp.Diff(c.want+"\n", rec.Body.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := rec.Header().Get("Content-Type"); got != c.contentType {
				t.Errorf("Content-Type %q, want %q", got, c.contentType)
			}
		})
	}
}

func TestServe_TheFirstHundredErrors(t *testing.T) {
	w := newWorld(t, func(_ *world, o *Options) { o.Limits.GroupLines = 7 })
	got := w.send(t, strings.Repeat("{}\n\n", 150))
	if got.counts() != "422: 0 accepted, 0 duplicates, 150 rejected" || len(got.Body.Errors) != 100 {
		t.Fatalf("%s, %d errors", got.counts(), len(got.Body.Errors))
	}
	for i, e := range got.Body.Errors {
		if e.Line != 2*i+1 {
			t.Fatalf("error %d is of line %d", i, e.Line)
		}
	}
}

func TestServe_TheFirstHundredErrorsOfALostGroup(t *testing.T) {
	w := newWorld(t, func(w *world, _ *Options) {
		w.log.before = func(int, *store.Entry) error { return store.ErrClosed }
	})
	var b strings.Builder
	for i := range 200 {
		fmt.Fprintf(&b, "{}\n%s\n", line(fmt.Sprint(i%150)))
	}
	got := w.send(t, b.String())
	if got.counts() != "503: 0 accepted, 0 duplicates, 400 rejected" || len(got.Body.Errors) != 100 {
		t.Fatalf("%s, %d errors", got.counts(), len(got.Body.Errors))
	}
	for i, e := range got.Body.Errors {
		if e.Line != i+1 || (e.Code == CodeStoreUnavailable) != (e.Line%2 == 0) {
			t.Fatalf("error %d is of line %d: %s", i, e.Line, e.Code)
		}
	}
}

func TestServe_AReceiptThatFailed(t *testing.T) {
	w := newWorld(t)
	h, err := New(Options{Log: refusing{}, Owner: w.owner})
	if err != nil {
		t.Fatal(err)
	}
	w.Handler = h
	if got := w.send(t, line("1")); got.counts() != "503: 0 accepted, 0 duplicates, 1 rejected" {
		t.Error(got)
	}
}

type refusing struct{ store.Log }

func (refusing) Append(context.Context, ...store.Entry) ([]store.Receipt, error) {
	return []store.Receipt{{Err: store.ErrUnavailable}}, nil
}

// The owner does not always know at once; then the fold tells afterwards.
func TestServe_DuplicatesThatOnlyTheFoldKnows(t *testing.T) {
	w := newWorld(t, func(w *world, o *Options) {
		w.owner.blind = true
		o.Limits.GroupLines = 2
	})
	got := w.send(t, line("1")+"\n"+line("2")+"\n"+line("1")+"\n"+line("3")+"\n"+line("3"))
	if got.counts() != "200: 3 accepted, 2 duplicates, 0 rejected" {
		t.Error(got)
	}
}

func TestServe_CommittedEventsCountEvenIfTheFoldIsSilent(t *testing.T) {
	w := newWorld(t, func(w *world, _ *Options) { w.owner.broken = errors.New("gone") })
	if got := w.send(t, line("1")); got.counts() != "200: 1 accepted, 0 duplicates, 0 rejected" {
		t.Error(got)
	}
	if !strings.Contains(w.out.String(), "duplicates among committed events are not known") {
		t.Errorf("logged: %s", w.out)
	}
}

// Where a scope may forget within a group, only the fold can tell what is a
// copy: nothing is kept from the log.
func TestServe_CopiesInAGroupWhereTheScopeForgets(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(s *engine.Settings)
		log    string
	}{
		{"it remembers", func(*engine.Settings) {}, "1 2"},
		{"for no time", func(s *engine.Settings) { s.DedupMs = 0 }, "1 2 1"},
		{"fewer ids than a group holds", func(s *engine.Settings) { s.DedupIDs = 1999 }, "1 2 1"},
		{"just a group", func(s *engine.Settings) { s.DedupIDs = 2000 }, "1 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, func(w *world, _ *Options) {
				w.owner.policy = testPolicy(t, func(p *engine.Policy) { c.change(&p.Default) })
			})
			got := w.send(t, line("1")+"\n"+line("2")+"\n"+line("1"))
			if got.counts() != "200: 2 accepted, 1 duplicates, 0 rejected" {
				t.Error(got)
			}
			if have := ids(w.log.all()); have != c.log {
				t.Errorf("the log holds %q, want %q", have, c.log)
			}
		})
	}
}

func TestServe_GroupsByLinesAndBytes(t *testing.T) {
	var b strings.Builder
	for i := range 4500 {
		fmt.Fprintln(&b, line(fmt.Sprint(i)))
	}
	w := newWorld(t)
	w.send(t, b.String())
	if diff := cmp.Diff([]int{2000, 2000, 500}, w.log.sizes()); diff != "" {
		t.Errorf("by lines (-want +got):\n%s", diff)
	}

	b.Reset()
	for i := range 5 {
		fmt.Fprintf(&b, `{"scope":"s","name":"n","id":"%d","text":"%s"}`+"\n", i, strings.Repeat("x", 100<<10))
	}
	w = newWorld(t)
	w.send(t, b.String())
	if diff := cmp.Diff([]int{3, 2}, w.log.sizes()); diff != "" {
		t.Errorf("by bytes (-want +got):\n%s", diff)
	}
}

func TestServe_APolicyThatChangesBetweenGroups(t *testing.T) {
	w := newWorld(t, func(w *world, o *Options) {
		o.Limits.GroupLines = 1
		w.log.before = func(call int, _ *store.Entry) error {
			if call == 1 {
				w.owner.policy = testPolicy(t, func(p *engine.Policy) { p.Number, p.Kinds = 8, map[string]engine.Kind{"*": engine.Context} })
			}
			return nil
		}
	})
	w.send(t, line("1")+"\n"+line("2"))
	got := w.log.all()
	if got[0].Policy != 7 || got[0].Kind != engine.Passive || got[1].Policy != 8 || got[1].Kind != engine.Context {
		t.Errorf("got %+v", got)
	}
}
