//go:build unix

package sink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"attend/internal/program"
)

// The commands that are run are this binary itself, in a role.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := strings.CutPrefix(os.Args[1], "role:"); ok {
			syscall.Exit(play(role, os.Args[2:]))
		}
	}
	goleak.VerifyTestMain(m)
}

// play is the whole life of a command. It returns its exit status.
func play(role string, args []string) int {
	switch role {
	case "keep":
		b, err := io.ReadAll(os.Stdin)
		if err != nil || os.WriteFile(args[0], b, 0o600) != nil {
			return 1
		}
	case "fail":
		fmt.Fprint(os.Stderr, "no agent at "+os.Getenv("TOKEN"))
		code, _ := strconv.Atoi(args[0])
		return code
	case "chatter":
		for range 1 << 10 {
			if _, err := fmt.Fprintln(os.Stdout, strings.Repeat("taken ", 50)); err != nil {
				return 1
			}
		}
	case "hang":
		never := make(chan os.Signal, 1)
		signal.Notify(never, syscall.SIGHUP)
		<-never
	}
	return 0
}

func role(t *testing.T, args ...string) *Command {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec, err := program.New(program.Options{Command: append([]string{self}, args...), Env: map[string]string{"TOKEN": "hidden-token"}}, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	return NewCommand(spec)
}

func TestCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "decision")
	if err := role(t, "role:keep", file).Deliver(t.Context(), message()); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != `{"id":"w1"}` {
		t.Errorf("the command was given %q, %v", b, err)
	}
	for code, never := range map[string]bool{"1": false, "64": false, "65": true, "66": false} {
		err := role(t, "role:fail", code).Deliver(t.Context(), message())
		e := (*Error)(nil)
		if !errors.As(err, &e) || e.Permanent() != never || !strings.Contains(err.Error(), "status "+code) || strings.Contains(err.Error(), "hidden-token") {
			t.Errorf("status %s: %v", code, err)
		}
	}
}

// What a command says on its standard output is nobody's, however much it is.
func TestCommand_SaysMuch(t *testing.T) {
	if err := role(t, "role:chatter").Deliver(t.Context(), message()); err != nil {
		t.Error(err)
	}
}

// A command that hangs is ended before its attempt's time is over: nothing of
// it is left when somebody else may try.
func TestCommand_Hangs(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	err := role(t, "role:hang").Deliver(ctx, message())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if ctx.Err() != nil {
		t.Error("it was ended too late")
	}
}
