package hooks

import (
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever a sender that is known may send, a mapping gives events that hold no
// more than they may, or says what is wrong.
func sound(t *testing.T, w *world, got sent) {
	t.Helper()
	switch got.Code {
	case 200, 415, 422:
	default:
		t.Errorf("status %d: %s", got.Code, got.Body)
	}
	for i := range w.taken {
		e := &w.taken[i]
		switch {
		case len(e.Scope) == 0 || len(e.Scope) > maxScope || !utf8.ValidString(e.Scope) || strings.ContainsAny(e.Scope, "\x00\n\r\x7f"):
			t.Errorf("the scope is %q", e.Scope)
		case len(e.ID) > maxID:
			t.Errorf("the id has %d bytes", len(e.ID))
		case !utf8.ValidString(e.Text) || strings.ContainsAny(e.Text, "\n\r"):
			t.Errorf("the text is %q", e.Text)
		}
	}
}

func FuzzGitHub(f *testing.F) {
	for _, d := range deliveries(f) {
		if len(d.Payload) < 8000 {
			f.Add(d.Event, string(d.Payload))
		}
	}
	f.Add("push", `{"commits":3,"sender":[],"ref":null}`)
	f.Add("issues", "payload=%7B%7D")
	f.Add("\x85ranch", "{}")
	f.Fuzz(func(t *testing.T, event, body string) {
		for _, media := range []string{typeJSON, typeForm} {
			w := newWorld(t, gitHubHook())
			sound(t, w, w.post("gh", body, "Content-Type", media, "X-GitHub-Event", event, "X-Hub-Signature-256", "sha256="+signed(gitHubSecret, body)))
		}
	})
}

func FuzzAlertmanager(f *testing.F) {
	f.Add(notification, "alerts:{groupKey}")
	f.Add(`{"alerts":[{"status":"firing","startsAt":"2026-01-02T03:04:05Z","labels":null}]}`, "{labels.a}")
	f.Add("0", "{\xff}")
	f.Fuzz(func(t *testing.T, body, scope string) {
		scope = strings.ToValidUTF8(scope, "") // as a configuration is
		if _, err := ParseTemplate(scope); err != nil {
			return
		}
		w := newWorld(t, alertsHook(scope))
		sound(t, w, w.notify(body))
	})
}

func FuzzCloudEvents(f *testing.F) {
	f.Add(typeCloudEvent, `{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"2018-04-05T17:31:00Z","data_base64":"eyJ9"}`, "1")
	f.Add(typeCloudEvents, `[{"specversion":"1.0","id":"1","source":"/s","type":"t","data":[]}, 1]`, "")
	f.Add("text/plain", "x", "%ff")
	f.Fuzz(func(t *testing.T, media, body, id string) {
		w := newWorld(t, busHook(""))
		r, err := http.NewRequest(http.MethodPost, Path+"bus", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		sound(t, w, w.send(r, "Authorization", "Bearer "+token, "Content-Type", media, "ce-specversion", "1.0", "ce-id", id, "ce-source", "/s", "ce-type", "t", "ce-subject", id))
	})
}

func FuzzGeneric(f *testing.F) {
	f.Add(typeJSON, `{"scope":"a","name":"b","id":1,"at":"2026-01-02T03:04:05Z"}`)
	f.Add(typeForm, `scope=a&name=b&%zz`)
	f.Fuzz(func(t *testing.T, media, body string) {
		m := simple()
		m.At, m.Data, m.Challenge = "body.?at.orValue(null)", "[body, headers, query]", `body.?challenge.orValue("")`
		w := newWorld(t, mapped(m))
		sound(t, w, w.post("any", body, append(bearer(), "Content-Type", media)...))
	})
}

// A header of signatures never does more than be right or wrong.
func FuzzSignature(f *testing.F) {
	f.Add("t=1790000000,v1=00", "x")
	f.Add("v1=,,t=", "")
	f.Fuzz(func(t *testing.T, header, body string) {
		w := newWorld(t, signing(Signature{Header: "X-Sig", Prefix: "v1=", Signed: "{timestamp}.{body}", TimestampHeader: "X-Sig", TimestampPrefix: "t="}, "a key that nobody guesses"))
		w.post("any", body, "X-Sig", header).want(t, 401, "unauthorized")
		if len(w.taken) != 0 {
			t.Error("an event got in")
		}
	})
}
