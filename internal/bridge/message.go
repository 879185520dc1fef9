package bridge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

const (
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodCancelled   = "notifications/cancelled"
	methodEvents      = "events/" // what those of the Events extension begin with

	// firstModern is the first revision without sessions. Revisions are dates,
	// so they compare as strings.
	firstModern = "2026-07-28"
	metaVersion = "io.modelcontextprotocol/protocolVersion"
)

// Codes of JSON-RPC errors.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInternal       = -32603

	codeConnectionClosed = -32000 // of SDKs: it is to be opened again
)

// message is one JSON-RPC message, and what the bridge reads of it.
type message struct {
	raw     []byte
	id      json.RawMessage // nil in a notification
	method  string          // "" in an answer
	params  json.RawMessage
	result  json.RawMessage
	failed  bool   // it is an answer, and an error
	version string // of the protocol, as a request of 2026-07-28 says in itself
}

// parse reads a message. When it cannot be one, bad is the answer to it. A
// batch passes: the daemon says that it takes none.
func parse(line []byte) (m *message, bad []byte) {
	m = &message{raw: line}
	if line[0] == '[' && json.Valid(line) {
		return m, nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return nil, failure(nil, codeParse, fmt.Sprintf("a line must be one JSON-RPC message: %v", err), nil)
	}
	m.id, m.params, m.result = members["id"], members["params"], members["result"]
	_, m.failed = members["error"]
	_ = json.Unmarshal(members["method"], &m.method) // a method that is no string is none
	var params struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(m.params, &params) == nil {
		_ = json.Unmarshal(params.Meta[metaVersion], &m.version) // the daemon says what is wrong with it
	}
	return m, nil
}

// isRequest reports whether the message wants an answer.
func (m *message) isRequest() bool { return m.method != "" && m.id != nil }

// answers reports whether the message is the answer to a request.
func (m *message) answers() bool { return m.method == "" && (m.result != nil || m.failed) }

// modern reports whether the message says of itself that it needs no session.
func (m *message) modern() bool { return m.version >= firstModern }

// cancels returns the id of the request that a cancellation is for, nil when it
// names none.
func (m *message) cancels() json.RawMessage {
	var params struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	_ = json.Unmarshal(m.params, &params) // no id, then
	return params.RequestID
}

// setHeaders says in headers what a proxy cannot read in the body.
func (m *message) setHeaders(h http.Header) {
	set := func(name, value string) {
		if !strings.ContainsFunc(value, unicode.IsControl) { // else the daemon misses it, and says so
			h.Set(name, value)
		}
	}
	set(headerVersion, m.version)
	set("Mcp-Method", m.method)
	var params struct{ Name, URI string }
	if json.Unmarshal(m.params, &params) != nil {
		return // the daemon says what is wrong with them
	}
	switch m.method {
	case "tools/call", "prompts/get":
		set("Mcp-Name", params.Name)
	case "resources/read":
		set("Mcp-Name", params.URI)
	}
}

// failure is an error in answer to a request; a nil id is written as null.
func failure(id json.RawMessage, code int, text string, data map[string]any) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	type wireError struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data,omitempty"`
	}
	b, _ := verbatim(struct { // strings, numbers and a checked id: it cannot fail
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   wireError       `json:"error"`
	}{"2.0", id, wireError{code, text, data}})
	return b
}

// verbatim encodes without the escapes that a web page would need.
func verbatim(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}
