package sink

import (
	"context"
	"errors"
	"time"

	"attend/internal/program"
)

// Command runs a command for each message, which it finds on its standard
// input. Status 0 is taken, [program.ExitPermanent] is never; any other, a
// signal, and the end of its time are tried again. What it writes to its standard
// output is thrown away.
type Command struct{ spec program.Spec }

// NewCommand returns a sink that runs a command.
func NewCommand(s program.Spec) *Command { return &Command{s} }

// farewell is the time in which a command that is asked to end may do so. It
// is taken from the attempt's, so that nothing of it is left when somebody else
// may try.
const farewell = 2500 * time.Millisecond

// Deliver implements Sink.
func (c *Command) Deliver(ctx context.Context, m *Message) error {
	run := ctx
	if end, limited := ctx.Deadline(); limited {
		left := time.Until(end)
		var cancel context.CancelFunc
		run, cancel = context.WithTimeout(ctx, left-min(farewell, left/2))
		defer cancel()
	}
	_, err := program.Run(run, c.spec.Unheard(), m.Body)
	if err == nil {
		return nil
	}
	e := &Error{Message: err.Error(), interrupt: run.Err()}
	if failed := (*program.Error)(nil); errors.As(err, &failed) {
		e.Never = failed.Permanent()
	}
	return e
}
