package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-chi/chi/v5"
)

// contract holds requests and answers against the OpenAPI document. Readers are
// told to ignore what they do not know; here nothing may be there that the
// document does not name.
type contract struct {
	t    *testing.T
	doc  *openapi3.T
	mux  chi.Routes
	next http.RoundTripper

	mu   sync.Mutex
	seen map[string]bool // "GET /v1/decisions 400 invalidCursor"
}

// readDocument loads the document; closed forbids what it does not name.
func readDocument(t *testing.T, closed bool) *openapi3.T {
	t.Helper()
	b, err := os.ReadFile("openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if closed {
		var tree any
		if err := json.Unmarshal(b, &tree); err != nil {
			t.Fatal(err)
		}
		closeObjects(tree)
		if b, err = json.Marshal(tree); err != nil {
			t.Fatal(err)
		}
	}
	doc, err := openapi3.NewLoader().LoadFromData(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return doc
}

// closeObjects forbids members that an object's schema does not name, unless
// it says itself what else may come.
func closeObjects(node any) {
	switch n := node.(type) {
	case map[string]any:
		_, object := n["properties"].(map[string]any)
		if object && n["additionalProperties"] == nil && n["$ref"] == nil {
			n["additionalProperties"] = false
		}
		for _, child := range n {
			closeObjects(child)
		}
	case []any:
		for _, child := range n {
			closeObjects(child)
		}
	}
}

// hold puts the contract before a daemon's client.
func hold(d *running) *contract {
	d.t.Helper()
	registerDecoders()
	c := &contract{t: d.t, doc: readDocument(d.t, true), mux: d.app.Routes(), next: d.client.Transport, seen: make(map[string]bool)}
	d.client.Transport = c
	return c
}

// registerDecoders tells the library of bodies that it does not know.
func registerDecoders() {
	for _, media := range []string{"application/x-ndjson", "text/event-stream"} {
		openapi3filter.RegisterBodyDecoder(media, func(body io.Reader, _ http.Header, _ *openapi3.SchemaRef, _ openapi3filter.EncodingFn) (any, error) {
			b, err := io.ReadAll(body)
			return string(b), err
		})
	}
}

// RoundTrip sends a request and checks it and what comes back. What is not
// refused must be right by the document, too.
func (c *contract) RoundTrip(req *http.Request) (*http.Response, error) {
	body := []byte{}
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	input := c.input(req, body)
	if input == nil {
		return resp, nil
	}
	what := req.Method + " " + req.URL.RequestURI()
	if resp.StatusCode < 300 {
		if err := openapi3filter.ValidateRequest(req.Context(), input); err != nil {
			c.t.Errorf("%s is answered with %d, and the document refuses it: %v", what, resp.StatusCode, err)
		}
	}
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	code := ""
	if resp.Header.Get("Content-Type") != "text/event-stream" { // it does not end
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(b))
		answer.SetBodyBytes(b)
		code = problemCode(resp.Header, b)
	} else {
		answer.SetBodyBytes(nil)
	}
	if req.Method != http.MethodHead {
		if err := openapi3filter.ValidateResponse(req.Context(), answer); err != nil {
			c.t.Errorf("%s: the document does not allow the answer %d: %v", what, resp.StatusCode, err)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[strings.TrimSpace(fmt.Sprintf("%s %s %d %s", input.Route.Method, input.Route.Path, resp.StatusCode, code))] = true
	return resp, nil
}

// input finds the operation that serves a request, nil where there is none.
func (c *contract) input(req *http.Request, body []byte) *openapi3filter.RequestValidationInput {
	method := req.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	match := chi.NewRouteContext()
	if !c.mux.Match(match, method, req.URL.EscapedPath()) {
		return nil
	}
	path := match.RoutePattern()
	item := c.doc.Paths.Find(path)
	if item == nil || item.GetOperation(method) == nil {
		return nil // another test says what has no operation
	}
	params := make(map[string]string)
	for i, key := range match.URLParams.Keys {
		params[key] = match.URLParams.Values[i]
	}
	checked := req.Clone(req.Context())
	checked.Body = io.NopCloser(bytes.NewReader(body))
	return &openapi3filter.RequestValidationInput{
		Request: checked, PathParams: params,
		Route: &routers.Route{Spec: c.doc, Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)},
		Options: &openapi3filter.Options{
			MultiError: true, SkipSettingDefaults: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc,
		},
	}
}

// problemCode is the code of a problem, "" where the answer is none.
func problemCode(header http.Header, body []byte) string {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	var p struct{ Code string }
	if media != "application/problem+json" || json.Unmarshal(body, &p) != nil {
		return ""
	}
	return p.Code
}

// fits checks a value against a schema of the document's components.
func (c *contract) fits(schema string, value []byte) {
	c.t.Helper()
	var v any
	if err := json.Unmarshal(value, &v); err != nil {
		c.t.Errorf("%v in %s", err, value)
		return
	}
	if err := c.doc.Components.Schemas[schema].Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
		c.t.Errorf("%s is no %s: %v", value, schema, err)
	}
}
