package api_test

import (
	"net/http"
	"strings"
	"testing"
)

// Half of a surrogate pair is the Field's to refuse, with its own code, as over
// MCP: it comes to the Field as it was written.
func TestField_PassesHalvesOn(t *testing.T) {
	w := newWorld(t)
	w.fields.result = map[string]any{}
	const body = `{"agent":"\ud800","entry":{"\uDC00":1}}`
	if r := w.do(http.MethodPost, "/v1/field/write", body); r.status != http.StatusOK {
		t.Fatalf("%d %s", r.status, r.body)
	}
	if want := `"default" write ` + body; len(w.fields.calls) != 1 || w.fields.calls[0] != want {
		t.Errorf("the Field was asked %q, want %s", w.fields.calls, want)
	}
	refused := w.do(http.MethodPost, "/v1/field/write", `{"field":"\ud800"}`).problem(http.StatusBadRequest, "INVALID_ENTRY")
	if !strings.Contains(refused, "half of a surrogate pair") {
		t.Error(refused)
	}
}

// A name that is long is not said again whole.
func TestField_ShortensNames(t *testing.T) {
	w := newWorld(t)
	name := `"` + strings.Repeat("a", 60000) + `":1`
	if p := w.do(http.MethodPost, "/v1/field/write", "{"+name+","+name+"}").problem(http.StatusBadRequest, "invalidBody"); len(p) > 1000 {
		t.Errorf("%d bytes: %.200s", len(p), p)
	}
}
