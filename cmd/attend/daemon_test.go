package main

import (
	"bufio"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a test waits for what must come.
const patience = 30 * time.Second

// process of `attend serve`, as scripts and tests start it.
type served struct {
	cmd    *exec.Cmd
	url    string
	stderr *syncBuffer
}

// ofTheTests says whether a variable is for the tests: a daemon refuses ATTEND_
// variables that it does not know.
func ofTheTests(variable string) bool {
	return strings.HasPrefix(variable, "ATTEND_REQUIRE_") || strings.HasPrefix(variable, "ATTEND_CRASH_")
}

// serve starts `attend serve` and returns when it listens.
func serve(dir string, env []string, args ...string) (*served, error) {
	bin, err := exec.LookPath("attend") // the test binary, under the command's name
	if err != nil {
		return nil, err
	}
	s := &served{cmd: exec.Command(bin, append([]string{"serve"}, args...)...), stderr: new(syncBuffer)}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stderr = dir, slices.DeleteFunc(slices.Clone(env), ofTheTests), s.stderr
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "attend: listening on ")
	if err != nil || !ok {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		return nil, fmt.Errorf("it said %q in place of where it listens (%w)\n%s", line, err, s.stderr)
	}
	s.url = address
	return s, nil
}

// end sends a signal and waits for the process.
func (s *served) end(signal os.Signal) error {
	if err := s.cmd.Process.Signal(signal); err != nil {
		return err
	}
	return s.wait()
}

func (s *served) wait() error {
	slow := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	defer slow.Stop()
	return s.cmd.Wait()
}

// servedKey finds a script's daemon among its values.
type servedKey struct{}

// scriptDaemon is the daemon that a script runs, nil when it runs none.
type scriptDaemon struct{ *served }

// take returns the running daemon and leaves none.
func (d *scriptDaemon) take() *served {
	s := d.served
	d.served = nil
	return s
}

// startDaemon is the script command `daemon [args]`: it runs attend serve until
// shutdown or the script's end, and sets ATTEND_URL and ATTEND_PORT, unless it
// listens on a socket. A daemon that is started again listens where the first one
// did.
func startDaemon(ts *testscript.TestScript, neg bool, args []string) {
	s, err := serve(ts.Getenv("WORK"), scriptEnv(ts), args...)
	if neg {
		if err == nil {
			_ = s.end(os.Kill)
			ts.Fatalf("the daemon started")
		}
		ts.Check(os.WriteFile(ts.MkAbs("daemon.log"), []byte(err.Error()), 0o600))
		return
	}
	ts.Check(err)
	if !strings.HasPrefix(s.url, "unix:") {
		at, err := url.Parse(s.url)
		ts.Check(err)
		ts.Setenv("ATTEND_URL", s.url)
		ts.Setenv("ATTEND_PORT", at.Port())
	}
	script := daemonOf(ts)
	script.served = s
	ts.Defer(func() {
		if s := script.take(); s != nil {
			_ = s.end(os.Kill)
		}
	})
}

func daemonOf(ts *testscript.TestScript) *scriptDaemon {
	return ts.Value(servedKey{}).(*scriptDaemon)
}

// stopDaemon is the script command `shutdown [KILL]`: the daemon must end well,
// unless it is killed. Its log is then in daemon.log.
func stopDaemon(ts *testscript.TestScript, neg bool, args []string) {
	d := daemonOf(ts).take()
	if neg || d == nil {
		ts.Fatalf("no daemon runs")
	}
	if len(args) == 1 && args[0] == "KILL" {
		_ = d.end(os.Kill)
	} else if err := d.end(syscall.SIGTERM); err != nil {
		ts.Fatalf("the daemon ended with %v\n%s", err, d.stderr)
	}
	ts.Check(os.WriteFile(ts.MkAbs("daemon.log"), []byte(d.stderr.String()), 0o600))
}

// scriptEnv is the script's environment.
func scriptEnv(ts *testscript.TestScript) []string {
	var env []string
	for _, name := range []string{"HOME", "PATH", "TMPDIR", "TZ", "ATTEND_PORT", "ATTEND_TOKEN", "ATTEND_STORE", "ATTEND_KINDS", "ATTEND_LOG_FORMAT"} {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// untilLine is the script command `until FILE TEXT`: it waits until a line of
// the file holds the text.
func untilLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: until FILE TEXT")
	}
	for end := time.Now().Add(patience); ; {
		b, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && strings.Contains(string(b), args[1]) {
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("%s never held %q: %s (%v)", args[0], args[1], b, err)
		}
		time.Sleep(5 * time.Millisecond) //arch:sleep the poll of a condition
	}
}

// syncBuffer keeps what a process writes while others read it.
type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
