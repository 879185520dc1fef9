package mcpserve

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// wanted says in words what a schema takes, as far as the schemas here go.
func wanted(s *jsonschema.Schema) string {
	if len(s.AnyOf) > 0 {
		all := make([]string, len(s.AnyOf))
		for i, sub := range s.AnyOf {
			all[i] = wanted(sub)
		}
		return strings.Join(all, ", or ")
	}
	if len(s.Enum) > 0 {
		all := make([]string, len(s.Enum))
		for i, value := range s.Enum {
			all[i] = fmt.Sprint(value)
		}
		return "one of " + strings.Join(all, ", ")
	}
	kind := s.Type
	if kind == "" && len(s.Types) > 0 {
		kind = s.Types[0] // beside it stands null
	}
	switch kind {
	case "string":
		return "a string" + between(" of", s.MinLength, s.MaxLength, "characters")
	case "integer":
		return "an integer" + within(s.Minimum, s.Maximum)
	case "number":
		return "a number" + within(s.Minimum, s.Maximum)
	case "array":
		return wantedList(s)
	case "object":
		return "an object"
	case "boolean":
		return "true or false"
	case "null":
		return "null"
	default:
		return "another value"
	}
}

func wantedList(s *jsonschema.Schema) string {
	list := "a list" + between(" of", s.MinItems, s.MaxItems, "entries")
	if s.UniqueItems {
		list += ", no two the same"
	}
	if s.Items != nil {
		list += ", each " + wanted(s.Items)
	}
	return list
}

func between(before string, low, high *int, what string) string {
	switch {
	case low != nil && high != nil:
		return fmt.Sprintf("%s %d to %d %s", before, *low, *high, what)
	case low != nil:
		return fmt.Sprintf("%s at least %d %s", before, *low, what)
	case high != nil:
		return fmt.Sprintf("%s at most %d %s", before, *high, what)
	default:
		return ""
	}
}

func within(low, high *float64) string {
	const largest = 1 << 53 // where a bound is only there to keep integers exact
	number := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	switch {
	case low != nil && high != nil && *high < largest-1:
		return " from " + number(*low) + " to " + number(*high)
	case low != nil:
		return " of at least " + number(*low)
	default:
		return ""
	}
}
