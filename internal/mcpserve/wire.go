package mcpserve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/feed"
)

// Error codes of the Events extension; the standard ones are in jsonrpc and
// mcp.
const (
	codeNotFound          = -32023
	codeForbidden         = -32024
	codeResourceExhausted = -32025
	codeUnsupported       = -32026
	codeCallbackEndpoint  = -32027

	codeNoSession = -32001 // as other servers answer a session id that they do not know
)

// resultComplete says that a result is final. It stands in every result, in
// both eras.
const resultComplete = "complete"

// rpcError makes an error with data that a program can act on.
func rpcError(code int64, data map[string]any, format string, args ...any) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}
	if data != nil {
		if b, err := verbatim(data); err == nil {
			e.Data = b
		}
	}
	return e
}

// verbatim encodes without the escapes that a web page would need: what came as
// "<" stays so, byte for byte, in a json.RawMessage too.
func verbatim(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// invalidParams reports one parameter by its JSON pointer.
func invalidParams(path, reason string) *jsonrpc.Error {
	return rpcError(jsonrpc.CodeInvalidParams, map[string]any{"path": path, "reason": reason}, "%s: %s", path, reason)
}

func forbidden(reason, format string, args ...any) *jsonrpc.Error {
	return rpcError(codeForbidden, map[string]any{"reason": reason}, format, args...)
}

// notYours refuses what a caller asks for in a scope that it may not see.
func notYours(scope, verb string) *jsonrpc.Error {
	return forbidden("scope", "the scope %q is not yours to %s", scope, verb)
}

// revoked tells a caller that waits or follows something that its rights have
// ended.
func revoked() *jsonrpc.Error {
	return forbidden("revoked", "your right to read these events has ended")
}

// exhausted reports a limit of ours that the caller has reached.
func exhausted(err error) *jsonrpc.Error {
	var limit *feed.LimitError
	if !errors.As(err, &limit) {
		return rpcError(jsonrpc.CodeInternalError, nil, "internal error")
	}
	return rpcError(codeResourceExhausted, map[string]any{"limit": limit.Limit, "max": limit.Max}, "%s", limit.Error())
}

// notAStream refuses a client that does not take what a method answers with.
func notAStream(method string) *jsonrpc.Error {
	return rpcError(jsonrpc.CodeInvalidRequest, nil, "the answer to %s is a stream of events: send Accept: %s", method, eventStream)
}

func unknownMethod(method string) *jsonrpc.Error {
	return rpcError(jsonrpc.CodeMethodNotFound, nil, "method not found: %q", method)
}

// statusOf gives the HTTP status of an answer. What is wrong with the message
// itself or its headers is a 400. For the rest an error is a body in a 200 up
// to 2025-11-25; 2026-07-28 has a status for those that concern the request.
func statusOf(e *jsonrpc.Error, modern bool) int {
	switch e.Code {
	case jsonrpc.CodeParseError, jsonrpc.CodeInvalidRequest, mcp.CodeHeaderMismatch, mcp.CodeUnsupportedProtocolVersion:
		return http.StatusBadRequest
	}
	if !modern {
		return http.StatusOK
	}
	switch e.Code {
	case jsonrpc.CodeMethodNotFound:
		return http.StatusNotFound
	case jsonrpc.CodeInvalidParams, mcp.CodeMissingRequiredClientCapabilities:
		return http.StatusBadRequest
	default:
		return http.StatusOK
	}
}

// rawID writes a JSON-RPC id as it came: a string stays one, a number too.
func rawID(id jsonrpc.ID) json.RawMessage {
	b, err := json.Marshal(id.Raw())
	if err != nil { // an id is nothing else than a string or a number
		return json.RawMessage("null")
	}
	return b
}

// notification writes a notification to a subscription, whose id is added to
// the parameters: a JSON object that is not empty, or nil.
func notification(method string, subscription, params json.RawMessage) []byte {
	meta := `,"_meta":{"` + mcp.MetaKeySubscriptionID + `":`
	if params == nil {
		params, meta = json.RawMessage(`{}`), meta[1:]
	}
	b := make([]byte, 0, len(method)+len(params)+len(meta)+len(subscription)+64)
	b = append(b, `{"jsonrpc":"2.0","method":"`...)
	b = append(b, method...)
	b = append(b, `","params":`...)
	b = append(b, params[:len(params)-1]...)
	b = append(b, meta...)
	b = append(b, subscription...)
	return append(b, `}}}`...)
}

// answer writes one response as JSON.
func (s *Server) answer(w http.ResponseWriter, status int, resp *jsonrpc.Response) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(s.encode(resp)) // whoever is gone is told nothing
}

func (s *Server) encode(resp *jsonrpc.Response) []byte {
	body, err := jsonrpc.EncodeMessage(resp)
	if err != nil {
		s.log.Error("encode an MCP answer", "err", err)
		return []byte(`{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"internal error"}}`)
	}
	if !resp.ID.IsValid() { // the encoder leaves it out
		body = bytes.Replace(body, []byte(`{"jsonrpc":"2.0",`), []byte(`{"jsonrpc":"2.0","id":null,`), 1)
	}
	return body
}

// fail answers with an error. A zero id is written as null.
func (s *Server) fail(w http.ResponseWriter, id jsonrpc.ID, e *jsonrpc.Error, modern bool) {
	s.failWith(w, statusOf(e, modern), id, e)
}

func (s *Server) failWith(w http.ResponseWriter, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	s.answer(w, status, &jsonrpc.Response{ID: id, Error: e})
}

// succeed answers with a result.
func (s *Server) succeed(w http.ResponseWriter, id jsonrpc.ID, result map[string]any, modern bool) {
	resp, err := s.resultOf(id, result, modern)
	if err != nil {
		s.log.Error("encode an MCP result", "err", err)
		s.fail(w, id, rpcError(jsonrpc.CodeInternalError, nil, "internal error"), modern)
		return
	}
	s.answer(w, http.StatusOK, resp)
}

// resultOf makes a response. resultType is added, and the server's name as
// 2026-07-28 wants it in every result.
func (s *Server) resultOf(id jsonrpc.ID, result map[string]any, modern bool) (*jsonrpc.Response, error) {
	result["resultType"] = resultComplete
	if modern {
		meta, ok := result["_meta"].(map[string]any)
		if !ok {
			meta = make(map[string]any)
			result["_meta"] = meta
		}
		meta[mcp.MetaKeyServerInfo] = s.info
	}
	b, err := json.Marshal(result)
	return &jsonrpc.Response{ID: id, Result: b}, err
}
