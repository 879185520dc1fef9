package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes the test binary the real command when it is run under the
// command's name: scripts, and tests that need a process, run it so.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"attend": func() { os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())) },
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("TZ", "UTC")
			e.Setenv("ATTEND_PORT", "0")
			e.Values[servedKey{}] = new(scriptDaemon)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"daemon":   startDaemon,
			"shutdown": stopDaemon,
			"until":    untilLine,
		},
	})
}

// withoutAttend leaves out the variables that a daemon would take for its own
// configuration: those of whoever runs the tests.
func withoutAttend(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, "ATTEND_") })
}

// runMain runs one command line in this process.
func runMain(t *testing.T, env []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(args, strings.NewReader(""), &out, &errs, env)
	return code, out.String(), errs.String()
}

func TestMain_ExitCodes(t *testing.T) {
	nobody := []string{"ATTEND_URL=http://127.0.0.1:1"} // no daemon listens there
	for _, c := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"version", exitOK, "attend ", ""},
		{"help", exitOK, "Available Commands:", ""},
		{"", exitOK, "Available Commands:", ""},
		{"log", exitOK, "export", ""},
		{"tail --help", exitOK, "--cursor-file", ""},
		{"completion bash", exitOK, "bash completion", ""},
		{"flsh", exitUsage, "", `unknown command "flsh"`},
		{"tail --nothing", exitUsage, "", "unknown flag: --nothing"},
		{"tail here", exitUsage, "", "attend tail takes no arguments"},
		{"tail -o yaml", exitUsage, "", "want text or json"},
		{"flush", exitUsage, "", "attend flush takes 1 argument, SCOPE"},
		{"flush a b", exitUsage, "", "attend flush takes 1 argument, SCOPE"},
		{"field", exitOK, "Available Commands:", ""},
		{"field forget", exitUsage, "", `unknown command "forget" for "attend field"`},
		{"field write", exitUsage, "", "attend field write takes 1 argument, ENTRY"},
		{"field supersede a", exitUsage, "", "attend field supersede takes 2 arguments, ID ENTRY"},
		{"field attune --max-units few", exitUsage, "", "invalid argument \"few\""},
		{"field attune", exitFailed, "", "no answer from http://127.0.0.1:1"},
		{"field write -", exitFailed, "", "ENTRY is not JSON"},
		{"ready", exitFailed, "", "not ready: no answer from http://127.0.0.1:1"},
		{"ready --url nowhere", exitFailed, "", `--url "nowhere"`},
		{"flush a", exitFailed, "", "no answer from http://127.0.0.1:1"},
		{"tail --once", exitFailed, "", "no answer from http://127.0.0.1:1"},
		{"tail --limit -1", exitFailed, "", "--limit -1"},
		{"tail --from=", exitFailed, "", "--from: want start, now or a cursor"},
		{"log export --after -1", exitFailed, "", "--after -1"},
		{"log export --store memory", exitFailed, "", "read it over HTTP"},
		{"serve --port many", exitFailed, "", "--port"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Chdir(t.TempDir()) // no attend.yaml, no attend.db
			code, stdout, stderr := runMain(t, nobody, strings.Fields(c.args)...)
			if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
				t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", code, c.code, stdout, stderr)
			}
			if c.stderr == "" && stderr != "" {
				t.Errorf("stderr: %s", stderr)
			}
		})
	}
}
