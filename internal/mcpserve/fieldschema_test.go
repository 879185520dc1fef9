package mcpserve

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/field"
)

// What is written once stands whole in each schema that names it.
func TestFieldSchemas_Inline(t *testing.T) {
	var file map[string]any
	if err := json.Unmarshal([]byte(`{
		"base": {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "description": "first"}, "b": {"$ref": "leaf"}}},
		"leaf": {"type": "integer"},
		"second": {"required": ["c"], "properties": {"c": {"$ref": "leaf", "minimum": 1}}},
		"whole": {"$ref": ["base", "second"], "title": "both", "required": ["b"], "properties": {"a": {"$ref": "leaf"}}, "anyOf": [{"$ref": "leaf"}, 7]}
	}`), &file); err != nil {
		t.Fatal(err)
	}
	got, err := inlined(file["whole"], file)
	if err != nil {
		t.Fatal(err)
	}
	leaf := map[string]any{"type": "integer"}
	want := map[string]any{
		"type": "object", "title": "both", "required": []any{"a", "c", "b"},
		"properties": map[string]any{"a": leaf, "b": leaf, "c": map[string]any{"type": "integer", "minimum": 1.0}},
		"anyOf":      []any{leaf, 7.0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`{"$ref":"gone"}`, `{"a":[{"$ref":"gone"}]}`, `{"a":{"$ref":["leaf","gone"]}}`} {
		var part any
		if err := json.Unmarshal([]byte(bad), &part); err != nil {
			t.Fatal(err)
		}
		if _, err := inlined(part, file); err == nil || !strings.Contains(err.Error(), `names gone`) {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := readFieldSchema("field_merge.input"); err == nil {
		t.Error("a schema that there is not was read")
	}
}

// Every tool and event type has its schemas, there are no others, and everything
// that is written once is used.
func TestFieldSchemas_AreAllUsed(t *testing.T) {
	b, err := schemaFiles.ReadFile("schemas/field.json")
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	want := []string{"$defs", "field.attune", "field.attune.arguments", "field.reckon", "field.reckon.arguments"}
	for _, op := range field.Ops() {
		want = append(want, "field_"+string(op)+".input", "field_"+string(op)+".output")
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(file))); diff != "" {
		t.Error(diff)
	}
	var defs map[string]json.RawMessage
	if err := json.Unmarshal(file["$defs"], &defs); err != nil {
		t.Fatal(err)
	}
	for name := range defs { //arch:sorted each by itself
		if !strings.Contains(string(b), `"$ref": "`+name+`"`) && !strings.Contains(string(b), `"`+name+`"]`) && !strings.Contains(string(b), `["`+name+`"`) {
			t.Errorf("nothing names %s", name)
		}
	}
}
