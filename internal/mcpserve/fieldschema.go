package mcpserve

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fieldSchemas is the file with the schemas of the Field: what they share is
// written there once, under $defs, and named by $ref.
const fieldSchemas = "field"

// readFieldSchema returns a schema of the Field as it is shown to clients, who
// see each by itself: what a $ref names stands in its place.
func readFieldSchema(name string) (json.RawMessage, error) {
	b, err := schemaFiles.ReadFile("schemas/" + fieldSchemas + ".json")
	if err != nil {
		return nil, fmt.Errorf("read schema %s: %w", name, err)
	}
	var file map[string]any
	if err := json.Unmarshal(b, &file); err != nil {
		return nil, fmt.Errorf("parse schema %s: %w", name, err)
	}
	schema, ok := file[name]
	defs, known := file["$defs"].(map[string]any)
	if !ok || !known {
		return nil, fmt.Errorf("read schema %s: %w", name, errors.New("there is none"))
	}
	whole, err := inlined(schema, defs)
	if err != nil {
		return nil, fmt.Errorf("read schema %s: %w", name, err)
	}
	return json.Marshal(whole)
}

// inlined returns a part of a schema without $ref.
func inlined(part any, defs map[string]any) (any, error) {
	switch part := part.(type) {
	case []any:
		list := make([]any, len(part))
		for i := range part {
			var err error
			if list[i], err = inlined(part[i], defs); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		return inlinedObject(part, defs)
	default:
		return part, nil
	}
}

// inlinedObject returns what the $ref of an object names, one or a list of
// them, with the object's own members laid over it.
func inlinedObject(part, defs map[string]any) (map[string]any, error) {
	var names []any
	switch ref := part["$ref"].(type) {
	case []any:
		names = ref
	case string:
		names = []any{ref}
	}
	whole := make(map[string]any, len(part))
	for _, name := range names {
		def, known := defs[fmt.Sprint(name)].(map[string]any)
		if !known {
			return nil, fmt.Errorf("$ref names %v, which is not among $defs", name)
		}
		base, err := inlinedObject(def, defs)
		if err != nil {
			return nil, err
		}
		lay(whole, base)
	}
	own := make(map[string]any, len(part))
	for key, value := range part { //arch:sorted into a map
		if key == "$ref" {
			continue
		}
		var err error
		if own[key], err = inlined(value, defs); err != nil {
			return nil, err
		}
	}
	lay(whole, own)
	return whole, nil
}

// lay adds members to an object: properties and required are joined with those
// that it has, and all else takes the place of what was there.
func lay(whole, over map[string]any) {
	for key, value := range over { //arch:sorted into a map
		switch below := whole[key].(type) {
		case map[string]any:
			if above, ok := value.(map[string]any); ok && key == "properties" {
				maps.Copy(below, above)
				continue
			}
		case []any:
			if above, ok := value.([]any); ok && key == "required" {
				value = slices.Concat(below, above)
			}
		}
		whole[key] = value
	}
}

// isOfField tells which schemas stand in the file of the Field.
func isOfField(name string) bool {
	return strings.HasPrefix(name, fieldSchemas+".") || strings.HasPrefix(name, fieldSchemas+"_")
}
