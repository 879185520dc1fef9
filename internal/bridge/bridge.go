// Package bridge carries MCP between a host that speaks stdio alone and a
// daemon that serves it over HTTP.
//
// The host writes JSON-RPC messages to the bridge, one a line, and reads such
// lines back. Each message becomes a POST of its own, so that a long wait holds
// up nothing else; what the daemon answers, one message or a stream of them,
// becomes lines as it comes. Messages pass as they are: the bridge reads of
// them only what HTTP wants to know.
//
// Both eras of the protocol pass. Up to 2025-11-25 the bridge keeps the
// session: its id, the stream on which the daemon speaks first, and a new
// session in place of one that the daemon has forgotten. In 2026-07-28 each
// request stands alone, and its headers are made from its body.
//
// A daemon that is not there is no reason to end. Requests are answered with
// errors that say how to mend it, until it is back.
package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"
)

const (
	// maxMessage bounds a message from the host: the daemon takes no larger one.
	maxMessage = 4 << 20
	// maxAnswer bounds a message from the daemon.
	maxAnswer = 16 << 20
	// maxCalls bounds the messages that are under way at once.
	maxCalls = 1024
	// drainTime is how long answers are waited for once the host has closed its
	// end: a script that pipes a request in wants its answer, and a host that
	// leaves in the middle of a wait should not be kept.
	drainTime = time.Second
	// leaveTime is how long the daemon may take to end the session.
	leaveTime = time.Second
)

// Options are what a bridge is made of. All of them are required, but for
// At and Token.
type Options struct {
	Endpoint string       // of the daemon: http://127.0.0.1:8787/mcp
	At       string       // where that is, for people; "" is Endpoint
	Token    string       // sent as a bearer token; "" for none
	HTTP     *http.Client // must not limit the time of a request: waits and streams are long
	In       io.Reader    // lines from the host; when the context ends Run, a read may be left behind
	Out      io.Writer    // lines to the host, and nothing else
	Logger   *slog.Logger
}

// bridge is one run.
type bridge struct {
	opts    Options
	log     *slog.Logger
	out     *lineWriter
	calls   calls
	session session
}

// Run carries messages until the host closes In, the context ends, or Out can
// no longer be written. A failure of In or Out is an error; the other ends are
// not.
func Run(ctx context.Context, o Options) error {
	if o.Endpoint == "" || o.HTTP == nil || o.In == nil || o.Out == nil || o.Logger == nil {
		return errors.New("bridge: an option is missing")
	}
	o.At = cmp.Or(o.At, o.Endpoint)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b := &bridge{opts: o, log: o.Logger, out: newLineWriter(o.Out), session: session{confirmed: make(chan struct{}, 1)}}
	read, heard := make(chan error, 1), make(chan struct{})
	go func() { read <- b.readAll(ctx) }()
	go func() {
		defer close(heard)
		b.listen(ctx)
	}()

	var err error
	select {
	case err = <-read:
		b.calls.drain(drainTime)
	case err = <-b.out.failed:
	case <-ctx.Done():
	}
	stop()
	b.calls.close()
	b.calls.drain(drainTime) // bounded, for the host may have stopped reading
	b.leave()
	await(heard, drainTime)
	return err
}

// await waits until something is done, or for a time.
func await(done <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

// readAll takes messages from the host until there are no more.
func (b *bridge) readAll(ctx context.Context) error {
	from := newLineReader(b.opts.In, maxMessage)
	for ctx.Err() == nil {
		line, err := from.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errTooLong):
			b.tell(failure(nil, codeInvalidRequest, fmt.Sprintf("a message may have %d bytes, and this one has more", maxMessage), nil))
		case err != nil:
			return fmt.Errorf("read from the host: %w", err)
		case len(line) > 0:
			b.take(ctx, line)
		}
	}
	return nil
}

// take starts what one message asks for.
func (b *bridge) take(ctx context.Context, line []byte) {
	m, bad := parse(line)
	switch {
	case bad != nil:
		b.tell(bad)
	case m.method == methodCancelled:
		b.cancel(ctx, m)
	case m.isRequest():
		b.start(ctx, m)
	default: // a notification, or an answer to a request of the daemon's
		if err := b.calls.run(ctx, m, b.notify); err != nil {
			b.log.Warn("a notification was dropped", "method", m.method, "error", err)
		}
	}
}

// start has a request answered beside all others.
func (b *bridge) start(ctx context.Context, m *message) {
	err := b.calls.run(ctx, m, b.request)
	switch {
	case errors.Is(err, errInFlight):
		b.tell(failure(m.id, codeInvalidRequest, err.Error(), nil))
	case errors.Is(err, errTooMany):
		b.tell(failure(m.id, codeInternal, err.Error(), nil))
	}
}

// cancel ends a request that the host has given up. The end of its connection
// tells the daemon; where there are sessions, the protocol wants it said in
// words as well.
func (b *bridge) cancel(ctx context.Context, m *message) {
	cancelled := b.calls.cancel(m.cancels())
	if cancelled == nil || cancelled.modern() {
		return
	}
	_ = b.calls.run(ctx, m, b.notify) // the daemon has seen the connection end
}

// tell writes one message to the host.
func (b *bridge) tell(msg []byte) {
	if err := b.out.write(msg); err != nil {
		b.log.Warn("a message of the daemon's was dropped", "error", err)
	}
}
