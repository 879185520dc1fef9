package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/config"
)

// fromYAML loads a configuration of a file with the content.
func fromYAML(t *testing.T, content string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "attend.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(nil, []string{"ATTEND_CONFIG=" + file, "SECRET=whsec_c2VjcmV0LW9mLXR3ZW50eS1mb3VyLWJ5dGVz", "KEY=a-key-that-is-long-enough"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Every part is told apart from itself by a change in it, and by nothing else.
func TestChanged(t *testing.T) {
	const before = "# nothing\n"
	base := fromYAML(t, before)
	for _, c := range []struct {
		yaml          string
		changed, rest []string
	}{
		{"\n\n# it moved\n", nil, nil},
		{"kinds: {a: flush}", []string{"kinds"}, nil},
		{"policy: {maxEvents: 7}", []string{"policy"}, nil},
		{"scopes: [{scope: 'a*', maxEvents: 7}]", []string{"policy"}, nil},
		{"guidance: be kind", []string{"policy"}, nil},
		{"actThreshold: 0.7", []string{"policy"}, nil},
		{"judge: {type: http, url: 'http://127.0.0.1:1'}", []string{"judges"}, nil},
		{"judgeRecord: false", []string{"judgeRecord"}, nil},
		{"override: [{when: 'true', then: note}]", []string{"override"}, nil},
		{"token: token-that-is-long-enough", []string{"tokens"}, nil},
		{"sources: [{name: a, url: 'http://127.0.0.1:1', event: e, scope: s}]", []string{"sources"}, nil},
		{"hooks: [{name: a, type: github, secretEnv: KEY, scope: s}]", []string{"hooks"}, nil},
		{"deadLetters: {url: 'http://127.0.0.1:1', secretEnv: SECRET}", []string{"deadLetters"}, nil},
		{"silences: [{scope: '*', why: it is quiet}]", []string{"silences"}, nil},
		{"port: 1", nil, []string{"port"}},
		{"socket: s.sock", nil, []string{"socket"}},
		{"allowRemoteWithoutToken: true", []string{"allowRemoteWithoutToken"}, nil},
		{"noMigrate: true", nil, []string{"noMigrate"}},
		{"allowedHosts: [a]", nil, []string{"allowedHosts"}},
		{"store: memory", nil, []string{"store"}},
		{"judgeCalls: 3", nil, []string{"judgeCalls"}},
		{"retention: {everyMs: 70000}", nil, []string{"retention"}},
		{"field: {minIntentLength: 3}", nil, []string{"field"}},
		{"webhook: {enabled: false}", nil, []string{"webhook"}},
		{"logLevel: debug\nlogFormat: json\nshutdownGraceMs: 1", nil, []string{"logLevel", "logFormat", "shutdownGraceMs"}},
	} {
		after := fromYAML(t, c.yaml)
		if diff := cmp.Diff(append([]string{}, c.changed...), config.Changed(base, after)); diff != "" {
			t.Errorf("%s: changed (-want +got):\n%s", c.yaml, diff)
		}
		if diff := cmp.Diff(append([]string{}, c.rest...), config.NeedsRestart(base, after)); diff != "" {
			t.Errorf("%s: needs a restart (-want +got):\n%s", c.yaml, diff)
		}
		if again := fromYAML(t, "\n"+c.yaml); len(config.Changed(after, again))+len(config.NeedsRestart(after, again)) != 0 {
			t.Errorf("%s: it differs from itself: %v %v", c.yaml, config.Changed(after, again), config.NeedsRestart(after, again))
		}
	}
}

// Without a token the daemon must not go on listening to everyone, though the
// configuration would be right where it starts anew.
func TestCheckReload(t *testing.T) {
	const token = "token: token-that-is-long-enough\n"
	remote := fromYAML(t, "host: 0.0.0.0\n"+token)
	for content, want := range map[string]string{
		"host: 127.0.0.1\n": "leave a token",
		"socket: a.sock\n":  "leave a token",
		token:               "",
		"host: 0.0.0.0\nallowRemoteWithoutToken: true\n": "",
	} {
		err := fromYAML(t, content).CheckReload(remote)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
	if err := fromYAML(t, "").CheckReload(fromYAML(t, token)); err != nil {
		t.Errorf("where only this machine comes: %v", err)
	}
}

// The same rights, scopes, Fields and agents in another order are the same grant.
func TestChanged_NotByTheOrderOfAGrant(t *testing.T) {
	const begin = "tokens: [{name: a, token: token-that-is-long-enough, "
	before := fromYAML(t, begin+"rights: [read, ingest], scopes: [a, b], fields: [c, d], agents: [e, f]}]")
	after := fromYAML(t, begin+"rights: [ingest, read], scopes: [b, a, b], fields: [d, c], agents: [f, e]}]")
	if diff := cmp.Diff(before.Tokens[0].Grant, after.Tokens[0].Grant); diff != "" || len(config.Changed(before, after)) > 0 {
		t.Errorf("changed are %v (-before +after):\n%s", config.Changed(before, after), diff)
	}
}

func TestSilences_AreRead(t *testing.T) {
	c := fromYAML(t, "silences:\n- {scope: 'a*', event: 'b.*', until: 2027-01-31T18:00:00Z, includeFlush: true, why: x}\n- {scope: c, why: y}\n")
	if len(c.Silences) != 2 || !c.Silences[0].IncludeFlush || c.Silences[0].Until != 1801418400000 || c.Silences[1].Until != 1<<63-1 {
		t.Errorf("read as %+v", c.Silences)
	}
	for content, want := range map[string]string{
		"silences: 1": "must be a list", "silences: [1]": "must be an object", "silences: [{why: x}]": "scope: is missing",
		"silences: [{scope: a}]": "why: is missing", "silences: [{scope: a, why: x, until: later}]": "until", "silences: [{scope: a, why: x, who: me}]": "unknown key",
		"silences: [{scope: a, why: x, includeFlush: maybe}]": "true or false", "silences: [{scope: a, why: x}, {scope: a, why: x}]": "twice",
	} {
		file := filepath.Join(t.TempDir(), "attend.yaml")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := config.Load(nil, []string{"ATTEND_CONFIG=" + file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", content, err, want)
		}
	}
}
