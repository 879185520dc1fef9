package mcpserve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/feed"
	"attend/internal/field"
)

// tool is a function that a model may call. Its schemas are embedded under its
// name.
type tool struct {
	name        string
	title       string
	description string
	annotations mcp.ToolAnnotations
	right       string
	lists       []string // arguments whose entries the tool judges one by one
	judged      bool     // the tool judges its arguments itself
	call        func(ctx context.Context, caller *Caller, args map[string]json.RawMessage) (*answered, error)
}

// answered is what a tool gives back: the same twice, once for programs and
// once for reading.
type answered struct {
	structured any
	text       string
	failed     bool // nothing of what was asked for was done
}

// addTool declares a tool to the SDK. Arguments are checked here rather than
// by the SDK, which would write the events' data anew.
func (s *Server) addTool(server *mcp.Server, t *tool) error {
	input, err := readShape(t.name+".input", t.lists...)
	if err != nil {
		return err
	}
	output, err := readSchema(t.name + ".output")
	if err != nil {
		return err
	}
	annotations := t.annotations
	annotations.Title = t.title
	server.AddTool(&mcp.Tool{
		Name: t.name, Title: t.title, Description: t.description,
		Annotations: &annotations, InputSchema: input.raw, OutputSchema: output,
	}, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return s.callTool(callContext(ctx), t, input, callArguments(ctx, req.Params.Arguments))
	})
	return nil
}

// callTool runs a tool. What is wrong with its arguments is told in its result,
// where the model reads it and can mend it; what no other call would mend is an
// error of the protocol, with a code and data.
func (s *Server) callTool(ctx context.Context, t *tool, input *shape, raw json.RawMessage) (*mcp.CallToolResult, error) {
	caller := s.opts.Caller(ctx)
	if !caller.may(t.right, "") {
		return nil, forbidden("right", "%s needs the right %q", t.name, t.right)
	}
	args, bad := toolArguments(raw)
	if bad == nil && !t.judged {
		bad = input.check(args)
	}
	if bad != nil {
		return refusal(bad.Error()), nil
	}
	got, err := t.call(ctx, &caller, args)
	if err != nil {
		return s.toolError(ctx, t, err)
	}
	b, err := sendable(got.structured)
	if err != nil {
		s.log.Error("an MCP result cannot be sent", "what", t.name, "err", err)
		return refusal(fmt.Sprintf("what %s has to answer cannot be sent: %v; asking again gives the same", t.name, err)), nil
	}
	return &mcp.CallToolResult{
		StructuredContent: b,
		Content:           []mcp.Content{&mcp.TextContent{Text: got.text}},
		IsError:           got.failed,
	}, nil
}

// toolArguments reads a call's arguments. Those that are null are left out:
// some hosts send every argument that the model did not give as one.
func toolArguments(raw json.RawMessage) (map[string]json.RawMessage, *fault) {
	var args map[string]json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &args); err != nil {
			return nil, &fault{"", "the arguments must be an object"}
		}
		if bad := twice(raw); bad != nil {
			return nil, bad
		}
	}
	maps.DeleteFunc(args, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return args, nil
}

// toolError tells the caller's faults from the daemon's.
func (s *Server) toolError(ctx context.Context, t *tool, err error) (*mcp.CallToolResult, error) {
	var wire *jsonrpc.Error
	var bad *fault
	var limit *feed.LimitError
	var refused *field.Error
	switch {
	case errors.As(err, &wire):
		return nil, wire
	case errors.As(err, &limit):
		return nil, exhausted(limit)
	case errors.As(err, &refused):
		return refusedByField(refused)
	case errors.Is(err, feed.ErrNotYours):
		return nil, forbidden("consumer", "%s", err.Error())
	case errors.As(err, &bad), errors.Is(err, feed.ErrConsumerName), errors.Is(err, feed.ErrAck), errors.Is(err, feed.ErrMalformed):
		return refusal(err.Error()), nil
	case ctx.Err() != nil:
		return nil, rpcError(jsonrpc.CodeInternalError, nil, "the call was cancelled")
	default:
		bad := s.internal(ctx, t.name, err)
		return refusal(cmp.Or(fieldTrouble(err), bad.Message)), nil
	}
}

// refusal is the result of a call that did nothing.
func refusal(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{
		IsError: true,
		Content: []mcp.Content{&mcp.TextContent{Text: text}},
	}
}
