package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/engine"
	"attend/internal/feed"
)

// How long attend_wait waits. The default stays under the time after which
// common clients give a request up.
const (
	defaultWait = 45 * time.Second
	maxWait     = 240 * time.Second
)

// waitResult is the structured content of attend_wait.
type waitResult struct {
	Decisions   []*engine.Decision `json:"decisions"`
	Cursor      string             `json:"cursor"`
	Ack         *string            `json:"ack"`
	Redelivered bool               `json:"redelivered"`
	Truncated   bool               `json:"truncated"`
	TimedOut    bool               `json:"timedOut"`
}

// waitArguments are those of attend_wait, read.
type waitArguments struct {
	consumer, cursor, ack string
	want                  feed.Want
}

func (s *Server) waitTool() *tool {
	return &tool{
		name:  "attend_wait",
		title: "Wait until something needs you",
		description: "Waits until something needs you, and returns the decisions: interrupt (act now), queue (act when you are free), " +
			"ask (offer help to the user first), and with them any notes (know it, do nothing). " +
			"Call it in a loop with a consumer name of your own. When you have taken an answer in, send its ack in the next call; " +
			"without the ack the same answer comes again, so nothing is lost. An answer without decisions is normal: call again.",
		annotations: mcp.ToolAnnotations{
			ReadOnlyHint: false, DestructiveHint: new(bool), IdempotentHint: true, OpenWorldHint: new(bool),
		},
		right: RightRead,
		call:  s.callWait,
	}
}

func readWaitArguments(members map[string]json.RawMessage, caller *Caller) (*waitArguments, error) {
	var a waitArguments
	var scopes patterns
	timeout := int64(defaultWait / time.Millisecond)
	for _, bad := range []*fault{
		member(members, "scope", &scopes),
		member(members, "routes", &a.want.Filter.Routes),
		member(members, "consumer", &a.consumer),
		member(members, "cursor", &a.cursor),
		member(members, "ack", &a.ack),
		member(members, "timeoutMs", &timeout),
	} {
		if bad != nil {
			return nil, bad
		}
	}
	switch {
	case a.consumer != "" && a.cursor != "":
		return nil, &fault{"/cursor", "give consumer or cursor, not both: with a consumer attend keeps the position"}
	case a.ack != "" && a.consumer == "":
		return nil, &fault{"/ack", "an ack needs the consumer that it was given to"}
	}
	if scope, found := hidden(scopes, caller); found {
		return nil, notYours(scope, "read")
	}
	a.want.Filter.Scopes, a.want.Filter.Visible = scopes, caller.visible()
	a.want.Timeout = time.Duration(timeout) * time.Millisecond
	return &a, nil
}

// callWait waits as the consumer or from the cursor.
func (s *Server) callWait(ctx context.Context, caller *Caller, members map[string]json.RawMessage) (*answered, error) {
	a, err := readWaitArguments(members, caller)
	if err != nil {
		return nil, err
	}
	leave, ok := s.waits.Enter(caller.Name)
	if !ok {
		return nil, &feed.LimitError{Limit: "waiting calls", Max: s.opts.MaxWaits}
	}
	defer leave()
	ctx, stop := revocable(ctx, caller)
	defer stop()

	var got feed.Answer
	if a.consumer != "" {
		got, err = s.opts.Consumers.Wait(ctx, feed.Call{Consumer: a.consumer, Principal: caller.Name, Ack: a.ack, Want: a.want})
	} else {
		got, err = s.waitFrom(ctx, a)
	}
	if errors.Is(context.Cause(ctx), errRevoked) {
		return nil, revoked() // an answer that came at this moment comes again, to whoever may have it
	}
	if err != nil {
		return nil, err
	}
	result := waitResult{
		Decisions:   make([]*engine.Decision, len(got.Items)),
		Cursor:      got.Cursor.Encode(),
		Redelivered: got.Redelivered,
		Truncated:   got.Truncated,
		TimedOut:    got.TimedOut,
	}
	for i := range got.Items {
		result.Decisions[i] = withoutData(got.Items[i].Decision)
	}
	if got.Ack != "" {
		result.Ack = &got.Ack
	}
	return &answered{structured: &result, text: waitText(&result, a.consumer)}, nil
}

// waitFrom waits from the caller's own cursor, or from now. A cursor of
// another log is answered at once: the caller should know before it waits.
func (s *Server) waitFrom(ctx context.Context, a *waitArguments) (feed.Answer, error) {
	head, err := s.opts.Reader.Head(ctx)
	if err != nil {
		return feed.Answer{}, err
	}
	after := head.Position
	if a.cursor != "" {
		cursor, err := feed.DecodeCursor(a.cursor)
		if err != nil {
			return feed.Answer{}, &fault{"/cursor", cursorReason(err)}
		}
		var stale bool
		if after, stale = cursor.From(head); stale {
			return feed.Answer{Cursor: feed.Cursor{Epoch: head.Epoch, Position: after}, Truncated: true}, nil
		}
	}
	return s.opts.Consumers.WaitAt(ctx, after, a.want)
}
