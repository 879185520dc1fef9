package app_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What docs/hooks.md tells people to configure and to type, typed.
func TestHooks_ThePageDoesWhatItSays(t *testing.T) {
	page, err := os.ReadFile("../../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	config, scripts := "hooks:\n", []string(nil)
	for _, m := range regexp.MustCompile("(?s)```(yaml|sh)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		switch language, text := m[1], m[2]; {
		case language == "yaml" && !strings.HasPrefix(text, "receivers:"): // those are Alertmanager's own
			config += strings.TrimPrefix(text, "hooks:\n")
		case language == "sh" && !strings.Contains(text, "attend serve"):
			scripts = append(scripts, text)
		}
	}
	file := filepath.Join(t.TempDir(), "attend.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"GITHUB_WEBHOOK_SECRET=a-secret-of-github-for-the-page", "ALERTS_TOKEN=a-token-of-alertmanager-for-the-page", "BUS_TOKEN=a-token-of-a-bus-for-the-page",
		"STD_SECRET=whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "SHOP_SECRET=a-secret-of-a-shop-for-the-page",
	}
	d := run(t, env, "--config", file, "--kinds", `{"*":"context"}`)
	var got []string
	for _, script := range scripts {
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(script, "http://127.0.0.1:8787", d.url))
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v", script, err)
		}
		got = append(got, strings.Fields(string(out))...)
	}
	const taken, again = `{"accepted":1,"duplicates":0}`, `{"accepted":0,"duplicates":1}`
	if diff := cmp.Diff([]string{taken, taken, taken, again, again, taken, taken}, got); diff != "" {
		t.Errorf("the page's commands answer otherwise (-want +got):\n%s", diff)
	}
}
