package rules_test

import (
	"io/fs"
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
