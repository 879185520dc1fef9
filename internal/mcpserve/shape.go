package mcpserve

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

//go:embed schemas/*.json
var schemaFiles embed.FS //arch:constant written by the compiler

// shape is a JSON Schema to hold arguments to. The library says whether they
// fit; the parts tell which one does not, and what would.
type shape struct {
	raw      json.RawMessage
	schema   *jsonschema.Schema
	resolved *jsonschema.Resolved
	members  map[string]*shape // of an object
	items    *shape            // of a list
}

// readSchema returns an embedded schema as it is shown to clients.
func readSchema(name string) (json.RawMessage, error) {
	if isOfField(name) {
		return readFieldSchema(name)
	}
	b, err := schemaFiles.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("read schema %s: %w", name, err)
	}
	return b, nil
}

// readShape reads an embedded schema for checking with. The entries of the
// lists named are only held to be objects: whoever takes them judges each by
// itself.
func readShape(name string, lists ...string) (*shape, error) {
	raw, err := readSchema(name)
	if err != nil {
		return nil, err
	}
	schema := new(jsonschema.Schema)
	if err := json.Unmarshal(raw, schema); err != nil {
		return nil, fmt.Errorf("parse schema %s: %w", name, err)
	}
	for _, list := range lists {
		schema.Properties[list].Items = &jsonschema.Schema{Type: "object"}
	}
	s, err := newShape(schema)
	if err != nil {
		return nil, fmt.Errorf("resolve schema %s: %w", name, err)
	}
	s.raw = raw
	return s, nil
}

func newShape(schema *jsonschema.Schema) (s *shape, err error) {
	s = &shape{schema: schema, members: make(map[string]*shape)}
	if schema.Items != nil {
		if s.items, err = newShape(schema.Items.CloneSchemas()); err != nil {
			return nil, err
		}
	}
	for name, member := range schema.Properties { //arch:sorted into a map
		if s.members[name], err = newShape(member.CloneSchemas()); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	s.resolved, err = schema.Resolve(nil)
	return s, err
}

// fault is an argument that does not fit.
type fault struct {
	path   string // JSON pointer
	reason string
}

// Error names the argument, where it is one.
func (f *fault) Error() string {
	if f.path == "" {
		return f.reason
	}
	return f.path + ": " + f.reason
}

// check holds the members of an object to the shape. Of several faults the
// first by name is reported.
func (s *shape) check(members map[string]json.RawMessage) *fault {
	object := make(map[string]any, len(members))
	for name, raw := range members { //arch:sorted into a map
		var value any
		if err := json.Unmarshal(raw, &value); err != nil {
			return &fault{"/" + pointerEscape(name), "is not JSON, or holds a number that is too large"}
		}
		object[name] = value
	}
	return s.find(object, "")
}

// find looks for the innermost part of a value that does not fit.
func (s *shape) find(value any, path string) *fault {
	if s.resolved.Validate(value) == nil {
		return nil
	}
	switch value := value.(type) {
	case map[string]any:
		if bad := s.findMember(value, path); bad != nil {
			return bad
		}
	case []any:
		for i := range value {
			if s.items == nil {
				break
			}
			if bad := s.items.find(value[i], fmt.Sprintf("%s/%d", path, i)); bad != nil {
				return bad
			}
		}
	}
	return &fault{path, "must be " + wanted(s.schema)}
}

func (s *shape) findMember(object map[string]any, path string) *fault {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		at := path + "/" + pointerEscape(name)
		member := s.members[name]
		if member == nil {
			if s.schema.AdditionalProperties == nil {
				continue
			}
			at = path + "/" + pointerEscape(cutText(name, maxArgumentName))
			return &fault{at, "is unknown; there are " + strings.Join(slices.Sorted(maps.Keys(s.members)), ", ")}
		}
		if bad := member.find(object[name], at); bad != nil {
			return bad
		}
	}
	for _, name := range s.schema.Required {
		if _, ok := object[name]; !ok {
			return &fault{path + "/" + pointerEscape(name), "is required"}
		}
	}
	return nil
}

func pointerEscape(s string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }

// member decodes one member that has been checked; absent and null leave the
// value alone.
func member[T any](members map[string]json.RawMessage, name string, into *T) *fault {
	raw, ok := members[name]
	if !ok || string(raw) == "null" {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return &fault{"/" + pointerEscape(name), "does not fit: " + err.Error()}
	}
	return nil
}
