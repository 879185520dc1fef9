// Command attend decides when an event should wake an agent. It is a daemon
// (attend serve) and the small commands that people use beside it.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

func main() {
	os.Exit(Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// Exit codes of every command.
const (
	exitOK     = 0
	exitFailed = 1 // the command ran and did not reach its goal
	exitUsage  = 2 // the command line could not be understood
)

// Main runs one command line and returns the exit code. It is the whole
// program but for the process that carries it: tests call it, or run a binary
// that does nothing else.
//
// The first SIGINT or SIGTERM ends the command's context; the second meets the
// system's default and ends the process at once.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	p := &process{env: env}
	root := newRoot(p)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)

	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return exitOK
	case !p.started:
		fmt.Fprintf(stderr, "attend: %v\nTry 'attend help'.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "attend: %v\n", err)
		return exitFailed
	}
}

// process is what a command may know of the process that runs it, besides the
// streams, which cobra hands out.
type process struct {
	env     []string // NAME=value, as os.Environ gives them
	started bool     // the command line was understood and the command began
}

// getenv returns the variable's value, "" when it is not set. As in a shell,
// the last of several counts.
func (p *process) getenv(name string) string {
	for i := len(p.env) - 1; i >= 0; i-- {
		if key, value, ok := strings.Cut(p.env[i], "="); ok && key == name {
			return value
		}
	}
	return ""
}
