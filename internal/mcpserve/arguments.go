package mcpserve

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxArgumentName is how many bytes a message shows of the name of an argument.
const maxArgumentName = 100

// twice finds the name of a member that stands in an object twice. Decoders keep
// the last of them, others the first: what was meant, nobody knows.
func twice(object json.RawMessage) *fault {
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return nil // told by who reads it
	}
	seen := make(map[string]bool)
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil
		}
		name, _ := token.(string)
		if seen[name] {
			return &fault{"", fmt.Sprintf("%q stands in it twice", cutText(name, maxArgumentName))}
		}
		seen[name] = true
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil
		}
	}
	return nil
}

// argumentsKey is the key of a call's arguments that were kept from the SDK.
type argumentsKey struct{}

// spare keeps from the SDK the arguments of a call that it cannot decode, those
// with a number beyond all doubles: it would say that the call has no name. The
// tool finds them in the context, and says what is wrong with them.
func spare(ctx context.Context, req *jsonrpc.Request, body []byte) (context.Context, []byte) {
	var params map[string]json.RawMessage
	if req.Method != "tools/call" || json.Unmarshal(req.Params, &params) != nil {
		return ctx, body
	}
	var value any
	arguments := params["arguments"]
	if len(arguments) == 0 || json.Unmarshal(arguments, &value) == nil {
		return ctx, body
	}
	var message map[string]json.RawMessage
	if json.Unmarshal(body, &message) != nil {
		return ctx, body
	}
	params["arguments"] = json.RawMessage("{}")
	rest, err := verbatim(params)
	if err != nil {
		return ctx, body
	}
	message["params"] = rest
	if rest, err = verbatim(message); err != nil {
		return ctx, body
	}
	return context.WithValue(ctx, argumentsKey{}, arguments), rest
}

// callArguments returns the arguments of a call, given those that the SDK has.
func callArguments(ctx context.Context, known json.RawMessage) json.RawMessage {
	if spared, ok := ctx.Value(argumentsKey{}).(json.RawMessage); ok {
		return spared
	}
	return known
}

// sendable is the JSON of a tool's result. The SDK puts it into an answer, and
// would say nothing at all if that could not be encoded.
func sendable(structured any) (json.RawMessage, error) {
	b, err := json.Marshal(structured)
	if err != nil {
		return nil, err
	}
	const around = 16 // more levels than an answer has around a result
	if !json.Valid([]byte(strings.Repeat("[", around) + string(b) + strings.Repeat("]", around))) {
		return nil, fmt.Errorf("it nests too deeply")
	}
	return b, nil
}
