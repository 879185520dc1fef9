package arch

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// maxLines is the length of a source file that one can still hold in mind.
// Tests may be longer: their tables are.
const maxLines = 500

// drawers are package names that say nothing, so that everything ends up in
// them.
var drawers = []string{"util", "utils", "common", "types", "helper", "helpers", "misc", "shared", "base", "lib", "core", "models"}

// machinePath matches an absolute path into a developer's or a builder's own
// folders. Such a path works on one machine alone.
var machinePath = regexp.MustCompile("(?m)(?:^|[\\s\"'`(=:])/(?:work|farm|root|home|Users|mnt)/[A-Za-z0-9._-]+")

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fileFindings checks one file of the project, given by its path in it.
func fileFindings(rel string, content []byte) []string {
	var found []string
	if strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go") {
		if n := bytes.Count(content, []byte("\n")); n > maxLines {
			found = append(found, fmt.Sprintf("%s has %d lines: split it by noun or verb before %d", rel, n, maxLines))
		}
	}
	if strings.HasSuffix(rel, ".go") {
		for element := range strings.SplitSeq(filepath.ToSlash(filepath.Dir(rel)), "/") {
			if slices.Contains(drawers, element) {
				found = append(found, fmt.Sprintf("%s: a package called %q is a drawer: name what is in it", rel, element))
			}
		}
	}
	// Paths in a Dockerfile are the container's own.
	if at := machinePath.FindIndex(content); at != nil && utf8.Valid(content) && rel != "Dockerfile" {
		line := 1 + bytes.Count(content[:at[1]], []byte("\n"))
		found = append(found, fmt.Sprintf("%s:%d: %s is a path on one machine", rel, line, bytes.TrimSpace(content[at[0]:at[1]])))
	}
	return found
}

// projectFiles visits every file that belongs to the project.
func projectFiles(t testing.TB, visit func(rel string, content []byte)) {
	t.Helper()
	top := root(t)
	// What .gitignore names, and git's own folder.
	skipped := []string{".git", "bin", "dist", "e2e/node_modules"}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		if d.IsDir() && (slices.Contains(skipped, rel) || d.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || strings.Contains(filepath.Base(rel), ".db") {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		visit(filepath.ToSlash(rel), content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestFiles_Rules(t *testing.T) {
	seen := 0
	projectFiles(t, func(rel string, content []byte) {
		seen++
		for _, f := range fileFindings(rel, content) {
			t.Error(f)
		}
	})
	if seen < 10 {
		t.Fatalf("found %d files: the rules looked at nothing", seen)
	}
}

func TestFiles_RulesFail(t *testing.T) {
	long := bytes.Repeat([]byte("\n"), maxLines+1)
	for _, c := range []struct {
		rel, content string
		findings     int
	}{
		{"internal/engine/fold.go", "package engine\n", 0},
		{"internal/engine/fold_test.go", string(long), 0},
		{"README.md", "see `internal/engine`, /data and https://example.org/home/page\n", 0},

		{"internal/engine/fold.go", string(long), 1},
		{"internal/util/x.go", "package util\n", 1},
		{"internal/api/types/x.go", "package types\n", 1},
		{"docs/x.md", "run " + "/home/" + "me/attend\n", 1},
		{"x.go", "const p = \"" + "/work/" + "main\"\n", 1},
		{"x.sh", "cd " + "/root/" + "go\n", 1},
	} {
		if got := fileFindings(c.rel, []byte(c.content)); len(got) != c.findings {
			t.Errorf("%s: findings %q, want %d", c.rel, got, c.findings)
		}
	}
}
