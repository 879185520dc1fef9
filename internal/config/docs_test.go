package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"attend/internal/judge/rules"
)

// Every configuration on the pages about judges can be used as it stands.
func TestDocs_JudgesLoad(t *testing.T) {
	pages, err := filepath.Glob("../../docs/judges*.md")
	if err != nil || len(pages) < 4 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```")
	env := []string{"TYPESAFE_API_KEY=a-key", "OPENAI_API_KEY=a-key", "ANTHROPIC_API_KEY=a-key", "GEMINI_API_KEY=a-key", "JUDGE_TOKEN=a-token", "CAPTURE_KEY=a-key"}
	loaded := 0
	for _, page := range pages {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(filepath.Base(page), func(t *testing.T) {
			t.Chdir(t.TempDir())
			write(t, "rules.yaml", "rules: []\ndefault: skip\n")
			for _, m := range block.FindAllStringSubmatch(string(b), -1) {
				loaded++
				if regexp.MustCompile(`(?m)^default:`).MatchString(m[1]) {
					for _, mistake := range rules.Check(m[1]) {
						t.Errorf("line %d: %s\n%s", mistake.Line, mistake.Problem, m[1])
					}
					continue
				}
				text := m[1]
				if !strings.Contains(text, "kinds:") {
					text += "kinds: {a: flush}\n"
				}
				write(t, DefaultFile, text)
				if _, err := Load(nil, env); err != nil {
					t.Errorf("%v\n%s", err, text)
				}
			}
		})
	}
	if loaded < 6 {
		t.Errorf("%d configurations were loaded", loaded)
	}
}
