//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// baseline is what a run of the conformance tool is known to find. The tool
// has a baseline of its own, which holds a scenario, or passes over checks
// that were not made; here every check that fails is named, and why.
type baseline struct {
	Package string   // among the npm packages
	Args    []string // of its command "server"
	Passes  []string // scenarios that must have been run, and hold no failure
	Fails   []struct {
		Why    string
		Says   string   // a regular expression that fits the tool's every message
		Checks []string // scenario, or scenario:check where they differ
	}
}

func TestConformance(t *testing.T) {
	files, err := filepath.Glob("conformance/*.yaml")
	if err != nil || len(files) != 3 {
		t.Fatalf("baselines %q, %v: want three", files, err)
	}
	node := node(t)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			b := readBaseline(t, file)
			d := start(t, "")
			d.excused = []string{`msg="method removed in the new protocol"`} // the SDK's, when a scenario tries one
			for _, f := range b.compare(b.run(t, node, d.url+"/mcp")) {
				t.Error(f)
			}
		})
	}
}

func readBaseline(t *testing.T, file string) *baseline {
	t.Helper()
	text, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	b := new(baseline)
	decoder := yaml.NewDecoder(text)
	decoder.KnownFields(true)
	if err := decoder.Decode(b); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return b
}

// check is one finding of the tool.
type check struct {
	Scenario     string `json:"-"`
	ID           string
	Status       string
	ErrorMessage string
}

// name is how a baseline calls it.
func (c *check) name() string {
	if c.ID == c.Scenario {
		return c.Scenario
	}
	return c.Scenario + ":" + c.ID
}

// run has the tool look at a daemon, and returns everything that it has found.
// Its exit code only repeats that something fails.
func (b *baseline) run(t *testing.T, node, url string) []check {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), storyTime)
	defer cancel()
	dir := t.TempDir()
	tool := filepath.Join("node_modules", b.Package, "dist", "index.js")
	args := append([]string{tool, "server", "--url", url, "--output-dir", dir}, b.Args...)
	out, err := exec.CommandContext(ctx, node, args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !asExit(err, &exit) {
		t.Fatalf("%s: %v\n%s", tool, err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "server-*", "checks.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the tool has found nothing: %v\n%s", err, out)
	}
	// server-tools-list-2026-11-30T23-19-17-184Z
	folder := regexp.MustCompile(`^server-(.*)-\d{4}-\d\d-\d\dT[0-9-]+Z$`)
	var found []check
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []check
		if err := json.Unmarshal(text, &checks); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := folder.FindStringSubmatch(filepath.Base(filepath.Dir(file)))
		if name == nil {
			t.Fatalf("%s: no scenario", file)
		}
		for i := range checks {
			checks[i].Scenario = name[1]
		}
		found = append(found, checks...)
	}
	return found
}

func asExit(err error, into **exec.ExitError) bool {
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // os/exec returns it as it is
	*into = exit
	return ok
}

// compare returns every difference between what is known to fail and what does.
func (b *baseline) compare(found []check) []string {
	failing := make(map[string][]string) // messages by name
	passed := make(map[string]bool)      // scenarios with a success and no failure
	for _, c := range found {
		switch c.Status {
		case "FAILURE":
			failing[c.name()] = append(failing[c.name()], c.ErrorMessage)
			passed[c.Scenario] = false
		case "SUCCESS":
			if _, known := passed[c.Scenario]; !known {
				passed[c.Scenario] = true
			}
		}
	}
	var differences []string
	differ := func(name, what string) { differences = append(differences, name+": "+what) }
	for _, scenario := range b.Passes {
		if !passed[scenario] {
			differ(scenario, "it must pass, and fails or was not run")
		}
	}
	for _, group := range b.Fails {
		says, err := regexp.Compile(group.Says)
		if err != nil || group.Says == "" || len(group.Why) < 20 {
			differ(cmp.Or(group.Why, "a group"), "it needs a reason and an expression for what the tool says")
			continue
		}
		for _, name := range group.Checks {
			messages, fails := failing[name]
			if !fails {
				differ(name, "it is known to fail, and does so no longer: take it out of the baseline")
			}
			for _, message := range messages {
				if !says.MatchString(message) {
					differ(name, "it is known to fail ("+group.Why+"), but now for another reason: "+message)
				}
			}
			delete(failing, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(failing)) {
		differ(name, "it fails, and is not known to: "+strings.Join(failing[name], "; "))
	}
	return differences
}

// The comparison itself: what it must find.
func TestConformance_Compare(t *testing.T) {
	b := &baseline{Passes: []string{"good", "gone", "half"}}
	b.Fails = append(b.Fails, struct {
		Why, Says string
		Checks    []string
	}{"there are no prompts to be had here", "no prompts", []string{"known", "other:reason", "mended"}})
	got := b.compare([]check{
		{"good", "good", "SUCCESS", ""},
		{"good", "more", "WARNING", "could be better"},
		{"half", "one", "SUCCESS", ""},
		{"half", "two", "FAILURE", "broken"},
		{"known", "known", "FAILURE", "there are no prompts"},
		{"other", "reason", "FAILURE", "the connection broke"},
		{"mended", "mended", "SUCCESS", ""},
	})
	want := []string{
		"gone: it must pass, and fails or was not run",
		"half: it must pass, and fails or was not run",
		"other:reason: it is known to fail (there are no prompts to be had here), but now for another reason: the connection broke",
		"mended: it is known to fail, and does so no longer: take it out of the baseline",
		"half:two: it fails, and is not known to: broken",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
