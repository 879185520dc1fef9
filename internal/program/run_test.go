//go:build unix

package program_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attend/internal/program"
)

func TestRun_GivesInputAndTakesOutput(t *testing.T) {
	in := bytes.Repeat([]byte("0123456789abcdef"), 1<<15) // half a MiB: more than a pipe holds
	out, err := program.Run(t.Context(), role(t, program.Options{}, "echo"), in)
	if err != nil || !bytes.Equal(out.Stdout, in) {
		t.Errorf("%d bytes came back of %d: %v", len(out.Stdout), len(in), err)
	}
	out, err = program.Run(t.Context(), role(t, program.Options{}, "echo"), nil)
	if err != nil || len(out.Stdout) != 0 {
		t.Errorf("of no input: %q, %v", out.Stdout, err)
	}
}

func TestRun_NobodyNeedsToReadTheInput(t *testing.T) {
	out, err := program.Run(t.Context(), role(t, program.Options{}, "deaf"), make([]byte, 2<<20))
	if err != nil || string(out.Stdout) != "done" {
		t.Errorf("%q, %v", out.Stdout, err)
	}
}

func TestRun_ArgumentsAreNotExpanded(t *testing.T) {
	out, err := program.Run(t.Context(), role(t, program.Options{}, "args", "$HOME", "*", "; rm -rf x", ""), nil)
	if want := `["$HOME" "*" "; rm -rf x" ""]`; err != nil || string(out.Stdout) != want {
		t.Errorf("%s, %v, want %s", out.Stdout, err, want)
	}
}

func TestRun_ExitStatuses(t *testing.T) {
	for _, c := range []struct {
		role      string
		args      []string
		code      int
		permanent bool
		says      string
	}{
		{"fail", []string{"1", "Traceback\n\tValueError\n"}, 1, false, `command program.test ended with status 1: Traceback\n\tValueError`},
		{"fail", []string{"65", ""}, 65, true, "command program.test ended with status 65"},
		{"fail", []string{"3", "\x1b[31mred\xff"}, 3, false, `ended with status 3: \u001b[31mred\ufffd`},
		{"die", nil, -1, false, "command program.test died: signal: killed"},
	} {
		_, err := program.Run(t.Context(), role(t, program.Options{}, c.role, c.args...), []byte("the state"))
		var e *program.Error
		if !errors.As(err, &e) || e.Code != c.code || e.Permanent() != c.permanent || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%s %q: %#v %v, want %q", c.role, c.args, e, err, c.says)
		}
	}
}

func TestRun_OutputIsBounded(t *testing.T) {
	_, err := program.Run(t.Context(), role(t, program.Options{}, "flood"), nil)
	if err == nil || !strings.Contains(err.Error(), "wrote more than 1048576 bytes to its standard output") {
		t.Errorf("a flood: %v", err)
	}
	limited := role(t, program.Options{}, "echo").Bounded(4)
	if out, err := program.Run(t.Context(), limited, []byte("1234")); err != nil || string(out.Stdout) != "1234" {
		t.Errorf("up to the limit: %q, %v", out.Stdout, err)
	}
	if _, err := program.Run(t.Context(), limited, []byte("12345")); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("past the limit: %v", err)
	}
}

func TestRun_EndsWithItsContext(t *testing.T) {
	for _, name := range []string{"stay", "polite", "stubborn"} {
		t.Run(name, func(t *testing.T) {
			l := newLife(t)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				l.begun()
				cancel()
			}()
			_, err := program.Run(ctx, role(t, program.Options{}, name, l.addr()), make([]byte, 2<<20))
			var e *program.Error
			if !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Code != -1 || e.Permanent() {
				t.Errorf("%v", err)
			}
			l.over()
		})
	}
}

func TestRun_DoesNotStartAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err := program.Run(ctx, role(t, program.Options{}, "echo"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

func TestRun_SaysItsTimeout(t *testing.T) {
	l := newLife(t)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Millisecond)
	defer cancel()
	if _, err := program.Run(ctx, role(t, program.Options{}, "stay", l.addr()), nil); err == nil || !strings.HasSuffix(err.Error(), " gave no answer within 40 ms") {
		t.Errorf("a program that is at its timeout: %v", err)
	}
}

func TestRun_AForkThatStaysIsEnded(t *testing.T) {
	l := newLife(t)
	out, err := program.Run(t.Context(), role(t, program.Options{}, "fork", l.addr()), []byte("x"))
	if err != nil || string(out.Stdout) != "done" {
		t.Errorf("%q, %v", out.Stdout, err)
	}
	l.begun()
	l.over()
}

// What a program leaves behind may hold its pipes: that it has ended counts, and
// not the grace that one which is told to end has.
func TestRun_WhatIsLeftBehindHoldsNobodyUp(t *testing.T) {
	for _, name := range []string{"fork", "escape"} {
		l := newLife(t)
		out, err := program.Run(t.Context(), role(t, program.Options{}, name, l.addr()).WithGrace(time.Hour), make([]byte, 2<<20))
		if err != nil || string(out.Stdout) != "done" {
			t.Errorf("%s: %q, %v", name, out.Stdout, err)
		}
		l.begun() // and it ends with the connection
	}
}

func TestRun_AProgramThatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "judge")
	if err := os.WriteFile(path, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := program.New(program.Options{Command: []string{path}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var e *program.Error
	if _, err := program.Run(t.Context(), s, nil); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &e) || e.Permanent() || !strings.Contains(err.Error(), "command judge did not start") {
		t.Errorf("no interpreter: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := program.Run(t.Context(), s, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
}

func TestRun_WhatItSaysIsBoundedAndHoldsNoSecret(t *testing.T) {
	const secret = "sk-0123456789abcdef"
	o := program.Options{Env: map[string]string{"KEY": secret, "MODE": "on"}}
	out, err := program.Run(t.Context(), role(t, o, "say", "mode on, key "+secret+"\n"), nil)
	if err != nil || !strings.HasSuffix(out.Stderr, "xmode on, key [hidden]") || len(out.Stderr) > 8<<10 || len(out.Stderr) < 8<<10-10 {
		t.Errorf("%d bytes, the last %q: %v", len(out.Stderr), out.Stderr[max(0, len(out.Stderr)-40):], err)
	}
	_, err = program.Run(t.Context(), role(t, o, "fail", "1", "key "+secret), nil)
	if err == nil || strings.Contains(err.Error(), secret) || !strings.HasSuffix(err.Error(), "key [hidden]") {
		t.Errorf("%v", err)
	}
}

func TestTail_ASecretIsHiddenWhereverItIsCut(t *testing.T) {
	const secret = "abcdefghijklmnop"
	s, err := program.New(program.Options{Command: []string{os.Args[0]}, Env: map[string]string{"KEY": secret, "OTHER": "qrstuvwx"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for after := 8<<10 - 40; after < 8<<10+40; after++ {
		tail := s.Tail()
		for _, part := range []string{strings.Repeat(".", 100), secret[:5], secret[5:], strings.Repeat("-", after)} {
			if _, err := tail.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		if got := tail.String(); strings.ContainsAny(got, "abcfgjklmop") || len(got) > 8<<10 { // the letters that "[hidden]" has not
			t.Errorf("%d bytes after it: %d bytes, %.40q", after, len(got), got)
		}
	}
}

func TestCmd_LivesUntilTheContextEnds(t *testing.T) {
	l := newLife(t)
	ctx, cancel := context.WithCancel(t.Context())
	cmd := role(t, program.Options{}, "stay", l.addr()).Cmd(ctx)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l.begun()
	cancel()
	if err := cmd.Wait(); err == nil {
		t.Error("it ended well")
	}
	program.End(cmd)
	l.over()
}
