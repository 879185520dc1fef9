package mcpserve

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// extensionName is how the Events extension is declared and asked for.
const extensionName = "io.modelcontextprotocol/events"

// eventsCapability is declared in both spellings. What events/list answers may
// change while the daemon runs; whoever listens is told.
func eventsCapability() map[string]any { return map[string]any{"listChanged": true} }

// capabilities are the SDK's, and beside them the older spelling of the Events
// extension, which some deployed clients look for.
type capabilities struct {
	*mcp.ServerCapabilities
	Events map[string]any `json:"events"`
}

// The embedded pointers keep the SDK's own methods, so that it still adds what
// it adds to every result; the outer field wins in JSON.
type initializeResult struct {
	*mcp.InitializeResult
	Capabilities capabilities `json:"capabilities"`
}

type discoverResult struct {
	*mcp.DiscoverResult
	Capabilities capabilities `json:"capabilities"`
}

// advertise adds the older spelling of the capability.
func advertise(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if err != nil {
			return res, err
		}
		switch r := res.(type) {
		case *mcp.InitializeResult:
			return &initializeResult{r, capabilities{r.Capabilities, eventsCapability()}}, nil
		case *mcp.DiscoverResult:
			return &discoverResult{r, capabilities{r.Capabilities, eventsCapability()}}, nil
		default:
			return res, nil
		}
	}
}

// complete says in every result of the 2025 revisions that it is final, as the
// SDK does in those of 2026-07-28: a client need not know the era to read one.
// The answer to a ping stays empty: there are clients that take no member in it.
func complete(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		res, err := next(ctx, method, req)
		if err != nil || res == nil || callIsModern(ctx) || method == "ping" {
			return res, err
		}
		return &completeResult{res}, nil
	}
}

type completeResult struct{ mcp.Result }

// MarshalJSON adds resultType to the object that the result is.
func (r *completeResult) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(r.Result)
	if err != nil || !bytes.HasPrefix(b, []byte("{")) {
		return b, err
	}
	member := `{"resultType":"` + resultComplete + `"`
	if !bytes.HasPrefix(b, []byte("{}")) {
		member += ","
	}
	return append([]byte(member), b[1:]...), nil
}
