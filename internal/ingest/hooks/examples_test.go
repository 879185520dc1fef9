package hooks_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"attend/examples"
	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/ingest/hooks"
)

// vendor is a hook of the examples, at some time, and what it brings.
type vendor struct {
	t      *testing.T
	hook   config.InHook
	serve  *hooks.Service
	events []hooks.Event
}

// example loads a file of the examples as an attend.yaml.
func example(t *testing.T, name, secret string, now int64) *vendor {
	t.Helper()
	b, err := examples.Files.ReadFile("hooks/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "attend.yaml")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	variable := map[string]string{"slack": "SLACK_SIGNING_SECRET", "pagerduty": "PAGERDUTY_SECRET", "stripe": "STRIPE_WEBHOOK_SECRET"}[name]
	c, err := config.Load(nil, []string{"ATTEND_CONFIG=" + file, variable + "=" + secret})
	if err != nil {
		t.Fatal(err)
	}
	v := &vendor{t: t, hook: c.Hooks[0]}
	v.serve, err = hooks.New(hooks.Options{
		Hooks: []hooks.Hook{{
			Name: v.hook.Name, Type: v.hook.Type, Secrets: [][]byte{[]byte(v.hook.Secrets[0].Reveal())}, Scheme: v.hook.Signature, Event: v.hook.Event,
		}},
		Push: func(_ context.Context, events []hooks.Event) (hooks.Pushed, error) {
			v.events = append(v.events, events...)
			return hooks.Pushed{Accepted: len(events)}, nil
		},
		Now: func() time.Time { return time.Unix(now, 0) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func (v *vendor) post(status int, body string, headers ...string) string {
	v.t.Helper()
	r := httptest.NewRequest(http.MethodPost, hooks.Path+v.hook.Name, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	v.serve.ServeHTTP(w, r)
	if w.Code != status {
		v.t.Errorf("status %d, want %d: %s", w.Code, status, w.Body)
	}
	return w.Body.String()
}

func (v *vendor) want(want hooks.Event) {
	v.t.Helper()
	if diff := cmp.Diff([]hooks.Event{want}, v.events, cmpopts.IgnoreUnexported(hooks.Event{})); diff != "" {
		v.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// macOf is an HMAC in hex of our own making.
func macOf(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

func at(seconds int64) *engine.Time {
	t := engine.Time(seconds * 1000)
	return &t
}

// The vector of Slack's documentation ("Verifying requests from Slack"). Its body
// is a slash command, for which this mapping is not made: that it fails there
// shows that the signature was taken.
func TestExamples_SlackDocumentedSignature(t *testing.T) {
	const body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar" +
		"&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=" +
		"&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN" +
		"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	const secret, signature, stamp = "8f742231b10e8888abcd99yyyzzz85a5", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503", int64(1531420618)
	headers := []string{"X-Slack-Signature", signature, "X-Slack-Request-Timestamp", strconv.FormatInt(stamp, 10), "Content-Type", "application/x-www-form-urlencoded"}
	v := example(t, "slack", secret, stamp+299)
	if answer := v.post(422, body, headers...); !strings.Contains(answer, "mappingFailed") {
		t.Errorf("answer %s", answer)
	}
	v.post(401, body+"x", headers...)
	example(t, "slack", secret, stamp+301).post(401, body, headers...)
	example(t, "slack", secret+"x", stamp).post(401, body, headers...)
	headers[3] = strconv.FormatInt(stamp+1, 10)
	v.post(401, body, headers...)
}

func TestExamples_Slack(t *testing.T) {
	const secret, now = "8f742231b10e8888abcd99yyyzzz85a5", int64(1790000000)
	v := example(t, "slack", secret, now)
	post := func(status int, body string) string {
		t.Helper()
		return v.post(status, body, "X-Slack-Request-Timestamp", "1790000000", "X-Slack-Signature", "v0="+macOf(secret, "v0:1790000000:"+body))
	}
	if got := post(200, `{"token":"x","challenge":"3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P","type":"url_verification"}`); got != "3eZbrw1aBm2rZgRNFdxV2595E9CY3gmdALWMmHkvFXO7tYXAYM8P" {
		t.Errorf("the challenge is answered with %q", got)
	}
	post(200, `{"type":"event_callback","team_id":"T1","event_id":"Ev1","event_time":1789999999,"event":{"type":"app_mention","channel":"C1","text":"<@U1> help"}}`)
	v.want(hooks.Event{
		Scope: "slack:C1", Name: "slack.app_mention", ID: "Ev1", At: at(1789999999), Text: "<@U1> help",
		Data: []byte(`{"channel":"C1","text":"<@U1> help","type":"app_mention"}`),
	})
}

// Events that have no channel, or have it elsewhere: none of them is lost.
func TestExamples_SlackScopes(t *testing.T) {
	const secret, now = "8f742231b10e8888abcd99yyyzzz85a5", int64(1790000000)
	for body, want := range map[string]hooks.Event{
		`{"type":"event_callback","team_id":"T1","event_id":"Ev1","event_time":1789999999,"event":{"type":"channel_created","channel":{"id":"C2","name":"fun"}}}`:                  {Scope: "slack:C2", Name: "slack.channel_created", ID: "Ev1"},
		`{"type":"event_callback","team_id":"T1","event_id":"Ev1","event_time":1789999999,"event":{"type":"channel_rename","channel":{"id":"C3","name":"new"}}}`:                   {Scope: "slack:C3", Name: "slack.channel_rename", ID: "Ev1"},
		`{"type":"event_callback","team_id":"T1","event_id":"Ev1","event_time":1789999999,"event":{"type":"reaction_added","user":"U1","item":{"type":"message","channel":"C4"}}}`: {Scope: "slack:C4", Name: "slack.reaction_added", ID: "Ev1"},
		`{"type":"event_callback","team_id":"T1","event_id":"Ev1","event_time":1789999999,"event":{"type":"file_shared","channel_id":"C5","file_id":"F1"}}`:                        {Scope: "slack:C5", Name: "slack.file_shared", ID: "Ev1"},
		`{"type":"event_callback","team_id":"T1","event_id":"Ev1","event_time":1789999999,"event":{"type":"team_join","user":{"id":"U1"}}}`:                                        {Scope: "slack:T1", Name: "slack.team_join", ID: "Ev1"},
		`{"type":"event_callback","team_id":"T1","event_id":"Ev1","event_time":1789999999,"event":{"type":"message","channel":"C6","bot_id":"B1","text":"done"}}`:                  {Scope: "slack:C6", Name: "slack.message.bot", ID: "Ev1", Text: "done"},
		`{"type":"app_rate_limited","token":"Jhj5dZrVaK7ZwHHjRyZWjbDl","team_id":"T1","minute_rate_limited":1789999999,"api_app_id":"A1"}`:                                         {Scope: "slack:T1", Name: "slack.app_rate_limited", ID: "1789999999"},
	} {
		v := example(t, "slack", secret, now)
		v.post(200, body, "X-Slack-Request-Timestamp", "1790000000", "X-Slack-Signature", "v0="+macOf(secret, "v0:1790000000:"+body))
		if len(v.events) != 1 || strings.Contains(string(v.events[0].Data), "Jhj5") {
			t.Fatalf("%s: events %+v", body, v.events)
		}
		want.At, want.Data = at(1789999999), v.events[0].Data
		v.want(want)
	}
}

func TestExamples_PagerDuty(t *testing.T) {
	const secret = "a-secret-of-a-subscription-of-pagerduty"
	const body = `{"event":{"id":"01BZ","event_type":"incident.triggered","occurred_at":"2026-09-21T14:13:20Z","data":{"title":"disk full","service":{"id":"P9"}}}}`
	v := example(t, "pagerduty", secret, 0)
	v.post(401, body, "X-PagerDuty-Signature", "v1="+strings.Repeat("0", 64))
	v.post(401, body, "X-PagerDuty-Signature", "v0="+macOf(secret, body))
	v.post(200, body, "X-PagerDuty-Signature", "v1="+macOf("the one before", body)+",v1="+macOf(secret, body))
	v.want(hooks.Event{
		Scope: "pagerduty:P9", Name: "pagerduty.incident.triggered", ID: "01BZ", At: at(1790000000), Text: "incident.triggered: disk full",
		Data: []byte(`{"data":{"service":{"id":"P9"},"title":"disk full"},"event_type":"incident.triggered","id":"01BZ","occurred_at":"2026-09-21T14:13:20Z"}`),
	})
}

func TestExamples_PagerDutyPing(t *testing.T) {
	const secret = "a-secret-of-a-subscription-of-pagerduty"
	const body = `{"event":{"id":"01CF","event_type":"pagey.ping","resource_type":"pagey","occurred_at":"2026-09-21T14:13:20Z","agent":null,"client":null,"data":{"message":"Hello from your friend Pagey!","type":"ping"}}}`
	v := example(t, "pagerduty", secret, 0)
	v.post(200, body, "X-PagerDuty-Signature", "v1="+macOf(secret, body))
	if len(v.events) != 1 || v.events[0].Scope != "pagerduty:all" || v.events[0].Name != "pagerduty.pagey.ping" {
		t.Errorf("events %+v", v.events)
	}
}

func TestExamples_Stripe(t *testing.T) {
	const secret = "whsec_a-secret-of-an-endpoint"
	const body = `{"id":"evt_1","object":"event","type":"charge.failed","created":1789999990,"data":{"object":{"amount":100}}}`
	sign := func(stamp, body string) string {
		return "t=" + stamp + ",v1=" + macOf(secret, stamp+"."+body) + ",v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39"
	}
	v := example(t, "stripe", secret, 1790000000)
	v.post(401, body, "Stripe-Signature", sign("1789999699", body)) // 301 s ago
	v.post(401, body, "Stripe-Signature", sign("1790000301", body))
	v.post(401, body, "Stripe-Signature", "t=1790000000,"+sign("1789990000", body)) // a stamp that is not signed
	v.post(401, body, "Stripe-Signature", strings.ReplaceAll(sign("1790000000", body), "v1=", "v0="))
	v.post(200, body, "Stripe-Signature", sign("1789999701", body))
	v.want(hooks.Event{Scope: "stripe:own", Name: "stripe.charge.failed", ID: "evt_1", At: at(1789999990), Data: []byte(`{"amount":100}`)})
}
