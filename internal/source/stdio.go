package source

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/program"
)

// endWithin is how long a program may take to end when its input does, and
// again when it is told to.
const endWithin = 2 * time.Second

// NewProgram makes the Dialer of a server that is a program and speaks over its
// standard input and output. It runs as long as a session does. The end of what
// it says on its standard error is shown with the errors of the session.
func NewProgram(spec program.Spec, version string) Dialer {
	var last atomic.Pointer[program.Tail]
	return &server{
		version: version,
		open: func() *way {
			ctx, cancel := context.WithCancel(context.Background())
			cmd := spec.Cmd(ctx)
			tail := spec.Tail()
			last.Store(tail)
			cmd.Stderr = tail
			return &way{Transport: &mcp.CommandTransport{Command: cmd, TerminateDuration: endWithin}, closes: func() {
				cancel()
				program.End(cmd)
			}}
		},
		hide: spec.Redact,
		said: func() string { return last.Load().String() },
	}
}
