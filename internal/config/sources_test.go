package config

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func loadSources(t *testing.T, text string, env ...string) []Source {
	t.Helper()
	t.Chdir(t.TempDir())
	write(t, DefaultFile, "kinds: {a: flush}\n"+text)
	c, err := Load(nil, env)
	if err != nil {
		t.Fatal(err)
	}
	return c.Sources
}

func TestSources_DefaultsAndEveryOption(t *testing.T) {
	got := loadSources(t, `
sources:
- {name: ci, url: "https://ci.example.com/mcp?key=x", tokenEnv: CI, event: repo.activity, scope: repo}
- name: chat
  command: [/bin/chat, --stdio]
  env: {TOKEN: $CHAT, MODE: live}
  event: channel.message
  arguments: {z: 1, a: {y: [true, null, 1.50, "7", 12345678901234567890], b: "yes"}}
  scope: "chat:{arguments.z}:{arguments.a.b}"
  only: ["message.*", x]
  mode: poll
  maxAgeMs: 1000
  maxEvents: 5
  pollMs: 200
  maxBuffered: 7
  idleTimeoutMs: 900
`, "CI=the-token", "CHAT=the-other")
	want := []Source{
		{
			Name: "ci", URL: "https://ci.example.com/mcp?key=x", Token: "the-token", Event: "repo.activity", Mode: "auto",
			Poll: 10 * time.Second, MaxBuffered: 1000, IdleTimeout: 5 * time.Minute,
		},
		{
			Name: "chat", Command: []string{"/bin/chat", "--stdio"}, Variables: []Variable{{"TOKEN", "the-other"}, {"MODE", "live"}},
			Event: "channel.message", Arguments: json.RawMessage(`{"a":{"b":"yes","y":[true,null,1.50,"7",12345678901234567890]},"z":1}`),
			Only: []string{"message.*", "x"}, Mode: "poll", MaxAge: time.Second, MaxEvents: 5, Poll: 200 * time.Millisecond,
			MaxBuffered: 7, IdleTimeout: 900 * time.Millisecond,
		},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Source{}, "Place", "Scope"), cmpopts.IgnoreUnexported(Source{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a, b := got[0].Scope.Fixed(), got[1].Scope.Fixed(); a != "repo" || b != "chat:1:yes" {
		t.Errorf("the scopes are %q and %q", a, b)
	}
	if a, b := got[0].Server(), got[1].Server(); a != "https://ci.example.com/mcp" || b != "chat" {
		t.Errorf("the servers are shown as %q and %q", a, b)
	}
}

func TestScopeTemplate(t *testing.T) {
	const data = `{"a":{"b":"x y","n":12e3,"t":true,"o":{},"e":"","z":null},"l":[1]}`
	for _, c := range []struct{ template, scope, fails string }{
		{"plain", "plain", ""},
		{"{{a}}", "{a}", ""},
		{"a{data.a.b}c{data.a.n}{data.a.t}", "ax yc12e3true", ""},
		{"{arguments.repo}/{data.a.b}", "acme/shop/x y", ""},
		{"{data.a.o}", "", "data.a.o is an object or a list: a scope needs text, a number, true or false"},
		{"{data.l}", "", "data.l is an object or a list: a scope needs text, a number, true or false"},
		{"{data.a.e}", "", "data.a.e is empty"},
		{"{data.a.z}", "", "data.a.z is not there"},
		{"{data.a.b.c}", "", "data.a.b.c is not there"},
		{"{data.none}", "", "data.none is not there"},
	} {
		parsed, err := parseScope(c.template, json.RawMessage(`{"repo":"acme/shop"}`))
		if err != nil {
			t.Errorf("%s: %v", c.template, err)
			continue
		}
		got, err := parsed.Of(json.RawMessage(data))
		if says := message(err); got != c.scope || says != c.fails {
			t.Errorf("%s gives %q, %q; want %q, %q", c.template, got, says, c.scope, c.fails)
		}
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
