// Package problem writes errors over HTTP as application/problem+json (RFC
// 9457), with one more member: code, a short name that programs compare. The
// other members are for people.
package problem

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem is the body of an error answer. It may be embedded in a struct that
// adds members of its own.
type Problem struct {
	Type   string `json:"type"`   // always "about:blank": Code tells problems apart
	Title  string `json:"title"`  // the status in words
	Status int    `json:"status"` // the HTTP status
	Detail string `json:"detail"` // what went wrong, where, and how to mend it
	Code   string `json:"code"`   // stable, in camelCase
}

// New makes a problem. The detail is shown to the caller: it holds no secrets
// and nothing that only the operator should know.
func New(status int, code, detail string) Problem {
	return Problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Code: code}
}

// Write answers with the problem. Headers that belong to it, such as
// Retry-After, are set by the caller before.
func (p Problem) Write(w http.ResponseWriter) {
	Write(w, p.Status, p)
}

// Write answers with a struct that embeds a Problem. An error while writing
// means that the client is gone, and is dropped.
func Write(w http.ResponseWriter, status int, body any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a detail is read by people: "Bearer <token>"
	if err := enc.Encode(body); err != nil {
		http.Error(w, "the answer could not be written as JSON", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}
