package mcpserve

import (
	"embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

//go:embed schemas/*.json
var schemaFiles embed.FS //arch:constant written by the compiler

// shape is the JSON Schema of an object whose members are checked one by one,
// so that a fault names its member.
type shape struct {
	raw      json.RawMessage
	required []string
	open     bool // further members are let through
	members  map[string]*jsonschema.Resolved
	names    []string // of members, sorted
}

// readSchema returns an embedded schema as it is shown to clients.
func readSchema(name string) (json.RawMessage, error) {
	b, err := schemaFiles.ReadFile("schemas/" + name + ".json")
	if err != nil {
		return nil, fmt.Errorf("read schema %s: %w", name, err)
	}
	return b, nil
}

// readShape reads an embedded schema for checking with.
func readShape(name string) (*shape, error) {
	raw, err := readSchema(name)
	if err != nil {
		return nil, err
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("parse schema %s: %w", name, err)
	}
	s := &shape{raw: raw, required: schema.Required, open: schema.AdditionalProperties == nil, members: make(map[string]*jsonschema.Resolved)}
	for member, sub := range schema.Properties { //arch:sorted into a map and a list sorted below
		resolved, err := sub.Resolve(nil)
		if err != nil {
			return nil, fmt.Errorf("resolve schema %s/%s: %w", name, member, err)
		}
		s.members[member] = resolved
		s.names = append(s.names, member)
	}
	slices.Sort(s.names)
	return s, nil
}

// fault is a parameter that does not fit.
type fault struct {
	path   string // JSON pointer
	reason string
}

// Error reads well at the end of "cannot do that: ".
func (f *fault) Error() string {
	if f.path == "" {
		return f.reason
	}
	return f.path + ": " + f.reason
}

// check reads an object and holds each member to its schema. An absent value
// is an empty object.
func (s *shape) check(raw json.RawMessage) (map[string]json.RawMessage, *fault) {
	var members map[string]json.RawMessage
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &members); err != nil {
			return nil, &fault{"", "must be an object"}
		}
	}
	given := make([]string, 0, len(members))
	for member := range members { //arch:sorted on the next line
		given = append(given, member)
	}
	slices.Sort(given) // so that of several faults the same is reported each time
	for _, member := range given {
		path := "/" + pointerEscape(member)
		schema := s.members[member]
		if schema == nil {
			if s.open {
				continue
			}
			return nil, &fault{path, "unknown; there are " + strings.Join(s.names, ", ")}
		}
		var value any
		if err := json.Unmarshal(members[member], &value); err != nil {
			return nil, &fault{path, "is not JSON"}
		}
		if err := schema.Validate(value); err != nil {
			return nil, &fault{path, reasonOf(err)}
		}
	}
	for _, member := range s.required {
		if _, ok := members[member]; !ok {
			return nil, &fault{"/" + pointerEscape(member), "is required"}
		}
	}
	return members, nil
}

// reasonOf takes the library's breadcrumbs off an error of validation.
func reasonOf(err error) string {
	reason := err.Error()
	for strings.HasPrefix(reason, "validating ") {
		_, rest, ok := strings.Cut(reason, ": ")
		if !ok {
			break
		}
		reason = rest
	}
	const longest = 300 // a value may be quoted in it
	if len(reason) > longest {
		reason = strings.ToValidUTF8(reason[:longest], "") + "…"
	}
	return reason
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
