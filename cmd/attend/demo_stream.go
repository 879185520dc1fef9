package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// What the client of the demonstration adds to the SDK's: the method of the
// Events extension that opens a stream, and an ear for its notifications.

const methodStream = "events/stream"

type streamParams struct {
	mcp.ParamsBase
	Name      string         `json:"name"`
	Arguments map[string]any `json:"arguments"`
}

type streamResult struct{ mcp.ResultBase }

// hearing takes the notifications of the Events extension off a connection:
// the SDK's session knows the standard ones alone.
type hearing struct {
	mcp.Transport
	hear func(kind string, params json.RawMessage)
}

type heard struct {
	mcp.Connection
	hear func(kind string, params json.RawMessage)
}

// Connect implements mcp.Transport.
func (h *hearing) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := h.Transport.Connect(ctx)
	if err != nil || h.hear == nil {
		return c, err
	}
	return &heard{c, h.hear}, nil
}

// Read implements mcp.Connection.
func (h *heard) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := h.Connection.Read(ctx)
		req, ok := msg.(*jsonrpc.Request)
		if err != nil || !ok {
			return msg, err
		}
		kind, ok := strings.CutPrefix(req.Method, "notifications/events/")
		if !ok {
			return msg, nil
		}
		h.hear(kind, req.Params)
	}
}

// stream follows an event type until the context ends.
func (a *demoAgent) stream(ctx context.Context, name string, args map[string]any) error {
	_, err := mcp.CallCustomMethod[*streamParams, *streamResult](ctx, a.session, methodStream, &streamParams{Name: name, Arguments: args})
	return err
}
