package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"attend/internal/engine"
)

const hidden = "hunter2-the-secret"

// No way of printing, logging or encoding a configuration shows its secrets.
func TestSecret_IsNeverPrinted(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, DefaultFile, "tokens: [{name: a, rights: [read], token: "+hidden+"-2}]\n"+
		"judges: [{type: jev, onError: next}, {type: command, command: [judge], env: {KEY: $TYPESAFE_API_KEY}}]\n"+
		"context: {http: 'https://a/', keyEnv: TYPESAFE_API_KEY}\ncapture: {command: [a], env: {KEY: "+hidden+"}}")
	c, err := Load(nil, []string{"ATTEND_TOKEN=" + hidden, "TYPESAFE_API_KEY=" + hidden})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Secret{
		c.Token, c.Judges.Entries[0].Key, c.Judges.Entries[1].Variables[0].Value, c.Judges.Context.Key, c.Judges.Capture.Variables[0].Value,
	} {
		if s.Reveal() != hidden {
			t.Fatalf("the secret is %q", s.Reveal())
		}
	}
	var log strings.Builder
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("start", "config", c, "value", *c, "token", c.Token)
	}
	encoded, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	shown := log.String() + string(encoded) + c.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		shown += fmt.Sprintf(verb, c) + fmt.Sprintf(verb, *c) + fmt.Sprintf(verb, c.Token)
	}
	for _, leak := range []string{hidden, fmt.Sprintf("%x", hidden), fmt.Sprintf("%X", hidden)} {
		if strings.Contains(shown, leak) {
			t.Errorf("the secret is shown as %s in:\n%s", leak, shown)
		}
	}
	if sum := c.Tokens[0].Sum.Hash(); strings.Contains(shown, sum[len(sum)-16:]) {
		t.Errorf("the sum of a token is shown in:\n%s", shown)
	}
	if !strings.Contains(shown, redacted) {
		t.Error("nothing says that there is a token")
	}
}

// No mistake quotes a secret, however it was written.
func TestSecret_IsInNoMistake(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, file := range []string{
		"token: " + hidden + " and more",
		"token: [" + hidden + "]",
		"token: {" + hidden + ": 1}",
		"token: *" + hidden,
		"token: \"" + hidden,
		"token: '" + hidden + "\nport: 1\n",
		"token: " + hidden + ": x",
		"tokn: " + hidden,
		"token: a\ntoken: " + hidden,
		"store: postgres:user:" + hidden + "@db/attend",
		"store: mysql://user:" + hidden + "@db/attend",
		"policy:\n  token: " + hidden,
		"judge: {type: jev, keyEnv: " + hidden + "}",
		"judge: {type: jev, key: " + hidden + "}",
		"judge: {type: http, url: 'https://a:" + hidden + "@b/c'}",
		"judge: {type: http, url: 'https://b/c?" + hidden + "'}",
		"judge: {type: http, url: 'https://b:" + hidden + "/'}",
		"judgeUrl: 'https://b/#" + hidden + "'",
		"judge: {type: command, command: [a], env: [" + hidden + "]}",
		"judge: {type: command, command: [a], env: " + hidden + "}",
		"judge: {type: command, command: [a], env: {A: [" + hidden + "]}}",
		"judge: {type: command, command: [a], env: {A: $" + hidden + "}}",
		"judge: {type: command, command: 'a " + hidden + "'}",
		"judge: {type: command, command: [{a: " + hidden + "}]}",
		"context: {http: 'https://a?" + hidden + "'}",
		"capture: {http: 'https://a/', keyEnv: " + hidden + "}",
		"tokens: " + hidden,
		"tokens: [" + hidden + "]",
		"tokens: {name: a, token: " + hidden + "}",
		"tokens: [{name: a, token: " + hidden + "}]",
		"tokens: [{name: a, rights: [read], hash: " + hidden + "}]",
		"tokens: [{name: a, rights: [read], hash: [" + hidden + "]}]",
		"tokens: [{name: a, rights: [read], token: {" + hidden + ": 1}}]",
		"tokens: [{name: a, rights: [read], tokn: " + hidden + "}]",
		"tokens: [{name: a, rights: [read], " + hidden + ": a}]",
		"tokens: [{name: a, rights: [read], token: \"" + hidden + " b\"}]",
		"tokens: [{name: a, rights: [read], token: " + hidden + "}, {name: b, rights: [read], token: " + hidden + "}]",
	} {
		write(t, DefaultFile, file)
		report := Check(nil, []string{"ATTEND_TOKN=" + hidden, "ATTEND_PORT=" + hidden[:4]}, nil)
		encoded, err := json.Marshal(report)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(encoded), hidden) {
			t.Errorf("%q: the secret is in %s", file, encoded)
		}
		if len(report.Mistakes) < 3 {
			t.Errorf("%q: want a mistake in the file besides two variables, got %s", file, report.Mistakes)
		}
	}
}

func TestLoad_WarnsOfWorldReadableSecrets(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		content string
		mode    os.FileMode
		want    bool
	}{
		{"token: abc", 0o644, true},
		{"token: abc", 0o604, true},
		{"token: abc", 0o640, false},
		{"token: abc", 0o600, false},
		{"port: 1", 0o644, false},
		{"tokens: [{name: a, rights: [read], token: correct-horse-battery}]", 0o644, true},
		{"tokens: [{name: a, rights: [read], token: correct-horse-battery}]", 0o600, false},
		{"tokens: [{name: a, rights: [read], hash: sha256:" + strings.Repeat("a", 64) + "}]", 0o644, false},
	} {
		write(t, DefaultFile, c.content)
		if err := os.Chmod(DefaultFile, c.mode); err != nil {
			t.Fatal(err)
		}
		got, err := Load(nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		warned := slices.ContainsFunc(got.Warnings, func(w Warning) bool { return w.Code == WarnWorldReadable })
		if warned != c.want {
			t.Errorf("%q with mode %04o: warned %v, want %v", c.content, c.mode, warned, c.want)
		}
	}
}

// A kinds entry is found again in the policy, so that nothing is lost between
// the two.
func TestConfig_PolicyHoldsTheKinds(t *testing.T) {
	c := &Config{Settings: engine.Defaults(), Judges: Judges{Entries: []Judge{{Type: JudgeRule}}}, Kinds: Kinds{Entries: []KindEntry{{Pattern: "a", Kind: engine.Flush}}}}
	p := c.Policy()
	if err := p.Compile(); err != nil {
		t.Fatal(err)
	}
	if kind, pattern := p.KindOf("a"); kind != engine.Flush || pattern != "a" || p.Judge != "rule" {
		t.Errorf("got %v by %q, judge %q", kind, pattern, p.Judge)
	}
}
