package hooks

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const gitHubSecret = "It's a Secret to Everybody"

func gitHubHook() Hook { return Hook{Name: "gh", Type: GitHub, Secrets: keys(gitHubSecret)} }

// deliver sends a delivery as GitHub does.
func (w *world) deliver(event, id, body string, headers ...string) sent {
	w.t.Helper()
	return w.post("gh", body, append([]string{
		"Content-Type", "application/json", "X-GitHub-Event", event, "X-GitHub-Delivery", id, "X-Hub-Signature-256", "sha256=" + signed(gitHubSecret, body),
	}, headers...)...)
}

// The vector of GitHub's documentation ("Validating webhook deliveries").
func TestGitHub_DocumentedSignature(t *testing.T) {
	w := newWorld(t, gitHubHook())
	const body, signature = "Hello, World!", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
	w.post("gh", body, "X-GitHub-Event", "ping", "Content-Type", "application/json", "X-Hub-Signature-256", signature).want(t, 200, "")
	w.post("gh", body+"!", "X-GitHub-Event", "ping", "Content-Type", "application/json", "X-Hub-Signature-256", signature).want(t, 401, "unauthorized")
	if len(w.taken) != 0 {
		t.Errorf("a ping is an event: %v", w.taken)
	}
}

func TestGitHub_AnEvent(t *testing.T) {
	w := newWorld(t, gitHubHook())
	const body = ` {"action":"opened", "issue":{"number":7,"title":"It  broke\nagain"},"repository":{"full_name":"octo/shop"},"sender":{"login":"kelp"}}` + "\n"
	want := []Event{{
		Scope: "repo:octo/shop", Name: "github.issues.opened", ID: "d-1", Data: []byte(strings.TrimSpace(body)),
		Text: "kelp opened issue #7 in octo/shop: It broke again",
	}}
	if got := w.deliver("issues", "d-1", body).want(t, 200, "").Body.String(); got != `{"accepted":1,"duplicates":0}`+"\n" {
		t.Errorf("answer %s", got)
	}
	if got := w.deliver("issues", "d-1", body).want(t, 200, "").Body.String(); got != `{"accepted":0,"duplicates":1}`+"\n" {
		t.Errorf("the answer to a redelivery %s", got)
	}
	form := "payload=" + url.QueryEscape(body)
	w.post("gh", form, "Content-Type", "application/x-www-form-urlencoded", "X-GitHub-Event", "issues", "X-GitHub-Delivery", "d-2",
		"X-Hub-Signature-256", "sha256="+signed(gitHubSecret, form)).want(t, 200, "")
	want = append(want, want[0])
	want[1].ID = "d-2"
	if diff := cmp.Diff(want, w.taken, cmp.AllowUnexported(Event{})); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
