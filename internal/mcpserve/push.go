package mcpserve

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func (s *Server) pushTool() *tool {
	return &tool{
		name:  "attend_push",
		title: "Report events",
		description: "Reports events to attend: things that happened which an agent may have to act on, now or together with what follows. " +
			"Each has a scope (what it belongs to) and a name (what happened); give an id to make sending again safe, and a text that reads well. " +
			"Good events are taken even when others beside them are rejected; the answer says which and why.",
		annotations: mcp.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(bool)},
		right:       RightIngest,
		lists:       []string{"events"}, // a bad one does not keep the others out
		call:        s.callPush,
	}
}

func (s *Server) callPush(ctx context.Context, _ *Caller, members map[string]json.RawMessage) (*answered, error) {
	var events []json.RawMessage
	if bad := member(members, "events", &events); bad != nil {
		return nil, bad
	}
	got, err := s.opts.Push.Push(ctx, events)
	if err != nil {
		return nil, err
	}
	if got.Errors == nil {
		got.Errors = []PushFault{}
	}
	return &answered{structured: &got, text: pushText(&got), failed: got.Rejected > 0 && got.Accepted+got.Duplicates == 0}, nil
}

// flushResult is the structured content of attend_flush.
type flushResult struct {
	Scope  string   `json:"scope"`
	Marked []string `json:"marked"`
}

func (s *Server) flushTool() *tool {
	return &tool{
		name:  "attend_flush",
		title: "Settle a scope at once",
		description: "Has attend judge at once what a scope has gathered, rather than wait until the act in it is finished. " +
			"The decision comes through attend_wait. Says what there was: open (events being gathered), held (a window put off), judging (one being judged); nothing means that there was nothing to judge.",
		annotations: mcp.ToolAnnotations{DestructiveHint: new(bool), IdempotentHint: true, OpenWorldHint: new(bool)},
		right:       RightIngest,
		call:        s.callFlush,
	}
}

func (s *Server) callFlush(ctx context.Context, caller *Caller, members map[string]json.RawMessage) (*answered, error) {
	var scope string
	if bad := member(members, "scope", &scope); bad != nil {
		return nil, bad
	}
	if bad := checkScope(scope); bad != nil {
		return nil, bad
	}
	if !caller.may(RightIngest, scope) {
		return nil, notYours(scope, "flush")
	}
	marked, err := s.opts.Flush.Flush(ctx, scope)
	if err != nil {
		return nil, err
	}
	return &answered{structured: flushResult{scope, marked}, text: flushText(scope, marked)}, nil
}

// maxScope is how many bytes a scope may have, as a line of ingest.
const maxScope = 512

// checkScope finds what no scope can be, so that the caller is told and not
// the log asked.
func checkScope(scope string) *fault {
	switch {
	case len(scope) > maxScope:
		return &fault{"/scope", fmt.Sprintf("has %d bytes: at most %d", len(scope), maxScope)}
	case strings.ContainsFunc(scope, unicode.IsControl):
		return &fault{"/scope", "holds a control character, which no scope has"}
	}
	return nil
}
