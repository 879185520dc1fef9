//go:build !windows

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inFile starts the real daemon on a folder with an attend.yaml.
func inFile(t *testing.T, dir, content string) *served {
	t.Helper()
	writeConfig(t, dir, content)
	s, err := serve(dir, withoutAttend(os.Environ()), "--port", "0", "--kinds", `{"build.*":"closing"}`, "--store", "sqlite:attend.db")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func writeConfig(t *testing.T, dir, content string) {
	t.Helper()
	file := filepath.Join(dir, "attend.yaml")
	if err := os.WriteFile(file+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// ask sends a request and decodes the answer, unless into is nil.
func (s *served) ask(t *testing.T, method, path, body string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: status %d: %s (%v)", method, path, resp.StatusCode, b, err)
	}
	if into != nil {
		if err := json.Unmarshal(b, into); err != nil {
			t.Fatalf("%v in %s", err, b)
		}
	}
}

// policy is the number of the policy in force.
func (s *served) policy(t *testing.T) (policy int) {
	t.Helper()
	var view struct{ Policy int }
	s.ask(t, http.MethodGet, "/v1/scopes/any", "", &view)
	return view.Policy
}

// A SIGHUP has the file read again; with a mistake in it the daemon goes on as it
// was, and says why.
func TestReload_OnHangup(t *testing.T) {
	dir := t.TempDir()
	s := inFile(t, dir, "guidance: one\n")
	hangup := func(content string) {
		t.Helper()
		writeConfig(t, dir, content)
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	hangup("guidance: two\n")
	s.until(t, "the second policy is in force", func() bool { return s.policy(t) == 2 })
	hangup("guidance: three\npolicy: {maxEvents: 0}\n")
	s.until(t, "the mistake is told", func() bool {
		return strings.Contains(s.stderr.String(), "nothing has changed") && strings.Contains(s.stderr.String(), "policy.maxEvents")
	})
	if got := s.policy(t); got != 2 {
		t.Errorf("policy %d is in force", got)
	}
	hangup("guidance: three\n")
	s.until(t, "the third is", func() bool { return s.policy(t) == 3 })
	if err := s.end(os.Interrupt); err != nil {
		t.Error(err)
	}
}

// A daemon that is killed while it reloads starts with the file as it is, with
// every policy numbered once and every silence made once.
func TestReload_KilledInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	config := func(i int) string {
		return fmt.Sprintf("guidance: round %d\nsilences: [{scope: 'quiet:%d', why: round %d}]\n", i, i, i)
	}
	last := 1
	for i := range 12 {
		s := inFile(t, dir, config(i))
		if got := s.policy(t); got < last || got > last+1 {
			t.Errorf("round %d: policy %d is in force after %d", i, got, last)
		}
		var list struct{ Silences []struct{ Scope string } }
		s.ask(t, http.MethodGet, "/v1/silences", "", &list)
		if len(list.Silences) != 1 || list.Silences[0].Scope != fmt.Sprintf("quiet:%d", i) {
			t.Errorf("round %d: silenced is %v", i, list.Silences)
		}
		last = s.policy(t)
		writeConfig(t, dir, config(i+1))
		if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		deadline := time.Duration(i) * 500 * time.Microsecond // somewhere in it
		time.Sleep(deadline)                                  //arch:sleep the fault is to come at an instant of its own
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = s.cmd.Wait()
	}
}

// A daemon that is stopped over a deadline, as in a suspend, settles its window
// within a second of going on.
func TestServe_StoppedOverADeadline(t *testing.T) {
	s := inFile(t, t.TempDir(), "policy: {closingGraceMs: 1500}\n")
	s.ask(t, http.MethodPost, "/v1/ingest", `{"scope":"a","id":"1","name":"build.failed"}`, nil)
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second) //arch:sleep for so long it stands still
	woken := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	var page struct {
		Decisions []struct{ At, Due, SettledAt int64 }
	}
	s.ask(t, http.MethodGet, "/v1/decisions?waitMs=20000", "", &page)
	if len(page.Decisions) != 1 {
		t.Fatalf("decided: %v", page.Decisions)
	}
	d := page.Decisions[0]
	if late := d.SettledAt - woken.UnixMilli(); late > 1000 {
		t.Errorf("it is settled %d ms after the daemon goes on", late)
	}
	if due := time.UnixMilli(d.Due); due.After(woken) {
		t.Errorf("it was due at %v, and goes on at %v", due, woken)
	}
	if err := s.end(os.Interrupt); err != nil {
		t.Error(err)
	}
}

// What would be waited for without an end, as a pipe that nobody writes to, is
// refused on a reload; the daemon goes on, loads a file again, and ends.
func TestReload_OfAPipe(t *testing.T) {
	dir := t.TempDir()
	s := inFile(t, dir, "guidance: one\n")
	pipe := filepath.Join(dir, "attend.yaml")
	if err := os.Remove(pipe); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.until(t, "the pipe is refused", func() bool { return strings.Contains(s.stderr.String(), "no regular file") })
	writeConfig(t, dir, "guidance: two\n")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.until(t, "the second policy is in force", func() bool { return s.policy(t) == 2 })
	if err := s.end(os.Interrupt); err != nil {
		t.Error(err)
	}
}
