package hooks

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// standard posts a message as Standard Webhooks has it.
func (w *world) standard(key []byte, id string, offset time.Duration, body string) sent {
	w.t.Helper()
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp(offset) + "." + body))
	return w.post("std", body, "Content-Type", "application/json", "Webhook-Id", id, "Webhook-Timestamp", stamp(offset),
		"Webhook-Signature", "v1a,AAAA v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// The vector of the specification's reference implementations.
func TestStandard_DocumentedSignature(t *testing.T) {
	key, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, Hook{Name: "std", Type: StandardWebhooks, Secrets: [][]byte{key}})
	w.now = time.Unix(1614265330, 0)
	const body, signature = `{"test": 2432232314}`, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	headers := []string{"Content-Type", "application/json", "Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp", "1614265330", "Webhook-Signature", signature}
	w.post("std", body, headers...).want(t, 200, "")
	w.post("std", body+" ", headers...).want(t, 401, "unauthorized")
}

func TestStandard_EventsAndTheirTimes(t *testing.T) {
	old, key := []byte("the key before: 24 bytes…"), []byte("the key of now: 24 bytes…")
	w := newWorld(t, Hook{Name: "std", Type: StandardWebhooks, Secrets: [][]byte{old, key}, Tolerance: time.Minute})
	for offset, status := range map[time.Duration]int{
		-61 * time.Second: 401, -60 * time.Second: 200, 60 * time.Second: 200, 61 * time.Second: 401, -1000 * time.Hour: 401,
	} {
		code := ""
		if status == 401 {
			code = "unauthorized"
		}
		w.standard(key, "m"+offset.String(), offset, `{}`).want(t, status, code)
	}
	w.taken = nil
	w.standard([]byte("a key of somebody else's…"), "m1", 0, `{}`).want(t, 401, "unauthorized")
	w.standard(old, "m1", 0, `{"type":"invoice.paid","timestamp":"2026-09-21T14:13:20.5Z","data":{"n":1}}`).want(t, 200, "")
	w.standard(key, "m1", time.Second, `{"type":"invoice.paid"}`).want(t, 200, "")
	w.standard(key, "m2", 0, `[1, 2]`).want(t, 200, "")
	at := engine.Time(atTest*1000 + 500)
	want := []Event{
		{Scope: "standardwebhooks:std", Name: "invoice.paid", ID: "m1", At: &at, Data: []byte(`{"type":"invoice.paid","timestamp":"2026-09-21T14:13:20.5Z","data":{"n":1}}`)},
		{Scope: "standardwebhooks:std", Name: "webhook", ID: "m2", Data: []byte(`[1, 2]`)},
	}
	if diff := cmp.Diff(want, w.taken, cmp.AllowUnexported(Event{})); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestStandard_AMapping(t *testing.T) {
	key := []byte("the key of now: 24 bytes…")
	w := newWorld(t, Hook{Name: "std", Type: StandardWebhooks, Secrets: [][]byte{key}, Event: Mapping{
		Scope: `"shop:" + body.data.shop`, Text: "body.data.note", Data: "body.data", At: "null",
	}})
	w.standard(key, "m1", 0, `{"type":"t","timestamp":"2026-09-21T14:13:20Z","data":{"shop":"s","note":"<b>"}}`).want(t, 200, "")
	w.standard(key, "m2", 0, `{"type":"t","data":{}}`).want(t, 422, "mappingFailed")
	want := []Event{{Scope: "shop:s", Name: "t", ID: "m1", Data: []byte(`{"note":"<b>","shop":"s"}`), Text: "<b>"}}
	if diff := cmp.Diff(want, w.taken, cmp.AllowUnexported(Event{})); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestParseSecret(t *testing.T) {
	for text, want := range map[string]string{
		"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw":       "must be whsec_",
		"whsec_!!!":                              "must be whsec_",
		"whsec_":                                 "has 0 bytes",
		"whsec_AAAA":                             "has 3 bytes",
		"whsec_" + strings.Repeat("A", 88):       "has 66 bytes",
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS":  "must be whsec_",
		"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw": "",
	} {
		_, err := ParseSecret(text)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "MfKQ")) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
