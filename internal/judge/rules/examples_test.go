package rules_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"attend/examples"
	"attend/internal/judge/rules"
)

// Every example loads, and is pure.
func TestExamples(t *testing.T) {
	files, err := fs.Glob(examples.Files, "rules/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, %v: want three", len(files), err)
	}
	for _, file := range files {
		text, err := examples.Files.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s, mistakes := rules.Load(string(text))
		for _, m := range mistakes {
			t.Errorf("%s:%d:%d: %s", file, m.Line, m.Column, m.Problem)
		}
		if s != nil && !s.Pure() {
			t.Errorf("%s is not pure", file)
		}
	}
}

// The rules and overrides that the documentation shows are right.
func TestDocumentation(t *testing.T) {
	page, err := os.ReadFile("../../../docs/judges-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	files, overrides := 0, 0
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		text := block[1]
		if !strings.Contains(text, "override:") {
			files++
			if mistakes := rules.Check(text); len(mistakes) > 0 {
				t.Errorf("%v in\n%s", mistakes, text)
			}
			continue
		}
		for _, when := range regexp.MustCompile(`when: (.*)`).FindAllStringSubmatch(text, -1) {
			overrides++
			if mistakes := rules.CheckOverride(when[1]); len(mistakes) > 0 {
				t.Errorf("%v in %s", mistakes, when[1])
			}
		}
	}
	if files < 2 || overrides < 2 {
		t.Errorf("the page shows %d files and %d overrides: the test looked at nothing", files, overrides)
	}
}
