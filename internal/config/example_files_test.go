package config

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"attend/examples"
	"attend/internal/engine"
)

func exampleFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := examples.Files.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Every example loads without a warning, and names what its kind of agent
// meets as the seed of the rules has it.
func TestExamples_Kinds(t *testing.T) {
	wants := map[string]map[string]engine.Kind{
		"coding": {
			"comment.mentioned": engine.Flush, "issue_comment.created": engine.Flush,
			"pull_request.closed": engine.Closing, "workflow_run.completed": engine.Closing, "build.failed": engine.Closing, "deploy.finished": engine.Closing,
			"dependabot_alert.created": engine.Closing, "repository_vulnerability_alert.create": engine.Closing, "code_scanning_alert.fixed": engine.Consequence,
			"check_run.completed": engine.Consequence, "workflow_job.in_progress": engine.Consequence, "status": engine.Consequence, "ci.log.line": engine.Consequence,
			"push": engine.Context, "agent.message": engine.Context, "star.created": engine.Consequence,
		},
		"voice":   {"transcript.final": engine.Flush, "transcript.partial": engine.Continuous, "tool.result": engine.Consequence, "agent.speech.started": engine.Context},
		"inbox":   {"message.to_agent": engine.Flush, "email.received": engine.Closing, "email.opened": engine.Passive, "reply.sent": engine.Closing, "delivery.receipt": engine.Consequence},
		"oncall":  {"page.sent": engine.Closing, "alert.fired": engine.Closing, "metric.sample": engine.Consequence, "log.line": engine.Consequence, "incident.message.mention": engine.Flush, "dpkg.status.installed": engine.Consequence},
		"gesture": {"hand.moved": engine.Continuous, "pointer.moved": engine.Continuous, "gaze.dwell": engine.Passive, "object.grabbed": engine.Closing, "object.released": engine.Closing, "physics.step": engine.Consequence, "render.frame": engine.Consequence},
	}
	files, err := fs.Glob(examples.Files, "kinds/*.json")
	if err != nil || len(files) != len(wants) {
		t.Fatalf("%d examples, and wants for %d (%v)", len(files), len(wants), err)
	}
	for _, file := range files {
		kinds := loadExample(t, file, exampleFile(t, file))
		policy := compiled(t, kinds)
		want := wants[strings.TrimSuffix(strings.TrimPrefix(file, "kinds/"), ".json")]
		want["field.conflict.detected"], want["field.entry.committed"] = engine.Closing, engine.Consequence
		for name, want := range want {
			if got, pattern := policy.KindOf(name); got != want || pattern == "" {
				t.Errorf("%s: %s is %s by %q, want %s", file, name, got, pattern, want)
			}
		}
	}
}

func TestExamples_KindsAtTheTop(t *testing.T) {
	b, err := os.ReadFile("../../kinds.example.json")
	if err != nil {
		t.Fatal(err)
	}
	kinds := loadExample(t, "kinds.example.json", b)
	policy := compiled(t, kinds)
	for name, want := range map[string]engine.Kind{
		"message.created": engine.Flush, "build.failed": engine.Closing, "build.started": engine.Consequence,
		"document.typed": engine.Continuous, "document.opened": engine.Passive, "agent.message": engine.Context, "whatever": engine.Consequence,
		"field.conflict.detected": engine.Closing, "field.entry.committed": engine.Consequence,
	} {
		if got, pattern := policy.KindOf(name); got != want || pattern == "" {
			t.Errorf("%s is %s by %q, want %s", name, got, pattern, want)
		}
	}
	for _, k := range engine.Kinds() {
		if !kinds.has(k) {
			t.Errorf("no example of %s", k)
		}
	}
}

func loadExample(t *testing.T, file string, b []byte) Kinds {
	t.Helper()
	kinds, err := ParseKinds(file, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range kinds.warnings() {
		t.Errorf("%s: warning: %s", file, w)
	}
	return kinds
}

func compiled(t *testing.T, kinds Kinds) *engine.Policy {
	t.Helper()
	policy := (&Config{Kinds: kinds, Settings: engine.Defaults()}).Policy()
	if err := policy.Compile(); err != nil {
		t.Fatal(err)
	}
	return &policy
}

// The annotated attend.yaml holds the defaults, and explains every key there is.
func TestExamples_AttendYAML(t *testing.T) {
	b := exampleFile(t, "attend.yaml")
	t.Chdir(t.TempDir())
	plain, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, DefaultFile, string(b))
	c, err := Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warnings: %v", c.Warnings)
	}
	if diff := cmp.Diff(plain, c, cmpopts.IgnoreFields(Config{}, "Files", "Kinds", "Warnings"), cmpopts.IgnoreFields(Judge{}, "Place"), cmpopts.IgnoreUnexported(Judge{})); diff != "" {
		t.Errorf("attend.yaml differs from the defaults (-default +file):\n%s", diff)
	}
	keys := sections()
	keys = append(keys, scalarsOf("")...)
	keys = append(keys, scalarsOf(keyField)...)
	keys = append(keys, scalarsOf(keyRetention)...)
	keys = append(keys, scalarsOf(keyWebhook)...)
	for _, s := range settings() {
		keys = append(keys, s.name)
	}
	for _, key := range keys {
		if !regexp.MustCompile(`(?m)^(# )? *` + key + `:`).Match(b) {
			t.Errorf("attend.yaml does not explain %s", key)
		}
	}
}

// What stands in attend.yaml as a comment to be uncommented is right too.
func TestExamples_AttendYAMLUncommented(t *testing.T) {
	b := exampleFile(t, "attend.yaml")
	b = b[bytes.Index(b, []byte("\nhost:")):] // before it stand command lines
	b = bytes.Replace(b, []byte("scopes: []\n"), []byte("scopes:\n"), 1)
	b = regexp.MustCompile(`(?m)^# (token:|tokens:|allowedHosts:|allowedOrigins:|secretKey:|guidance:|criteria:|predicates:|judges:|rules:|override:|capture:|context:|sources:|hooks:|sinks:|deadLetters:|silences:|- |  )`).ReplaceAll(b, []byte("$1"))
	t.Chdir(t.TempDir())
	write(t, DefaultFile, string(b))
	b = bytes.Replace(b, []byte("judge: rule\n"), nil, 1) // in whose place judges stand
	env := []string{"TYPESAFE_API_KEY=a-key", "JUDGE_TOKEN=a-token", "CI_TOKEN=a-token", "GITHUB_WEBHOOK_SECRET=a-secret-that-is-long-enough", "ALERTS_TOKEN=a-token-that-is-long-enough", "BILLING_SECRET=whsec_YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBieXRlcyEh", "CHAT_TOKEN=a-token", "NOTES_TOKEN=a-token", "AGENT_SECRET=whsec_YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBieXRlcyEh"}
	write(t, DefaultFile, string(b))
	c, err := Load(nil, env)
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	// A socket stands in place of host and port.
	b = regexp.MustCompile(`(?m)^(host|port):.*$`).ReplaceAll(b, nil)
	write(t, DefaultFile, string(regexp.MustCompile(`(?m)^# (socket:)`).ReplaceAll(b, []byte("$1"))))
	if c, err := Load(nil, env); err != nil || c.Socket == "" {
		t.Errorf("with a socket: %v", err)
	}
	if c.Token == "" || len(c.AllowedHosts) == 0 || len(c.AllowedOrigins) == 0 || c.Settings.Guidance == "" ||
		len(c.Settings.Criteria) == 0 || len(c.Settings.Predicates) == 0 || len(c.Scopes) == 0 ||
		len(c.Judges.Entries) != 4 || c.Judges.Entries[0].Rules == "" || len(c.Judges.Overrides) == 0 ||
		c.Judges.Context.IsZero() || c.Judges.Capture.IsZero() || c.Context.Attune == nil || c.Webhook.SecretKey == "" || len(c.Webhook.Allow) == 0 || len(c.Webhook.Receivers) == 0 || len(c.Sources) != 2 || len(c.Hooks) != 5 || len(c.Silences) != 1 {
		t.Errorf("something stayed a comment: %+v", c)
	}
}

// The events are whole, and the kinds that go with them leave no name out.
func TestExamples_Events(t *testing.T) {
	for _, c := range []struct {
		events, kinds string
		count         int
		acts          bool
	}{
		{"events/github.ndjson", "kinds/coding.json", 329, true},
		{"events/dpkg.ndjson", "kinds/oncall.json", 5091, false},
	} {
		names, mistakes, err := CountNames(c.events, bytes.NewReader(exampleFile(t, c.events)))
		if err != nil || len(mistakes) > 0 {
			t.Fatalf("%s: %v %v", c.events, err, mistakes)
		}
		kinds := loadExample(t, c.kinds, exampleFile(t, c.kinds))
		policy := compiled(t, kinds)
		total, acts := 0, 0
		for _, n := range names {
			total += n.Events
			kind, pattern := policy.KindOf(n.Name)
			if pattern == "" {
				t.Errorf("%s: no pattern of %s matches %s", c.events, c.kinds, n.Name)
			}
			if kind.Act() {
				acts += n.Events
			}
		}
		if total != c.count || (acts > 0) != c.acts {
			t.Errorf("%s: %d events, %d acts; want %d events, acts: %v", c.events, total, acts, c.count, c.acts)
		}
		// Names that the kinds spell out are names that occur, or the seed's own.
		if c.acts {
			unused := slices.DeleteFunc(slices.Clone(kinds.Entries), func(e KindEntry) bool {
				return slices.ContainsFunc(names, func(n NameCount) bool { return engine.Glob(e.Pattern, n.Name) })
			})
			t.Logf("%s: not in %s: %v", c.kinds, c.events, unused)
		}
	}
}
