package hooks

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

func busHook(scope string) Hook {
	return Hook{Name: "bus", Type: CloudEvents, Bearer: []string{token}, Scope: scope}
}

func (w *world) bus(media, body string, headers ...string) sent {
	w.t.Helper()
	return w.post("bus", body, append(append([]string{"Content-Type", media}, bearer()...), headers...)...)
}

// The three modes say the same; the examples are those of the specification.
func TestCloudEvents_Modes(t *testing.T) {
	const attributes = `"specversion":"1.0","type":"com.example.someevent","source":"/mycontext","id":"A234-1234-1234","time":"2018-04-05T17:31:00Z","subject":"a thing"`
	at := engine.Time(1522949460000)
	want := Event{
		Scope: "/mycontext", Name: "com.example.someevent", ID: "/mycontext A234-1234-1234", At: &at, Data: []byte(`{"a":1}`), Text: "com.example.someevent: a thing",
	}
	for name, send := range map[string]func(w *world) sent{
		"structured": func(w *world) sent {
			return w.bus("application/cloudevents+json; charset=utf-8", `{`+attributes+`,"comexampleextension1":"value","data":{"a":1}}`)
		},
		"batch": func(w *world) sent {
			return w.bus("application/cloudevents-batch+json", `[{`+attributes+`,"data":{"a":1}}]`)
		},
		"base64": func(w *world) sent {
			return w.bus("application/cloudevents+json", `{`+attributes+`,"datacontenttype":"application/json","data_base64":"eyJhIjoxfQ=="}`)
		},
		"binary": func(w *world) sent {
			return w.bus("application/json", `{"a":1}`, "ce-specversion", "1.0", "ce-type", "com.example.someevent", "ce-source", "/mycontext",
				"ce-id", "A234-1234-1234", "ce-time", "2018-04-05T17:31:00Z", "ce-subject", "a%20thing")
		},
	} {
		w := newWorld(t, busHook(""))
		send(w).want(t, 200, "")
		send(w).want(t, 200, "")
		if diff := cmp.Diff([]Event{want}, w.taken, cmp.AllowUnexported(Event{})); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", name, diff)
		}
		if w.count("bus", "duplicate") != 1 {
			t.Errorf("%s: the second is no duplicate", name)
		}
	}
}

// What data may be, and what becomes of it.
func TestCloudEvents_Data(t *testing.T) {
	for _, c := range []struct{ media, body, want string }{
		{"application/json", ` [1, 2] `, ` [1, 2] `},
		{"application/vnd.x+json", `"x"`, `"x"`},
		{"application/json", `{"broken`, `"{\"broken"`},
		{"text/plain", "hi <b>", `"hi <b>"`},
		{"application/xml", "<a/>", `"<a/>"`},
		{"text/plain; charset=latin1", "hi", `{"data_base64":"aGk=","datacontenttype":"text/plain; charset=latin1"}`},
		{"text/plain", "\xff", `{"data_base64":"/w==","datacontenttype":"text/plain"}`},
		{"image/png", "\x89PNG", `{"data_base64":"iVBORw==","datacontenttype":"image/png"}`},
		{"image/png", "", ``},
	} {
		w := newWorld(t, busHook(""))
		w.bus(c.media, c.body, "ce-specversion", "1.0", "ce-type", "t", "ce-source", "/s", "ce-id", "1").want(t, 200, "")
		if got := string(w.taken[0].Data); got != c.want {
			t.Errorf("%s %q: data %s, want %s", c.media, c.body, got, c.want)
		}
	}
}

func TestCloudEvents_Scopes(t *testing.T) {
	const event = `{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":"a\u0007b","data":{"shop":7}}`
	for template, want := range map[string]string{
		"":                 "/s",
		"shop:{data.shop}": "shop:7",
		"{type}/{subject}": "t/a\ufffdb",
		"{none}":           "cloudevents:bus",
		"{{{type}}}":       "{t}",
		"{subject.more}":   "cloudevents:bus",
		strings.Repeat("x", 500) + "{source}{source}{source}{source}{source}{source}{source}": strings.Repeat("x", 479) + "~",
	} {
		w := newWorld(t, busHook(template))
		w.bus(typeCloudEvent, event).want(t, 200, "")
		if got := w.taken[0].Scope; got != want && (len(template) < 500 || len(got) != maxScope || !strings.HasPrefix(got, want)) {
			t.Errorf("%s: scope %q, want %q", template, got, want)
		}
	}
}

// What is no CloudEvent is refused with its place; the others of a batch are
// taken.
func TestCloudEvents_Mistakes(t *testing.T) {
	const good = `{"specversion":"1.0","id":"1","source":"/s","type":"t"}`
	replaced := func(old, now string) string { return strings.Replace(good, old, now, 1) }
	for body, want := range map[string]string{
		replaced(`"id":"1",`, ``):                                 "id is missing",
		replaced(`"id":"1"`, `"id":1`):                            "id is missing, empty or no text",
		replaced(`"/s"`, `""`):                                    "source is missing, empty",
		replaced(`"type"`, `"Type"`):                              "type is missing",
		replaced(`1.0`, `0.3`):                                    "specversion is not 1.0",
		replaced(`"id"`, `"time":"yesterday","id"`):               "time is no RFC 3339 time",
		replaced(`"id"`, `"time":0,"id"`):                         "time is no RFC 3339 time",
		replaced(`"id"`, `"data_base64":"!","id"`):                "data_base64 is no base64",
		replaced(`"id"`, `"data_base64":"AA==","data":null,"id"`): "both data and data_base64",
		`[]`: "is no JSON object",
		`{`:  "is no JSON object",
	} {
		w := newWorld(t, busHook(""))
		if got := w.bus(typeCloudEvent, body).want(t, 422, "eventsRejected"); !strings.Contains(got.Body.String(), want) || len(w.taken) != 0 {
			t.Errorf("%s: %s, want %s", body, got.Body, want)
		}
		got := w.bus(typeCloudEvents, "["+good+","+strings.ReplaceAll(body, "{\x00", "1")+"]")
		if body != "{" && (got.Code != 422 || !strings.Contains(got.Body.String(), `"accepted":1,"duplicates":0,"rejected":1,"errors":[{"event":2,`)) {
			t.Errorf("%s in a batch: %s", body, got.Body)
		}
	}
	w := newWorld(t, busHook(""))
	w.bus(typeCloudEvents, "{}").want(t, 422, "invalidBody")
	w.bus(typeCloudEvents, "[]").want(t, 200, "")
	w.bus("application/cloudevents+avro", "x").want(t, 415, "unsupportedMediaType")
	w.bus("application/json", good).want(t, 415, "unsupportedMediaType")
	w.bus(typeCloudEvents, `[`+good+`,`+replaced(`"t"`, `"`+strings.Repeat("t", 300)+`"`)+`]`).want(t, 422, "eventsRejected")
}

// An id that is too long still tells events apart.
func TestCloudEvents_LongIDs(t *testing.T) {
	w := newWorld(t, busHook("s"))
	for _, end := range []string{"a", "b", "a"} {
		w.bus(typeCloudEvent, `{"specversion":"1.0","id":"`+strings.Repeat("x", 300)+end+`","source":"/s","type":"t"}`).want(t, 200, "")
	}
	if len(w.taken) != 2 || len(w.taken[0].ID) != maxID || w.taken[0].ID == w.taken[1].ID {
		t.Errorf("events %v", w.taken)
	}
}

// The handshake of HTTP 1.1 Web Hooks for Event Delivery, section 4.
func TestCloudEvents_Handshake(t *testing.T) {
	w := newWorld(t, busHook(""), gitHubHook())
	r := httptest.NewRequest(http.MethodOptions, Path+"bus", nil)
	got := w.send(r, "WebHook-Request-Origin", "eventemitter.example.com", "WebHook-Request-Rate", "120").want(t, 200, "").Header()
	if got.Get("WebHook-Allowed-Origin") != "*" || got.Get("WebHook-Allowed-Rate") != "*" || got.Get("Allow") != "POST" {
		t.Errorf("headers %v", got)
	}
	got = w.send(httptest.NewRequest(http.MethodOptions, Path+"bus", nil)).want(t, 200, "").Header()
	if got.Get("WebHook-Allowed-Origin") != "" {
		t.Errorf("permission is given that nobody asked for: %v", got)
	}
	w.send(httptest.NewRequest(http.MethodOptions, Path+"gh", nil), "WebHook-Request-Origin", "x").want(t, 405, "methodNotAllowed")
	if len(w.taken) != 0 {
		t.Error("a handshake is an event")
	}
}

// How attributes come through headers (HTTP binding, 3.1.3.2).
func TestCloudEvents_Headers(t *testing.T) {
	for value, want := range map[string]string{
		`Euro%20%E2%82%AC%20%F0%9F%98%80`: "Euro € 😀",
		`"Euro \"%E2%82%AC\" \\ a"`:       `Euro "€" \ a`,
		`a "b c" d`:                       "a b c d",
		`"%2522"`:                         "%22",
		`50% of 5" is %zz`:                `50% of 5" is %zz`,
		`"open\"`:                         `"open\"`,
		`""`:                              "",
	} {
		w := newWorld(t, busHook("{subject}"))
		w.bus("application/json", `{}`, "ce-specversion", "1.0", "ce-type", "t", "ce-source", "/s", "ce-id", "1", "ce-subject", value).want(t, 200, "")
		if want == "" {
			want = "cloudevents:bus"
		}
		if got := w.taken[0].Scope; got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
	w := newWorld(t, busHook(""))
	got := w.bus("application/json", `{}`, "ce-specversion", "1.0", "ce-type", "t", "ce-source", "/s", "ce-id", "1", "ce-subject", "%ff", "ce-more", "%c3").want(t, 422, "eventsRejected")
	if !strings.Contains(got.Body.String(), "ce-more, ce-subject is not UTF-8") || len(w.taken) != 0 {
		t.Errorf("%s", got.Body)
	}
}

// Source and id name an event together, wherever a blank stands.
func TestCloudEvents_IDsStayApart(t *testing.T) {
	w := newWorld(t, busHook("s"))
	for _, c := range []struct{ source, id string }{{"a", "b c"}, {"a b", "c"}, {"a%20b", "c"}} {
		w.bus(typeCloudEvent, `{"specversion":"1.0","id":"`+c.id+`","source":"`+c.source+`","type":"t"}`).want(t, 200, "")
	}
	if len(w.taken) != 3 {
		t.Errorf("events %v", w.taken)
	}
}

// RFC 3339 has T and Z in small letters, too.
func TestCloudEvents_SmallLettersInTimes(t *testing.T) {
	w := newWorld(t, busHook(""))
	w.bus(typeCloudEvent, `{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"2018-04-05t17:31:00z"}`).want(t, 200, "")
	if at := w.taken[0].At; at == nil || *at != 1522949460000 {
		t.Errorf("the time is %v", at)
	}
}
