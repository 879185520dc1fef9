package arch

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maxReadmeLines keeps the README a page that people read.
const maxReadmeLines = 250

var (
	docLink     = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)\s]*)?\)`)
	docMetric   = regexp.MustCompile("`(attend_[a-z_]+)")
	docVariable = regexp.MustCompile(`\b(ATTEND_[A-Z_]+[A-Z])\b`)
	docTarget   = regexp.MustCompile("(?m)(?:^|`)make ([a-z][a-z0-9]*)")
	docRoute    = regexp.MustCompile("`(?:(?:GET|POST|DELETE) )?(/(?:v1/|mcp|healthz|readyz|metrics)[A-Za-z0-9/{}]*)")
)

// project is what the docs may speak of.
type project struct {
	exists    func(rel string) bool // a file or folder
	source    string                // Go source, tests left out
	variables []string              // environment variables
	targets   []string              // of the Makefile
}

// docFindings checks one document: what it links to and names must exist.
func docFindings(rel, text string, p *project) []string {
	var found []string
	missing := func(what, name string) {
		found = append(found, fmt.Sprintf("%s: %s %s does not exist", rel, what, name))
	}
	for _, m := range docLink.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(m[1], "://") && !p.exists(path.Join(path.Dir(rel), m[1])) {
			missing("the linked file", m[1])
		}
	}
	for _, m := range docMetric.FindAllStringSubmatch(text, -1) {
		if !metricExists(p.source, m[1]) {
			missing("the metric", m[1])
		}
	}
	for _, m := range docVariable.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(p.variables, m[1]) {
			missing("the variable", m[1])
		}
	}
	for _, m := range docTarget.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(p.targets, m[1]) {
			missing("the target make", m[1])
		}
	}
	for _, m := range docRoute.FindAllStringSubmatch(text, -1) {
		if !strings.Contains(p.source, `"`+m[1]+`"`) {
			missing("the route", m[1])
		}
	}
	if n := strings.Count(text, "\n"); rel == "README.md" && n >= maxReadmeLines {
		found = append(found, fmt.Sprintf("%s has %d lines: keep it under %d, and move the rest to docs", rel, n, maxReadmeLines))
	}
	return found
}

// metricExists reports whether the source names a metric. A histogram's
// series have suffixes of their own. Tools are named attend_ too.
func metricExists(source, name string) bool {
	for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(name, suffix); ok && strings.Contains(source, `"`+base+`"`) {
			return true
		}
	}
	return false
}

// variables returns the environment variables of the daemon: those that the
// source names, and those that follow from the keys of attend.yaml.
func variables(source string) []string {
	set := make(map[string]bool)
	for _, m := range regexp.MustCompile(`"(ATTEND_[A-Z_]+)"`).FindAllStringSubmatch(source, -1) {
		set[m[1]] = true
	}
	upper := regexp.MustCompile(`[A-Z]`)
	for _, m := range regexp.MustCompile(`key: "([a-zA-Z.]+)"|key[A-Z]\w+\s*= "([a-zA-Z]+)"`).FindAllStringSubmatch(source, -1) {
		key := strings.ReplaceAll(m[1]+m[2], ".", "_")
		set["ATTEND_"+strings.ToUpper(upper.ReplaceAllString(key, "_$0"))] = true
	}
	return slices.Collect(maps.Keys(set))
}

func TestDocs_NameOnlyWhatExists(t *testing.T) {
	docs := make(map[string]string)
	p := &project{variables: []string{"ATTEND_REQUIRE_SERVICES", "ATTEND_CRASH_KILLS"}}
	var source strings.Builder
	projectFiles(t, func(rel string, content []byte) {
		switch {
		case strings.HasSuffix(rel, ".md"):
			docs[rel] = string(content)
		case strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go"):
			source.Write(content)
		case strings.HasSuffix(rel, ".sql"): // tables are named like metrics, and may be
			for _, m := range regexp.MustCompile(`CREATE TABLE @([a-z_]+)`).FindAllSubmatch(content, -1) {
				source.WriteString(`"attend_` + string(m[1]) + `"`)
			}
		case rel == "Makefile":
			for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z0-9]*):.* ## `).FindAllSubmatch(content, -1) {
				p.targets = append(p.targets, string(m[1]))
			}
		}
	})
	p.source = source.String()
	p.variables = append(p.variables, variables(p.source)...)
	p.exists = func(rel string) bool {
		m, err := filepath.Glob(filepath.Join(root(t), rel))
		return err == nil && len(m) == 1
	}
	if len(docs) < 5 || len(p.targets) < 5 || len(p.variables) < 5 {
		t.Fatalf("%d documents, targets %q, variables %q: the rules looked at nothing", len(docs), p.targets, p.variables)
	}
	for _, rel := range slices.Sorted(maps.Keys(docs)) {
		for _, f := range docFindings(rel, docs[rel], p) {
			t.Error(f)
		}
	}
}

func TestDocs_RulesFail(t *testing.T) {
	p := &project{
		exists:    func(rel string) bool { return rel == "docs/mcp.md" || rel == "LICENSE" },
		source:    `Name: "attend_settle_lag_seconds" r.Get("/v1/decisions/{id}") key: "actThreshold" "/metrics"`,
		variables: variables(`key: "actThreshold" key: "field.pushEveryMs"; const keyKinds  = "kinds"; os.Getenv("ATTEND_URL")`),
		targets:   []string{"test"},
	}
	for _, c := range []struct {
		rel, text string
		findings  int
	}{
		{"README.md", "[a](docs/mcp.md) [b](docs/mcp.md#x) [c](https://example.org/gone) [d](#here)\n", 0},
		{"docs/x.md", "[a](mcp.md) [b](../LICENSE)\n", 0},
		{"README.md", "`attend_settle_lag_seconds` `attend_settle_lag_seconds_bucket{le=\"1\"}` `make test` `GET /v1/decisions/{id}?x` `/metrics`\n", 0},
		{"README.md", "ATTEND_ACT_THRESHOLD, ATTEND_FIELD_PUSH_EVERY_MS, ATTEND_KINDS, ATTEND_URL\n", 0},

		{"README.md", "[a](docs/gone.md)\n", 1},
		{"docs/x.md", "[a](docs/mcp.md)\n", 1},
		{"README.md", "`attend_settle_lag_ms`\n", 1},
		{"README.md", "ATTEND_ACT_TRESHOLD\n", 1},
		{"README.md", "make tset\n", 1},
		{"README.md", "`POST /v1/flsh`\n", 1},
		{"README.md", strings.Repeat("\n", maxReadmeLines), 1},
		{"docs/long.md", strings.Repeat("\n", maxReadmeLines), 0},
	} {
		if got := docFindings(c.rel, c.text, p); len(got) != c.findings {
			t.Errorf("%s %q: findings %q, want %d", c.rel, c.text, got, c.findings)
		}
	}
}
