//go:build unix

package program_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"attend/internal/program"
)

// The commands that are tested are this binary itself, in a role.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if role, ok := strings.CutPrefix(os.Args[1], "role:"); ok {
			syscall.Exit(play(role, os.Args[2:])) // at once: under the race detector os.Exit takes a second
		}
	}
	goleak.VerifyTestMain(m)
}

// play is the whole life of a command. It returns its exit status.
func play(role string, args []string) int {
	switch role {
	case "echo":
		_, _ = io.Copy(os.Stdout, os.Stdin)
	case "env":
		env := os.Environ()
		slices.Sort(env)
		fmt.Fprintln(os.Stdout, strings.Join(env, "\n"))
	case "args":
		fmt.Fprintf(os.Stdout, "%q", args)
	case "dir":
		dir, _ := os.Getwd()
		fmt.Fprint(os.Stdout, dir)
	case "fail":
		fmt.Fprint(os.Stderr, args[1])
		return map[string]int{"1": 1, "3": 3, "65": 65}[args[0]]
	case "say": // much, with an end
		fmt.Fprint(os.Stderr, strings.Repeat("x", 1<<16), args[0])
		fmt.Fprint(os.Stdout, "done")
	case "deaf":
		_ = os.Stdin.Close()
		fmt.Fprint(os.Stdout, "done")
	case "flood":
		for {
			if _, err := fmt.Fprintln(os.Stdout, strings.Repeat("flood ", 1000)); err != nil {
				return 1
			}
		}
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		wait()
	case "stay": // until it is told to end
		defer dial(args[0]).Close()
		wait()
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
		defer dial(args[0]).Close()
		wait()
	case "polite": // ends well when it is asked to
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGTERM)
		defer dial(args[0]).Close()
		<-asked
	case "fork":
		return fork(args[0], &syscall.SysProcAttr{})
	case "escape": // leaves the group
		return fork(args[0], &syscall.SysProcAttr{Setsid: true})
	case "daemon": // runs a program until it is killed itself
		s, err := program.New(program.Options{Command: []string{os.Args[0], "role:stubborn", args[0]}}, os.Environ())
		if err == nil {
			_, err = program.Run(context.Background(), s, nil)
		}
		fmt.Fprint(os.Stderr, err)
		return 96
	case "child":
		_, _ = io.Copy(io.Discard, os.NewFile(3, "connection")) // until the test has ended
	default:
		return 99
	}
	return 0
}

// fork leaves a child behind, which holds everything that it was given.
func fork(addr string, attr *syscall.SysProcAttr) int {
	conn, err := dial(addr).(*net.TCPConn).File()
	if err != nil {
		return 98
	}
	cmd := exec.Command(os.Args[0], "role:child")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{conn}
	cmd.SysProcAttr = attr
	if err := cmd.Start(); err != nil {
		return 97
	}
	fmt.Fprint(os.Stdout, "done")
	return 0
}

// wait waits for a signal that nobody sends.
func wait() {
	never := make(chan os.Signal, 1)
	signal.Notify(never, syscall.SIGUSR2)
	<-never
}

func dial(addr string) net.Conn {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		panic(err)
	}
	return conn
}

// life is a connection that lasts as long as a process and its children do.
type life struct {
	t        *testing.T
	listener net.Listener
	conn     net.Conn
}

func newLife(t *testing.T) *life {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return &life{t: t, listener: l}
}

func (l *life) addr() string { return l.listener.Addr().String() }

// begun waits until the process is there.
func (l *life) begun() {
	l.t.Helper()
	conn, err := l.listener.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	l.conn = conn
	l.t.Cleanup(func() { _ = conn.Close() })
}

// over waits until no process is left that holds the connection.
func (l *life) over() {
	l.t.Helper()
	_ = l.conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := l.conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		l.t.Errorf("a process is left behind: %v", err)
	}
}

// role returns a command in a role, its variables besides.
func role(t *testing.T, o program.Options, role string, args ...string) program.Spec {
	t.Helper()
	o.Command = append([]string{os.Args[0], "role:" + role}, args...)
	s, err := program.New(o, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
			t.Errorf("a child has not been waited for: pid %d, %v", pid, err)
		}
	})
	return s.WithGrace(50 * time.Millisecond)
}
