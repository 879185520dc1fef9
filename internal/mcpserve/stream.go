package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Why a stream ends, besides its client going or cancelling.
var (
	errStopping     = errors.New("the daemon is stopping")
	errSessionEnded = errors.New("the session has ended")
	errRevoked      = errors.New("the caller's rights have ended")
	errWrite        = errors.New("the client does not take what is sent")
)

// stream is the answer to one events/stream: it sends what its source gives.
type stream struct {
	server  *Server
	from    source
	id      json.RawMessage // of the request, which is also the subscription's
	out     *sse
	beat    time.Time // when the next heartbeat is due
	trouble bool      // the client was told that the source cannot be read
}

// serveStream answers events/stream. What is wrong with the request is an
// ordinary error; else the answer lives until one side ends it.
func (s *Server) serveStream(ctx context.Context, w http.ResponseWriter, r *http.Request, req *jsonrpc.Request, modern bool) {
	caller := s.opts.Caller(ctx)
	st, bad := s.openStream(ctx, r, req, &caller)
	if bad != nil {
		s.metrics.request(req.Method, false)
		s.fail(w, req.ID, bad, modern)
		return
	}
	defer st.from.close()
	leave, err := s.opts.Streams.Enter(caller.Name)
	s.metrics.request(req.Method, err == nil)
	if err != nil {
		s.fail(w, req.ID, exhausted(err), modern)
		return
	}
	defer leave()
	ctx, stop := revocable(ctx, &caller)
	defer stop()
	if st.out, err = openSSE(w, s.opts.WriteWait); err != nil {
		return // the client has gone
	}
	why := st.run(ctx)
	if errors.Is(why, errRevoked) {
		_ = st.notify("terminated", map[string]any{"error": revoked()})
	}
	if endsWithResult(why) {
		_ = st.out.message(s.finalResult(req.ID, st.id, modern))
		_ = st.out.flush() // whoever is gone is told nothing
	}
}

// openStream reads and checks what is asked for, and finds where it begins.
func (s *Server) openStream(ctx context.Context, r *http.Request, req *jsonrpc.Request, caller *Caller) (*stream, *jsonrpc.Error) {
	if !takesStream(r) {
		return nil, notAStream(req.Method)
	}
	if !caller.may(RightRead, "") {
		return nil, forbidden("right", "events need the right %q", RightRead)
	}
	params, bad := paramsOf(req)
	if bad != nil {
		return nil, bad
	}
	sub, bad := s.subscription(req.Method, params, s.shapes.stream, caller)
	if bad != nil {
		return nil, bad
	}
	sub.live = true
	from, bad := sub.open(ctx)
	if bad != nil {
		return nil, bad
	}
	return &stream{server: s, from: from, id: rawID(req.ID)}, nil
}

// revocable returns a context that also ends when the caller's rights do.
func revocable(ctx context.Context, caller *Caller) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if caller.Revoked != nil {
		go func() {
			select {
			case <-caller.Revoked:
				cancel(errRevoked)
			case <-ctx.Done():
			}
		}()
	}
	return ctx, func() { cancel(nil) }
}

// run sends what comes until the stream ends, and returns why it did.
func (st *stream) run(ctx context.Context) error {
	if err := st.active(st.from.late()); err != nil {
		return err
	}
	st.beatLater()
	for {
		if err := st.step(ctx); err != nil {
			return err
		}
	}
}

// over returns why the stream is to end, nil when it is not. A client that has
// cancelled is sent nothing more, whatever else has happened.
func (st *stream) over(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-st.server.opts.Stopping:
		return errStopping
	default:
		return nil
	}
}

// step sends what has come, or waits until there is something to send.
func (st *stream) step(ctx context.Context) error {
	until := st.beat
	if st.trouble { // if the log still fails, that shows within this time
		until = time.Now().Add(st.server.opts.RetryEvery)
	}
	wait, cancel := context.WithDeadline(ctx, until)
	err := st.from.wait(wait)
	quiet := wait.Err() != nil
	cancel()
	if why := st.over(ctx); why != nil {
		return why
	}
	if err == nil || quiet {
		err = st.from.give(ctx, st)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, errWrite):
		return err
	case err != nil:
		return st.wait(ctx, err)
	case st.trouble: // it is over: say so by saying where we are
		st.trouble, st.beat = false, time.Now()
	}
	return st.heartbeat()
}

// wait tells the client once that the log cannot be read, and lets some time
// pass before it is tried again. Heartbeats go on: the stream is alive.
func (st *stream) wait(ctx context.Context, err error) error {
	if !st.trouble {
		st.trouble = true
		if st.server.troubles.now() {
			st.server.log.ErrorContext(ctx, "the log cannot be read for streams", "err", err)
		}
		bad := rpcError(jsonrpc.CodeInternalError, nil, "the log cannot be read at the moment: the stream goes on when it can")
		if err := st.notify("error", map[string]any{"error": bad}); err != nil {
			return err
		}
	}
	if err := st.heartbeat(); err != nil {
		return err
	}
	pause := time.NewTimer(min(st.server.opts.RetryEvery, time.Until(st.beat)))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	case <-st.server.opts.Stopping:
	}
	return st.over(ctx)
}

// heartbeat tells how far has been looked, when it is time to.
func (st *stream) heartbeat() error {
	if time.Now().Before(st.beat) {
		return nil
	}
	st.beatLater()
	return st.notify("heartbeat", map[string]any{"cursor": st.from.cursor()})
}

func (st *stream) beatLater() { st.beat = time.Now().Add(st.server.opts.Heartbeat) }

// active tells where the stream begins, or goes on after a gap.
func (st *stream) active(truncated bool) error {
	return st.notify("active", map[string]any{"cursor": st.from.cursor(), "truncated": truncated})
}

// event writes an occurrence with the place after it. The occurrence is not
// copied: many streams write the same one.
func (st *stream) event(cursor string, occurrence json.RawMessage) error {
	const head = `{"jsonrpc":"2.0","method":"notifications/events/event","params":`
	tail := append([]byte(`,"cursor":"`), cursor...)
	tail = append(append(append(tail, `","_meta":{"`+mcp.MetaKeySubscriptionID+`":`...), st.id...), `}}}`...)
	if st.out.message([]byte(head), occurrence[:len(occurrence)-1], tail) != nil {
		return errWrite
	}
	return nil
}

// notify sends one of the extension's other notifications.
func (st *stream) notify(name string, params map[string]any) error {
	b, err := json.Marshal(params)
	if err != nil {
		return err
	}
	if st.out.message(notification("notifications/events/"+name, st.id, b)) != nil {
		return errWrite
	}
	return st.flush()
}

func (st *stream) flush() error {
	if st.out.flush() != nil {
		return errWrite
	}
	return nil
}

// endsWithResult tells whether a stream that ended so is answered: whenever it
// was not the client who ended it. Some clients wait for an answer for ever.
func endsWithResult(why error) bool {
	return errors.Is(why, errStopping) || errors.Is(why, errSessionEnded) || errors.Is(why, errRevoked)
}

// finalResult is the last message of a stream that we end.
func (s *Server) finalResult(id jsonrpc.ID, subscription json.RawMessage, modern bool) []byte {
	resp, err := s.resultOf(id, map[string]any{"_meta": map[string]any{mcp.MetaKeySubscriptionID: subscription}}, modern)
	if err != nil {
		resp = &jsonrpc.Response{ID: id, Error: rpcError(jsonrpc.CodeInternalError, nil, "internal error")}
	}
	return s.encode(resp)
}
