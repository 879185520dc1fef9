package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"attend/internal/ingest/hooks"
)

func TestHooks_EveryOption(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, DefaultFile, `kinds: {a: flush}
hooks:
- {name: gh, type: github, secretEnv: [NEW, OLD], scope: "r:{repository.name}"}
- {name: am, type: alertmanager, basic: {user: am, passwordEnv: NEW}}
- {name: bus, type: cloudevents, bearerEnv: OLD}
- {name: std, type: standardwebhooks, secretEnv: STD, toleranceMs: 1000, event: {text: body.text}}
- name: any
  type: generic
  secretEnv: NEW
  signature: {header: X-Sig, prefix: "v1=", algorithm: sha512, encoding: base64, signed: "{id}{timestamp}{body}", timestampHeader: X-At, timestampPrefix: "t=", idHeader: X-Id}
  event: {scope: '"a"', name: body.type, id: body.id, at: body.at, text: body.text, data: body.data, challenge: body.challenge}
`)
	c, err := Load(nil, []string{"NEW=the-new-secret-of-hooks\n", "OLD=the-old-secret-of-hooks", "STD=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"})
	if err != nil {
		t.Fatal(err)
	}
	want := []InHook{
		{Name: "gh", Type: hooks.GitHub, Secrets: []Secret{"the-new-secret-of-hooks", "the-old-secret-of-hooks"}, Scope: "r:{repository.name}"},
		{Name: "am", Type: hooks.Alertmanager, User: "am", Passwords: []Secret{"the-new-secret-of-hooks"}},
		{Name: "bus", Type: hooks.CloudEvents, Bearer: []Secret{"the-old-secret-of-hooks"}},
		{
			Name: "std", Type: hooks.StandardWebhooks, Secrets: []Secret{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}, Tolerance: time.Second,
			Event: hooks.Mapping{Text: "body.text"},
		},
		{
			Name: "any", Type: hooks.Generic, Secrets: []Secret{"the-new-secret-of-hooks"},
			Signature: hooks.Signature{
				Header: "X-Sig", Prefix: "v1=", Algorithm: "sha512", Encoding: "base64", Signed: "{id}{timestamp}{body}",
				TimestampHeader: "X-At", TimestampPrefix: "t=", IDHeader: "X-Id",
			},
			Event: hooks.Mapping{
				Scope: `"a"`, Name: "body.type", ID: "body.id", At: "body.at", Text: "body.text", Data: "body.data", Challenge: "body.challenge",
			},
		},
	}
	if diff := cmp.Diff(want, c.Hooks, cmpopts.IgnoreFields(InHook{}, "Place")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(c.Warnings) != 3 || c.Warnings[0].Code != WarnSharedSecret { // the hooks of this test have two secrets for four of them
		t.Errorf("warnings %v", c.Warnings)
	}
	if shown := fmt.Sprintf("%v %+v %#v", c.Hooks, c.Hooks, c.Hooks); strings.Contains(shown, "-secret-of-hooks") || strings.Contains(shown, "MfKQ9r8") {
		t.Errorf("a secret is shown: %s", shown)
	}
	var scopes []string
	for i := range c.Hooks {
		r := reportHook(&c.Hooks[i])
		scopes = append(scopes, r.Path+" "+r.Scope)
	}
	if diff := cmp.Diff([]string{
		"/v1/hooks/gh r:{repository.name}", "/v1/hooks/am alerts:{groupKey}", "/v1/hooks/bus {source}", "/v1/hooks/std standardwebhooks:std", `/v1/hooks/any "a"`,
	}, scopes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
