package engine_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs/settle-rules.md names every history, and only functions and tests that
// exist.
func TestDoc_NamesWhatIsThere(t *testing.T) {
	raw, err := os.ReadFile("../../docs/settle-rules.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(raw)
	histories, err := filepath.Glob("testdata/history/*.txtar")
	if err != nil || len(histories) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	for _, h := range histories {
		if !strings.Contains(doc, "(../internal/engine/"+h+")") {
			t.Errorf("%s is not named", h)
		}
	}
	for _, m := range regexp.MustCompile("`([a-z]+\\.go):([A-Za-z]+)`").FindAllStringSubmatch(doc, -1) {
		if source, err := os.ReadFile(m[1]); err != nil || !regexp.MustCompile(`(?m)^func (\([^)]*\) )?`+m[2]+`\(`).Match(source) {
			t.Errorf("%s:%s is not there (%v)", m[1], m[2], err)
		}
	}
	tests := ""
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		source, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tests += string(source)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z_]+)`").FindAllStringSubmatch(doc, -1)
	if len(named) < 10 {
		t.Errorf("%d tests are named", len(named))
	}
	for _, m := range named {
		if !strings.Contains(tests, "func "+m[1]+"(") {
			t.Errorf("%s is not there", m[1])
		}
	}
}
