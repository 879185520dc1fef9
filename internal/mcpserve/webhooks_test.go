package mcpserve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"attend/internal/engine"
)

// A decision is posted, signed, with the cursor before it; the next one with the
// cursor behind it.
func TestWebhook_Delivers(t *testing.T) {
	r := newReceiver(t)
	d := newWebhookDaemon(t, r, settings{})
	got := d.subscribe(r.URL+"/hook?x=1", secretA, "")
	id, _ := got["id"].(string)
	until, err := time.Parse(time.RFC3339, fmt.Sprint(got["refreshBefore"]))
	if !strings.HasPrefix(id, "sub_") || got["truncated"] != false || got["resultType"] != "complete" || got["deliveryStatus"] != nil ||
		err != nil || time.Until(until) < 59*time.Minute || time.Until(until) > time.Hour {
		t.Errorf("the result is %v", got)
	}
	if asked := r.controls("verification"); len(asked) != 1 || asked[0].signedWith(secretA) != 0 || asked[0].subscription != id || !strings.HasPrefix(asked[0].id, "msg_verification_") {
		t.Errorf("the challenge was %+v", asked)
	}
	d.decide("a", engine.Queue, nil)
	d.decide("a", engine.Skip, nil) // not asked for
	eventually(t, "the first decision", func() bool { return len(r.events()) == 1 })
	first := r.events()[0]
	if first.signedWith(secretA) != 0 || first.subscription != id || first.body["cursor"] != got["cursor"] ||
		first.id != "d1" || first.body["eventId"] != "d1" || first.body["name"] != "attention.decision" {
		t.Errorf("the delivery is %+v; the cursor at first %v", first, got["cursor"])
	}
	if strings.Contains(string(first.raw), "sauce") {
		t.Error("the data of an event crossed MCP")
	}
	eventually(t, "the watermark moves", func() bool {
		return d.subscribe(r.URL+"/hook?x=1", secretA, "")["cursor"] != got["cursor"]
	})
	d.decide("b", engine.Interrupt, nil)
	eventually(t, "the second decision", func() bool { return len(r.events()) == 2 })
	second := r.events()[1]
	poll := d.as("ana", modern, "events/poll", fmt.Sprintf(`"name":"attention.decision","cursor":%q`, second.body["cursor"]))
	events, _ := poll.msg.Result["events"].([]any)
	if len(events) != 1 || second.id != "d3" || len(r.controls("verification")) != 1 {
		t.Errorf("after the watermark of %s there are %s", second.id, poll.body)
	}
}

func TestWebhook_ListedForThoseWhoMay(t *testing.T) {
	r := newReceiver(t)
	d := newWebhookDaemon(t, r, settings{})
	for name, want := range map[string]string{"ana": "[poll push webhook]", "": "[poll push]"} { //arch:sorted each by itself
		for _, era := range []string{legacy, modern} {
			events, _ := d.as(name, era, "events/list", "").msg.Result["events"].([]any)
			if len(events) == 0 {
				t.Fatal("no event types")
			}
			for _, e := range events {
				if got := fmt.Sprint(e.(map[string]any)["delivery"]); got != want {
					t.Errorf("%s %q: %s, want %s", era, name, got, want)
				}
			}
		}
	}
}

func TestWebhook_Errors(t *testing.T) {
	r := newReceiver(t)
	r.challenge = func(string) string { return "something else" }
	d := newWebhookDaemon(t, r, settings{})
	url := r.URL + "/hook"
	d.known.of["cy"] = Caller{Name: "cy", May: func(right, scope string) bool { return right == RightRead && scope != "a" }}
	d.known.of["di"] = Caller{Name: "di", May: func(string, string) bool { return false }}
	delivery := func(s string) string { return `"name":"attention.decision","delivery":` + s }
	good := fmt.Sprintf(`{"url":%q,"secret":%q}`, url, secretA)
	for _, c := range []struct {
		who, method, params string
		code                int64
		member              string
		want                any
	}{
		{"", "events/subscribe", subscribing(url, secretA, ""), -32024, "reason", "principal"},
		{"", "events/unsubscribe", subscribing(url, secretA, ""), -32024, "reason", "principal"},
		{"di", "events/subscribe", subscribing(url, secretA, ""), -32024, "reason", "right"},
		{"cy", "events/subscribe", subscribing(url, secretA, `,"arguments":{"scope":"a"}`), -32024, "reason", "scope"},
		{"ana", "events/subscribe", `"name":"nope","delivery":` + good, -32023, "kind", "event"},
		{"ana", "events/subscribe", `"name":"attention.decision"`, -32602, "path", "/delivery"},
		{"ana", "events/subscribe", delivery(`{}`), -32602, "path", "/delivery/url"},
		{"ana", "events/subscribe", delivery(`{"url":7,"secret":"s"}`), -32602, "path", "/delivery/url"},
		{"ana", "events/subscribe", delivery(fmt.Sprintf(`{"url":%q,"secret":"whsec_AAAA"}`, url)), -32602, "path", "/delivery/secret"},
		{"ana", "events/subscribe", delivery(fmt.Sprintf(`{"url":"http://x.example/","secret":%q}`, secretA)), -32602, "path", "/delivery/url"},
		{"ana", "events/subscribe", delivery(fmt.Sprintf(`{"mode":"email","url":%q,"secret":%q}`, url, secretA)), -32026, "value", "email"},
		{"ana", "events/subscribe", subscribing(url, secretA, `,"arguments":{"colour":1}`), -32602, "path", "/arguments/colour"},
		{"ana", "events/subscribe", subscribing(url, secretA, `,"cursor":"zz"`), -32602, "path", "/cursor"},
		{"ana", "events/subscribe", subscribing(url, secretA, `,"cursor":""`), -32602, "path", "/cursor"},
		{"ana", "events/subscribe", subscribing(url, secretA, `,"ttlMs":0`), -32602, "path", "/ttlMs"},
		{"ana", "events/subscribe", subscribing(url, secretA, `,"ttlMs":1.5`), -32602, "path", "/ttlMs"},
		{"ana", "events/subscribe", subscribing("https://10.1.2.3/hook", secretA, ""), -32602, "reason", "address_not_allowed"},
		{"ana", "events/subscribe", subscribing("https://[::ffff:169.254.169.254]/", secretA, ""), -32602, "reason", "address_not_allowed"},
		{"ana", "events/subscribe", subscribing("https://2130706433/", secretA, ""), -32602, "reason", "address_not_allowed"},
		{"ana", "events/subscribe", subscribing(url, secretA, ""), -32027, "reason", "challenge_failed"},
		{"ana", "events/subscribe", subscribing("https://127.0.0.1:1/", secretA, ""), -32027, "reason", "connection_refused"},
		{"ana", "events/unsubscribe", subscribing(url, secretA, ""), -32023, "kind", "subscription"},
	} {
		got := d.as(c.who, modern, c.method, c.params)
		if got.msg.Error == nil || got.msg.Error.Code != c.code || got.msg.Error.Data[c.member] != c.want {
			t.Errorf("%q %s {%s}: %s; want %d with %s %v", c.who, c.method, c.params, got.body, c.code, c.member, c.want)
		}
		if strings.Contains(got.body, "whsec_") || strings.Contains(d.log.String(), secretA[6:]) {
			t.Errorf("%s {%s}: the secret came out", c.method, c.params)
		}
	}
	if len(r.events()) > 0 {
		t.Error("a receiver that did not agree was sent events")
	}
	r.document = `{"receivers":["/hooks/","/hook"]}`
	if got := d.as("ana", modern, "events/subscribe", subscribing(url, secretA, "")); got.msg.Error != nil {
		t.Errorf("the document of its origin was not enough: %s", got.body)
	}
}

// Rights that end, end the subscription, which is said; those of others go on.
func TestWebhook_Revoked(t *testing.T) {
	r := newReceiver(t)
	d := newWebhookDaemon(t, r, settings{})
	revoked := make(chan struct{})
	d.known.of["ana"] = Caller{Name: "ana", Revoked: revoked}
	d.subscribe(r.URL+"/ana", secretA, "")
	if got := d.as("ben", modern, "events/subscribe", subscribing(r.URL+"/ben", secretB, "")); got.msg.Error != nil {
		t.Fatal(got.body)
	}
	d.decide("a", engine.Queue, nil)
	eventually(t, "both have it", func() bool { return len(r.events()) == 2 })
	d.known.mu.Lock()
	delete(d.known.of, "ana")
	d.known.mu.Unlock()
	close(revoked)
	eventually(t, "it is told", func() bool { return len(r.controls("terminated")) == 1 })
	told := r.controls("terminated")[0]
	if why, _ := told.body["error"].(map[string]any); why["code"] != -32024.0 || told.signedWith(secretA) != 0 {
		t.Errorf("told: %s", told.raw)
	}
	d.decide("a", engine.Queue, nil)
	eventually(t, "the other one goes on", func() bool { return len(r.events()) == 3 })
}

// A state that follows another is posted whole.
func TestWebhook_Field(t *testing.T) {
	r := newReceiver(t)
	d := newWebhookDaemon(t, r, withFields())
	got := d.as("ana", modern, "events/subscribe", strings.Replace(subscribing(r.URL, secretA, `,"arguments":{"agent":"a","topic":"x"}`), "attention.decision", "field.attune", 1))
	if got.msg.Error != nil {
		t.Fatal(got.body)
	}
	d.tool(modern, "field_write", `{"agent":"b","entry":{"topic":"x","is":1},"intent":"because it is so"}`)
	eventually(t, "the result", func() bool { return len(r.events()) == 1 })
	first := r.events()[0]
	data, _ := first.body["data"].(map[string]any)
	if entries, _ := data["entries"].([]any); len(entries) != 1 || first.signedWith(secretA) != 0 || first.body["cursor"] != got.msg.Result["cursor"] {
		t.Errorf("posted: %s", first.raw)
	}
}

// A body has at most 256 KiB: events are left out, and counted.
func TestWebhook_LongDecisionIsCut(t *testing.T) {
	r := newReceiver(t)
	d := newWebhookDaemon(t, r, settings{})
	d.subscribe(r.URL, secretA, "")
	d.decide("a", engine.Queue, func(dec *engine.Decision) {
		for i := range 300 {
			dec.Events = append(dec.Events, engine.EventView{ID: fmt.Sprint(i), Name: "x", Kind: engine.Closing, Text: strings.Repeat("<", 1000)})
		}
		dec.Cut = 7
	})
	eventually(t, "the decision", func() bool { return len(r.events()) == 1 })
	data, _ := r.events()[0].body["data"].(map[string]any)
	events, _ := data["events"].([]any)
	if size := len(r.events()[0].raw); size > 256<<10 || len(events) < 20 || data["cut"] != float64(301-len(events)+7) {
		t.Errorf("%d bytes, %d events, cut %v", size, len(events), data["cut"])
	}
}

// A daemon that begins to stop says nothing about its webhooks: that is no
// trouble.
func TestWebhook_StopsQuietly(t *testing.T) {
	r := newReceiver(t)
	d := newWebhookDaemon(t, r, withFields())
	d.subscribe(r.URL+"/log", secretA, "")
	of := strings.Replace(subscribing(r.URL+"/field", secretA, `,"arguments":{"agent":"a"}`), "attention.decision", "field.attune", 1)
	if got := d.as("ana", modern, "events/subscribe", of); got.msg.Error != nil {
		t.Fatal(got.body)
	}
	d.tool(modern, "field_write", `{"agent":"b","entry":{"topic":"x"},"intent":"because it is so"}`)
	d.decide("a", engine.Queue, nil)
	eventually(t, "both have come", func() bool { return len(r.events()) == 2 })
	d.stop()
	d.finish()
	if said := d.log.String(); strings.Contains(said, "level=ERROR") {
		t.Errorf("the log says %s", said)
	}
}
