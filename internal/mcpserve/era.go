package mcpserve

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// firstModern is the first revision without sessions: each request says in
// headers and _meta what it is.
const firstModern = "2026-07-28"

const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerSession = "Mcp-Session-Id"
)

// isModern tells the era of a request. Revisions are dates, so they compare as
// strings.
func isModern(r *http.Request) bool { return r.Header.Get(headerVersion) >= firstModern }

// checkEra holds a request that the SDK does not see to the rules that the SDK
// holds the others to.
func checkEra(r *http.Request, req *jsonrpc.Request) *jsonrpc.Error {
	version := r.Header.Get(headerVersion)
	meta, bad := metaOf(req)
	if bad != nil {
		return bad
	}
	inBody, _ := meta[mcp.MetaKeyProtocolVersion].(string)
	if !isModern(r) {
		if inBody >= firstModern {
			return rpcError(mcp.CodeHeaderMismatch, nil, "a request of revision %s needs the header %s", inBody, headerVersion)
		}
		if version != "" && !slices.Contains(mcp.SupportedProtocolVersions(), version) {
			return unsupportedVersion(version)
		}
		return nil
	}
	if !slices.Contains(mcp.SupportedProtocolVersions(), version) {
		return unsupportedVersion(version)
	}
	if method := r.Header.Get(headerMethod); method != req.Method {
		return rpcError(mcp.CodeHeaderMismatch, nil, "the header %s is %q, the method in the body %q", headerMethod, method, req.Method)
	}
	if !req.IsCall() {
		return nil
	}
	if inBody == "" {
		return invalidParams("/_meta/"+pointerEscape(mcp.MetaKeyProtocolVersion), "is required: the revision of the protocol")
	}
	if inBody != version {
		return rpcError(mcp.CodeHeaderMismatch, nil, "the header %s is %q, the version in _meta %q", headerVersion, version, inBody)
	}
	if _, ok := meta[mcp.MetaKeyClientCapabilities].(map[string]any); !ok {
		return invalidParams("/_meta/"+pointerEscape(mcp.MetaKeyClientCapabilities), "is required: an object, {} for none")
	}
	return nil
}

func unsupportedVersion(version string) *jsonrpc.Error {
	return rpcError(mcp.CodeUnsupportedProtocolVersion,
		map[string]any{"supported": mcp.SupportedProtocolVersions(), "requested": version},
		"protocol version %q is not supported", version)
}

// metaOf reads _meta out of the parameters.
func metaOf(req *jsonrpc.Request) (map[string]any, *jsonrpc.Error) {
	if len(req.Params) == 0 || string(req.Params) == "null" {
		return nil, nil //nolint:nilnil // no parameters, no _meta, no fault
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(req.Params, &members); err != nil {
		return nil, invalidParams("", "params must be an object")
	}
	var meta map[string]any
	if raw, ok := members["_meta"]; ok {
		if err := json.Unmarshal(raw, &meta); err != nil {
			return nil, invalidParams("/_meta", "must be an object")
		}
	}
	return meta, nil
}
