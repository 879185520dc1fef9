package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"github.com/spf13/pflag"
)

var update = flag.Bool("update", false, "rewrite the want sections of testdata/mistakes")

// Each archive in testdata/mistakes is a working directory, with the flags in
// args and the variables in env (one a line). Its want section is every
// mistake and warning, word for word.
func TestLoad_Mistakes(t *testing.T) {
	archives, err := filepath.Glob("testdata/mistakes/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, path := range archives {
		abs, err := filepath.Abs(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(abs)
			if err != nil {
				t.Fatal(err)
			}
			args, env, want := unpack(t, archive)
			c, mistakes := load(flagsOf(t, args...), env)
			got := lines(c, mistakes)
			if *update {
				rewriteWant(t, abs, archive, got)
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("mistakes and warnings (-want +got):\n%s", diff)
			}
		})
	}
}

// unpack writes the files of an archive into a new working directory.
func unpack(t *testing.T, archive *txtar.Archive) (args, env []string, want string) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, f := range archive.Files {
		switch f.Name {
		case "args":
			args = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
		case "env":
			env = strings.Split(strings.TrimSpace(string(f.Data)), "\n")
		case "want":
			want = string(f.Data)
		default:
			write(t, f.Name, string(f.Data))
		}
	}
	return args, env, want
}

func rewriteWant(t *testing.T, path string, archive *txtar.Archive, got string) {
	t.Helper()
	for i := range archive.Files {
		if archive.Files[i].Name == "want" {
			archive.Files[i].Data = []byte(got)
		}
	}
	if err := os.WriteFile(path, txtar.Format(archive), 0o600); err != nil {
		t.Fatal(err)
	}
}

func lines(c *Config, mistakes Mistakes) string {
	var b strings.Builder
	for _, m := range mistakes {
		b.WriteString(m.String() + "\n")
	}
	for _, w := range c.Warnings {
		b.WriteString("warning: " + w.String() + "\n")
	}
	return b.String()
}

func write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// flagsOf parses a command line as the daemon does.
func flagsOf(t testing.TB, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	Flags(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}
