package config

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

func TestLoadKinds(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "kinds.json", "\ufeff{\"a\\/b\": \"flush\"}\r\n")
	write(t, "kinds.yml", "a/b: flush # and a comment\n")
	write(t, "kinds", `{"a/b": "flush"}`)
	write(t, "empty.yaml", "# nothing yet\n")
	want := map[string]engine.Kind{"a/b": engine.Flush}
	for _, source := range []string{"kinds.json", "kinds.yml", "kinds", ` {"a/b": "flush"}`} {
		got, err := LoadKinds(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		if diff := cmp.Diff(want, got.Map()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", source, diff)
		}
	}
	if got, err := LoadKinds("empty.yaml"); err != nil || len(got.Entries) != 0 {
		t.Errorf("a file with nothing but a comment: %v, %v", got, err)
	}
}

func TestLoadKinds_Refuses(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "large.json", `{"a": "flush"`+strings.Repeat(" ", maxFileBytes)+"}")
	if err := os.Mkdir("folder.json", 0o700); err != nil {
		t.Fatal(err)
	}
	for source, want := range map[string]string{
		"":                  `kinds: file "" cannot be read: no such file or directory`,
		"folder.json":       `kinds: file "folder.json" cannot be read: is a directory`,
		"large.json":        `kinds: file "large.json" is larger than 4194304 bytes, the most that is read`,
		`{"a": "flsh"}`:     `kinds:1:7: "a": is "flsh": unknown kind; did you mean flush?`,
		"{\"a\": \"\xff\"}": `kinds:1:8: not valid JSON: invalid UTF-8`,
	} {
		if _, err := LoadKinds(source); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", clip(source), err, want)
		}
	}
}

// What a file may hold is bounded, and what is beyond the bound is said.
func TestLoad_Bounds(t *testing.T) {
	t.Chdir(t.TempDir())
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	long := strings.Repeat("x", maxTextBytes+1)
	for content, want := range map[string]string{
		"policy: {retryBackoffMs: [" + strings.Repeat("1,", 101) + "]}": "attend.yaml:1:26: policy.retryBackoffMs: has 101 rungs: may have at most 100",
		"predicates:\n" + many(200, "  q%d: Is it?\n"):                  "attend.yaml:2:3: predicates: has 200 questions: may have at most 199",
		"guidance: " + long: "attend.yaml:1:11: guidance: has 16385 bytes: may have at most 16384",
		"kinds:\n  ? " + strings.Repeat("x", 1025) + "\n  : flush\n": "attend.yaml:2:5: kinds.\"" + strings.Repeat("x", 80) + "…\": has 1025 bytes: may have at most 1024",
		"policy: {retryJitter: many}":                                `attend.yaml:1:23: policy.retryJitter: is "many": must be a number`,
		"policy: {retryJitter: .inf}":                                `attend.yaml:1:23: policy.retryJitter: is .inf: must be a number`,
		"allowedHosts: [a.example, {b: c}]":                          "attend.yaml:1:27: allowedHosts: is an object: must be text",
		"? [port]\n: 1\n":                                            "attend.yaml:1:3: a key is a list: must be text",
	} {
		write(t, DefaultFile, content)
		if _, err := Load(nil, nil); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", clip(content), err, want)
		}
	}
	write(t, DefaultFile, "")
	if _, err := Load(nil, []string{"ATTEND_GUIDANCE=" + long}); err == nil || err.Error() != "ATTEND_GUIDANCE: has 16385 bytes: may have at most 16384" {
		t.Errorf("guidance in a variable: %v", err)
	}
}
