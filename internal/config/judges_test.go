package config

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"attend/internal/engine"
)

// Every option of an entry arrives under its name.
func TestLoad_Judges(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "rules.yaml", "rules: []\ndefault: note\n")
	write(t, DefaultFile, `
kinds: {a: flush}
rules: rules.yaml
judges:
  - {type: rules, when: waits > 0, onError: next}
  - {type: rules, name: own, rules: {rules: [], default: ask}, below: 1}
  - type: jev
    name: cheap
    below: 0.6
    onError: next
    model: jev-preview
    instructions: Which one?
    criteria: {ask: When unsure.}
    longContext: true
    images: false
    timeoutMs: 1500
    concurrency: 4
    perSecond: 0.5
    dailyCalls: 100
    dailyTokens: 100000
  - {type: anthropic, url: "http://127.0.0.1:1/v1", keyEnv: OTHER_KEY, system: Decide., onError: next}
  - {type: command, command: [./judge, ""], env: {A: "1", B: $OTHER_KEY, C: }, onError: next}
  - rule
`)
	c, err := Load(nil, []string{"TYPESAFE_API_KEY=key-1", "OTHER_KEY=key-2", "ANTHROPIC_API_KEY=key-3"})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
	want := []Judge{
		{Name: "rules", Type: JudgeRules, When: "waits > 0", OnNext: true, Images: true, Rules: "rules: []\ndefault: note\n"},
		{Name: "own", Type: JudgeRules, Below: 1, Images: true, Rules: "{rules: [], default: ask}\n"},
		{
			Name: "cheap", Type: JudgeJev, Below: 0.6, OnNext: true, Model: "jev-preview", Instructions: "Which one?", Key: "key-1",
			Criteria: map[engine.Route]string{engine.Ask: "When unsure."}, LongContext: true,
			Timeout: 1500 * time.Millisecond, Concurrency: 4, PerSecond: 0.5, DailyCalls: 100, DailyTokens: 100000,
		},
		{Name: "anthropic", Type: JudgeAnthropic, URL: "http://127.0.0.1:1/v1", Key: "key-2", System: "Decide.", OnNext: true, Images: true},
		{
			Name: "command", Type: JudgeCommand, Command: []string{filepath.Join(dir, "judge"), ""}, OnNext: true, Images: true,
			Variables: []Variable{{"A", "1"}, {"B", "key-2"}, {"C", ""}},
		},
		{Name: "rule", Type: JudgeRule, Images: true},
	}
	reveal := cmp.Transformer("reveal", Secret.Reveal)
	if diff := cmp.Diff(want, c.Judges.Entries, reveal, cmpopts.IgnoreFields(Judge{}, "Place"), cmpopts.IgnoreUnexported(Judge{})); diff != "" {
		t.Errorf("judges (-want +got):\n%s", diff)
	}
	if got, want := c.Policy().Judge, "rules, own, cheap, anthropic, command, rule"; got != want {
		t.Errorf("the policy's judge is %q, want %q", got, want)
	}
}

// Where one judge decides by rules alone, they stand in the policy, and
// overrides always do: a replay needs no other file.
func TestConfig_PolicyHoldsTheRules(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "rules.yaml", "rules: []\ndefault: note\n")
	write(t, DefaultFile, "judges: [{type: rules, name: mine}]\nrules: rules.yaml\noverride:\n  - {when: route == \"skip\", then: queue}\n")
	c, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := c.Policy()
	want := []engine.OverrideRule{{When: `route == "skip"`, Then: engine.Queue}}
	if diff := cmp.Diff(want, p.Overrides); diff != "" || p.Judge != "mine" || p.Rules != "rules: []\ndefault: note\n" {
		t.Errorf("judge %q, rules %q, overrides (-want +got):\n%s", p.Judge, p.Rules, diff)
	}
}

// A key is found where one is needed; a judge on this machine needs none.
func TestLoad_JudgeKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		args, env []string
		key       string
		ok        bool
	}{
		{[]string{"--judge=jev"}, nil, "", false},
		{[]string{"--judge=jev"}, []string{"TYPESAFE_API_KEY= k\n"}, "k", true},
		{[]string{"--judge=jev"}, []string{"TYPESAFE_API_KEY=a b"}, "", false},
		{[]string{"--judge=jev", "--judge-url=http://127.0.0.1:11434"}, nil, "", true},
		{[]string{"--judge=jev", "--judge-url=https://api.typesafe.ai"}, nil, "", false},
		{[]string{"--judge=decisions", "--judge-model=m"}, nil, "", false},
		{[]string{"--judge=anthropic"}, []string{"OPENAI_API_KEY=k"}, "", false},
		{[]string{"--judge=gemini", "--judge-model=m"}, []string{"GEMINI_API_KEY=k"}, "k", true},
		{[]string{"--judge=chat", "--judge-model=m"}, []string{"OPENAI_API_KEY=k"}, "", false},
		{[]string{"--judge=chat", "--judge-model=m", "--judge-url=http://localhost:11434/v1"}, nil, "", true},
		{[]string{"--judge=chat", "--judge-model=m", "--judge-url=https://a.example/v1"}, nil, "", true},
		{[]string{"--judge=chat", "--judge-model=m", "--judge-url=https://a.example/v1"}, []string{"OPENAI_API_KEY=k"}, "k", true},
		{[]string{"--judge=http", "--judge-url=https://a.example/judge"}, nil, "", true},
	} {
		got, err := Load(flagsOf(t, c.args...), c.env)
		if (err == nil) != c.ok {
			t.Errorf("%q %q: %v", c.args, c.env, err)
		}
		if err == nil && got.Judges.Entries[0].Key.Reveal() != c.key {
			t.Errorf("%q %q: the key is %q, want %q", c.args, c.env, got.Judges.Entries[0].Key.Reveal(), c.key)
		}
	}
}
