package app

import (
	_ "embed"
	"net/http"
)

// document describes the HTTP interface: OpenAPI 3.1, written by hand and held
// against the handlers by a test.
//
//go:embed openapi.json
var document []byte

// serveDocument answers GET /openapi.json.
func serveDocument(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(document) // an error means that the caller has gone
}
