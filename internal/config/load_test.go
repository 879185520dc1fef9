package config

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"attend/internal/engine"
	rules "attend/internal/field"
)

// Every scalar, from every set of sources: a flag wins over a variable, a
// variable over the file, the file over the default.
func TestLoad_Precedence(t *testing.T) {
	// of each key three values, and how it is seen in the result.
	values := map[string]struct {
		flag, variable, file, fallback string
		seen                           func(c *Config) string
	}{
		"host":                    {"127.0.0.2", "127.0.0.3", "::1", "127.0.0.1", func(c *Config) string { return c.Host }},
		"port":                    {"1", "2", "3", "8787", func(c *Config) string { return fmt.Sprint(c.Port) }},
		"socket":                  {"a.sock", "b.sock", "c.sock", "", func(c *Config) string { return c.Socket }},
		"token":                   {"", "of-variable", "of-file", "", func(c *Config) string { return c.Token.Reveal() }},
		"allowRemoteWithoutToken": {"true", "false", "true", "false", func(c *Config) string { return fmt.Sprint(c.RemoteWithoutToken) }},
		"allowedHosts":            {"", "b.example", "c.example", "", func(c *Config) string { return strings.Join(c.AllowedHosts, ",") }},
		"allowedOrigins":          {"", "https://b.example", "https://c.example", "", func(c *Config) string { return strings.Join(c.AllowedOrigins, ",") }},
		"store":                   {"memory", "sqlite:b.db", "sqlite:c.db", "sqlite:attend.db", func(c *Config) string { return c.Store.String() }},
		"noMigrate":               {"true", "false", "true", "false", func(c *Config) string { return fmt.Sprint(c.Replicas.NoMigrate) }},
		"leaseMs":                 {"", "2000", "3000", "10000", func(c *Config) string { return fmt.Sprint(c.Replicas.Lease.Milliseconds()) }},
		"replica":                 {"", "b-1", "c-1", "", func(c *Config) string { return c.Replicas.Name }},
		"retention.eventsMs":      {"", "2000000", "3000000", "604800000", func(c *Config) string { return fmt.Sprint(c.Retention.Events.Milliseconds()) }},
		"retention.stepsMs":       {"", "2000000000", "3000000000", "2592000000", func(c *Config) string { return fmt.Sprint(c.Retention.Steps.Milliseconds()) }},
		"retention.everyMs":       {"", "2000", "3000", "60000", func(c *Config) string { return fmt.Sprint(c.Retention.Every.Milliseconds()) }},
		"judge":                   {"jev", "rule", "jev", "rule", func(c *Config) string { return string(c.Judges.Entries[0].Type) }},
		"judgeModel":              {"a", "b", "c", "", func(c *Config) string { return c.Judges.Entries[0].Model }},
		"judgeUrl":                {"http://[::1]/a", "http://[::1]/b", "http://[::1]/c", "", func(c *Config) string { return c.Judges.Entries[0].URL }},
		"rules":                   {`{"rules":[],"default":"note"}`, `{"rules":[],"default":"ask"}`, `{rules: [], default: skip}`, "", func(c *Config) string { return strings.TrimSpace(c.Judges.Entries[0].Rules) }},
		"judgeRecord":             {"", "false", "false", "true", func(c *Config) string { return fmt.Sprint(c.Judges.Record) }},
		"judgeCalls":              {"", "2", "3", "64", func(c *Config) string { return fmt.Sprint(c.Judges.Calls) }},
		"kinds": {`{"a":"flush"}`, `{"b":"flush"}`, `{c: flush}`, "", func(c *Config) string {
			if len(c.Kinds.Entries) == 0 {
				return ""
			}
			return fmt.Sprintf(`{"%s":"flush"}`, c.Kinds.Entries[0].Pattern)
		}},
		"actThreshold":          {"0.1", "0.2", "0.3", "0", func(c *Config) string { return fmt.Sprint(c.Settings.ActThreshold) }},
		"guidance":              {"", "of variable", "of file", "", func(c *Config) string { return c.Settings.Guidance }},
		"field.scoring":         {"reference", "graded", "reference", "graded", func(c *Config) string { return c.Field.Settings.Mode.String() }},
		"field.minIntentLength": {"", "2", "0", "10", func(c *Config) string { return fmt.Sprint(c.Field.Settings.MinIntent) }},
		"field.ingest":          {"", "true", "true", "false", func(c *Config) string { return fmt.Sprint(c.Field.Ingest) }},
		"field.pushEveryMs":     {"", "20", "30", "1000", func(c *Config) string { return fmt.Sprint(c.Field.PushEvery.Milliseconds()) }},
		"webhook.enabled":       {"", "false", "true", "true", func(c *Config) string { return fmt.Sprint(c.Webhook.Enabled) }},
		"webhook.allow":         {"", "10.0.0.0/8", "fd00::/8", "", func(c *Config) string { return strings.Trim(fmt.Sprint(c.Webhook.Allow), "[]") }},
		"webhook.receivers":     {"", "https://b.example/hooks/", "https://c.example", "", func(c *Config) string { return strings.Join(c.Webhook.Receivers, ",") }},
		"webhook.caFile":        {"", "b.pem", "c.pem", "", func(c *Config) string { return c.Webhook.CAFile }},
		"secretKey":             {"", "of-variable-of-32", "of-file-16-bytes", "", func(c *Config) string { return c.Webhook.SecretKey.Reveal() }},
		"logLevel":              {"debug", "warn", "error", "info", func(c *Config) string { return strings.ToLower(c.LogLevel.String()) }},
		"logFormat":             {"json", "text", "json", "text", func(c *Config) string { return c.LogFormat }},
		"shutdownGraceMs":       {"", "2", "3", "10000", func(c *Config) string { return fmt.Sprint(c.ShutdownGrace.Milliseconds()) }},
	}
	// What must stand in the file for a value to count.
	beside := map[string]string{"judgeModel": "judge: jev\n", "judgeUrl": "judge: jev\n", "rules": "judge: rules\n"}
	t.Chdir(t.TempDir())
	for _, s := range scalars() {
		v, ok := values[s.key]
		if !ok {
			t.Errorf("%s: no values in this test", s.key)
			continue
		}
		for set := range 8 {
			var args, env []string
			file, want := "", v.fallback
			if set&1 != 0 {
				file, want = strings.Replace(s.key, ".", ": {", 1)+": "+v.file+strings.Repeat("}", strings.Count(s.key, "."))+"\n", strings.NewReplacer("{c: flush}", `{"c":"flush"}`).Replace(v.file)
			}
			if set != 0 {
				file += beside[s.key]
			}
			if set&2 != 0 {
				env, want = []string{s.variable() + "=" + v.variable}, v.variable
			}
			env = append(env, "TYPESAFE_API_KEY=a-key")
			if set&4 != 0 && s.usage != "" {
				args, want = []string{"--" + s.flag() + "=" + v.flag}, v.flag
			}
			write(t, DefaultFile, file)
			c, err := Load(flagsOf(t, args...), env)
			if err != nil {
				t.Errorf("%s: flags %q, variables %q, file %q: %v", s.key, args, env, file, err)
				continue
			}
			if got := v.seen(c); got != want {
				t.Errorf("%s: flags %q, variables %q, file %q: got %q, want %q", s.key, args, env, file, got, want)
			}
		}
	}
}

func TestLoad_NamesOfVariablesAndFlags(t *testing.T) {
	var got []string
	for _, s := range scalars() {
		line := s.key + " " + s.variable()
		if s.usage != "" {
			line += " --" + s.flag()
		}
		got = append(got, line)
	}
	want := []string{
		"host ATTEND_HOST --host",
		"port ATTEND_PORT --port",
		"socket ATTEND_SOCKET --socket",
		"token ATTEND_TOKEN",
		"allowRemoteWithoutToken ATTEND_ALLOW_REMOTE_WITHOUT_TOKEN --allow-remote-without-token",
		"allowedHosts ATTEND_ALLOWED_HOSTS",
		"allowedOrigins ATTEND_ALLOWED_ORIGINS",
		"store ATTEND_STORE --store",
		"noMigrate ATTEND_NO_MIGRATE --no-migrate",
		"leaseMs ATTEND_LEASE_MS",
		"replica ATTEND_REPLICA",
		"retention.eventsMs ATTEND_RETENTION_EVENTS_MS",
		"retention.stepsMs ATTEND_RETENTION_STEPS_MS",
		"retention.everyMs ATTEND_RETENTION_EVERY_MS",
		"judge ATTEND_JUDGE --judge",
		"judgeModel ATTEND_JUDGE_MODEL --judge-model",
		"judgeUrl ATTEND_JUDGE_URL --judge-url",
		"rules ATTEND_RULES --rules",
		"judgeRecord ATTEND_JUDGE_RECORD",
		"judgeCalls ATTEND_JUDGE_CALLS",
		"kinds ATTEND_KINDS --kinds",
		"actThreshold ATTEND_ACT_THRESHOLD --act-threshold",
		"guidance ATTEND_GUIDANCE",
		"field.scoring ATTEND_FIELD_SCORING --field-scoring",
		"field.minIntentLength ATTEND_FIELD_MIN_INTENT_LENGTH",
		"field.ingest ATTEND_FIELD_INGEST",
		"field.pushEveryMs ATTEND_FIELD_PUSH_EVERY_MS",
		"webhook.enabled ATTEND_WEBHOOK_ENABLED",
		"webhook.allow ATTEND_WEBHOOK_ALLOW",
		"webhook.receivers ATTEND_WEBHOOK_RECEIVERS",
		"webhook.caFile ATTEND_WEBHOOK_CA_FILE",
		"secretKey ATTEND_SECRET_KEY",
		"logLevel ATTEND_LOG_LEVEL --log-level",
		"logFormat ATTEND_LOG_FORMAT --log-format",
		"shutdownGraceMs ATTEND_SHUTDOWN_GRACE_MS",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestLoad_WhichFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "attend.yaml", "port: 1\n")
	write(t, "variable.yml", "port: 2\n")
	write(t, "flag.json", `{"port": 3, "policy": {"maxEvents": 7}}`)
	for _, c := range []struct {
		args, env []string
		port      int
		files     []string
	}{
		{nil, nil, 1, []string{"attend.yaml"}},
		{nil, []string{"ATTEND_CONFIG="}, 1, []string{"attend.yaml"}},
		{nil, []string{"ATTEND_CONFIG=variable.yml"}, 2, []string{"variable.yml"}},
		{[]string{"--config=flag.json"}, []string{"ATTEND_CONFIG=variable.yml"}, 3, []string{"flag.json"}},
		{[]string{"-c", "flag.json", "--port=4"}, nil, 4, []string{"flag.json"}},
	} {
		got, err := Load(flagsOf(t, c.args...), c.env)
		if err != nil {
			t.Fatalf("%q %q: %v", c.args, c.env, err)
		}
		if got.Port != c.port || !slices.Equal(got.Files, c.files) {
			t.Errorf("%q %q: port %d from %q, want %d from %q", c.args, c.env, got.Port, got.Files, c.port, c.files)
		}
	}
}

// Without flags, variables and files there are the defaults, and no flag set
// is needed.
func TestLoad_Defaults(t *testing.T) {
	t.Chdir(t.TempDir())
	got, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := &Config{
		Host: "127.0.0.1", Port: 8787,
		Store: Store{Kind: StoreSQLite, File: "attend.db"}, Replicas: Replicas{Lease: 10 * time.Second},
		Judges: Judges{
			Entries: []Judge{{Place: Place{Source: fromDefault}, Name: "rule", Type: JudgeRule, Images: true}},
			Record:  true, Calls: 64,
		},
		Retention: Retention{Events: 7 * 24 * time.Hour, Steps: 30 * 24 * time.Hour, Every: time.Minute},
		Field:     Field{Settings: rules.DefaultSettings(), PushEvery: time.Second},
		Webhook:   Webhook{Enabled: true},
		LogLevel:  slog.LevelInfo, LogFormat: "text", ShutdownGrace: 10 * time.Second,
		Settings: engine.Defaults(),
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Config{}, "Warnings"), cmpopts.IgnoreUnexported(Judge{})); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

// A scope's settings are those of policy and of the top level, with what its
// entry gives in place of the whole value.
func TestLoad_ScopesOverlayPolicy(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, DefaultFile, `
kinds: {a: flush}
actThreshold: 0.4
guidance: general
floor: {flush: interrupt, closing: note}
criteria: {ask: When unsure.}
predicates: {second: "Two?", first: "One?"}
policy:
  maxEvents: 50
  retryBackoffMs: [1, 2]
scopes:
  - scope: "repo:*"
    maxEvents: 5
    actThreshold: "off"
    floor: {}
  - scope: "repo:acme/*"
    retryBackoffMs: []
    guidance: acme
    predicates: {}
`)
	c, err := Load(nil, []string{"ATTEND_ACT_THRESHOLD=0.6"})
	if err != nil {
		t.Fatal(err)
	}
	p := c.Policy()
	if err := p.Compile(); err != nil {
		t.Fatal(err)
	}
	base := engine.Defaults()
	base.MaxEvents, base.RetryBackoffMs, base.ActThreshold, base.Guidance = 50, []int64{1, 2}, 0.6, "general"
	base.Floor = engine.Floor{engine.Flush: engine.Interrupt, engine.Closing: engine.Note}
	base.Criteria = map[engine.Route]string{engine.Ask: "When unsure."}
	base.Predicates = []engine.Predicate{{Name: "second", Question: "Two?"}, {Name: "first", Question: "One?"}}
	repo := base
	repo.MaxEvents, repo.ActThreshold, repo.Floor = 5, 0, engine.Floor{}
	acme := base
	acme.RetryBackoffMs, acme.Guidance, acme.Predicates = []int64{}, "acme", []engine.Predicate{}
	for scope, want := range map[string]engine.Settings{"chat:1": base, "repo:other/x": repo, "repo:acme/x": acme} {
		if diff := cmp.Diff(want, *p.For(scope)); diff != "" {
			t.Errorf("settings of %s (-want +got):\n%s", scope, diff)
		}
	}
}

// Every field of the engine's settings can be configured, under its JSON name.
func TestSettings_AreComplete(t *testing.T) {
	var want, got []string
	for field := range reflect.TypeFor[engine.Settings]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	for _, s := range settings() {
		got = append(got, s.name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-engine +config):\n%s", diff)
	}
	for _, s := range settings() {
		isTop := slices.Contains(sections(), s.name) || slices.ContainsFunc(scalars(), func(c scalar) bool { return c.key == s.name })
		if s.top != isTop {
			t.Errorf("%s: top is %v, and it is a key of the top level: %v", s.name, s.top, isTop)
		}
	}
}

func TestLoad_Lists(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, DefaultFile, "allowedHosts: [Attend.Internal, '[::1]:9000', 10.0.0.7]\nallowedOrigins:\n  - https://Ops.example.com\n  - http://localhost:3000\n")
	c, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"attend.internal", "[::1]:9000", "10.0.0.7"}, c.AllowedHosts); diff != "" {
		t.Errorf("hosts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"https://ops.example.com", "http://localhost:3000"}, c.AllowedOrigins); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
	c, err = Load(nil, []string{"ATTEND_ALLOWED_HOSTS=a.example, b.example"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.example", "b.example"}, c.AllowedHosts); diff != "" {
		t.Errorf("hosts of a variable (-want +got):\n%s", diff)
	}
}

// What cannot be trusted as a header's value is refused.
func TestLoad_ListsRefuse(t *testing.T) {
	t.Chdir(t.TempDir())
	for variable, bad := range map[string][]string{
		"ATTEND_ALLOWED_HOSTS":   {"*", "a/b", "https://a", "user@a", ":80", "a:b:c", "a?x"},
		"ATTEND_ALLOWED_ORIGINS": {"*", "null", "a.example", "https://", "https://a/", "https://a/x", "https://u@a", "https://a?x"},
		"ATTEND_HOST":            {"127.0.0.1:80", "a b", "[", "http://a", "a/b", "*"},
		"ATTEND_STORE":           {"sqlite", "sqlite:", "Memory", "file.db", "mysql:x", "sqlite:a?mode=ro", "postgres", "postgres:", "postgres:host=db"},
		"ATTEND_LEASE_MS":        {"0", "499", "600001", "10s", "-1"},
		"ATTEND_REPLICA":         {"a b", "a\tb", strings.Repeat("x", 129)},
		"ATTEND_NO_MIGRATE":      {"yes, please"},
		"ATTEND_PORT":            {"-1", "65536", "http", "80.0"},
		"ATTEND_TOKEN":           {"a b", "a\tb", "ä", strings.Repeat("x", 5000)},
	} {
		for _, value := range bad {
			if c, err := Load(nil, []string{variable + "=" + value}); err == nil {
				t.Errorf("%s=%s: accepted as %v", variable, value, c)
			} else if !strings.HasPrefix(err.Error(), variable+": ") {
				t.Errorf("%s=%s: the mistake does not name the variable: %v", variable, value, err)
			}
		}
	}
}

func TestLoad_LoopbackNeedsNoToken(t *testing.T) {
	t.Chdir(t.TempDir())
	for host, open := range map[string]bool{
		"127.0.0.1": true, "127.8.9.10": true, "::1": true, "[::1]": true, "localhost": true, "LOCALHOST": true, "::ffff:127.0.0.1": true,
		"0.0.0.0": false, "::": false, "10.0.0.7": false, "example.com": false, "localhost.example.com": false,
	} {
		_, err := Load(nil, []string{"ATTEND_HOST=" + host})
		if (err == nil) != open {
			t.Errorf("host %s without a token: %v", host, err)
		}
		if _, err := Load(nil, []string{"ATTEND_HOST=" + host, "ATTEND_TOKEN=a-token"}); err != nil {
			t.Errorf("host %s with a token: %v", host, err)
		}
	}
}

func TestMistakes_ErrorIsBounded(t *testing.T) {
	var kinds strings.Builder
	for i := range 200 {
		fmt.Fprintf(&kinds, "name%d: nokind\n", i)
	}
	_, err := ParseKinds("kinds.yaml", []byte(kinds.String()))
	text := fmt.Sprint(err)
	if n := strings.Count(text, "\n"); n != maxShown || !strings.HasSuffix(text, "and 150 more") {
		t.Errorf("%d lines, ending in %q", n+1, text[max(0, len(text)-40):])
	}
}
