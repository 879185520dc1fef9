package mcpserve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Error codes of the Events extension; the standard ones are in jsonrpc and
// mcp.
const (
	codeNotFound          = -32023
	codeForbidden         = -32024
	codeResourceExhausted = -32025
	codeUnsupported       = -32026

	codeNoSession = -32001 // as other servers answer a session id that they do not know
)

// resultComplete says that a result is final. It stands in every result, in
// both eras.
const resultComplete = "complete"

// rpcError makes an error with data that a program can act on.
func rpcError(code int64, data map[string]any, format string, args ...any) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}
	if data != nil {
		b, err := json.Marshal(data)
		if err == nil {
			e.Data = b
		}
	}
	return e
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

// answer writes one response as JSON.
func (s *Server) answer(w http.ResponseWriter, status int, resp *jsonrpc.Response) {
	body, err := jsonrpc.EncodeMessage(resp)
	if err == nil && !resp.ID.IsValid() { // the encoder leaves it out
		body = bytes.Replace(body, []byte(`{"jsonrpc":"2.0",`), []byte(`{"jsonrpc":"2.0","id":null,`), 1)
	}
	if err != nil {
		s.log.Error("encode an MCP answer", "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // whoever is gone is told nothing
}

// fail answers with an error. A zero id is written as null.
func (s *Server) fail(w http.ResponseWriter, id jsonrpc.ID, e *jsonrpc.Error, modern bool) {
	s.failWith(w, statusOf(e, modern), id, e)
}

func (s *Server) failWith(w http.ResponseWriter, status int, id jsonrpc.ID, e *jsonrpc.Error) {
	s.answer(w, status, &jsonrpc.Response{ID: id, Error: e})
}

// succeed answers with a result. resultType is added, and the server's name as
// 2026-07-28 wants it in every result.
func (s *Server) succeed(w http.ResponseWriter, id jsonrpc.ID, result map[string]any, modern bool) {
	result["resultType"] = resultComplete
	if modern {
		result["_meta"] = map[string]any{mcp.MetaKeyServerInfo: s.info}
	}
	b, err := json.Marshal(result)
	if err != nil {
		s.log.Error("encode an MCP result", "err", err)
		s.fail(w, id, rpcError(jsonrpc.CodeInternalError, nil, "internal error"), modern)
		return
	}
	s.answer(w, http.StatusOK, &jsonrpc.Response{ID: id, Result: b})
}
