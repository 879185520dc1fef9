package config

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"attend/internal/engine"
)

// Kinds maps event names to kinds: exact names and globs, in the order in
// which they were written. How a name is resolved is the engine's rule
// ([engine.Policy.KindOf]); the order does not matter.
type Kinds struct {
	Source  string      `json:"source"` // the file, "ATTEND_KINDS", "--kinds"; "" when none are configured
	Entries []KindEntry `json:"entries"`
}

// KindEntry is one line of a kinds file.
type KindEntry struct {
	Place   Place       `json:"place"`
	Pattern string      `json:"pattern"`
	Kind    engine.Kind `json:"kind"`
}

// Map returns the kinds as [engine.Policy] takes them.
func (k Kinds) Map() map[string]engine.Kind {
	m := make(map[string]engine.Kind, len(k.Entries))
	for _, e := range k.Entries {
		m[e.Pattern] = e.Kind
	}
	return m
}

// has reports whether any entry is of one of the kinds.
func (k Kinds) has(kinds ...engine.Kind) bool {
	return slices.ContainsFunc(k.Entries, func(e KindEntry) bool { return slices.Contains(kinds, e.Kind) })
}

// LoadKinds reads kinds from a file (YAML by the extensions .yaml and .yml,
// else JSON) or, when source starts with {, from source itself as JSON. The
// error is [Mistakes]: all of them, with line and column.
func LoadKinds(source string) (Kinds, error) {
	kinds, mistakes := loadKinds(given{text: source, place: Place{Source: "kinds"}}, false)
	return kinds, mistakes.err()
}

// ParseKinds reads kinds from the bytes of a file; name is what mistakes call
// it, and its extension says whether it is YAML. The error is [Mistakes].
func ParseKinds(name string, b []byte) (Kinds, error) {
	kinds, mistakes := parseKinds(name, b)
	return kinds, mistakes.err()
}

// loadKinds reads the file that was given, or the inline JSON.
func loadKinds(v given, again bool) (Kinds, Mistakes) {
	text := strings.TrimSpace(v.text)
	if strings.HasPrefix(text, "{") {
		return parseKinds(v.place.Source, []byte(text))
	}
	path := text
	if v.dir != "" && !filepath.IsAbs(path) {
		path = filepath.Join(v.dir, path)
	}
	b, err := readFile(path, again)
	if err != nil {
		problem := fmt.Sprintf("file %s %v", quote(path), err)
		if strings.HasPrefix(text, "[") {
			problem = "is a list: must be an object of event names and kinds, or the path of a file"
		}
		return Kinds{}, Mistakes{{v.place, v.key, problem}}
	}
	return parseKinds(path, b)
}

func parseKinds(source string, b []byte) (Kinds, Mistakes) {
	root, mistakes := parse(source, b)
	if mistakes != nil {
		return Kinds{}, mistakes
	}
	r := &reader{source: source}
	kinds := r.readKinds(root, "")
	return kinds, r.mistakes
}

// readKinds reads an object of names and kinds.
func (r *reader) readKinds(n *yaml.Node, key string) Kinds {
	kinds := Kinds{Source: r.source}
	first := make(map[string]KindEntry)
	for _, f := range r.fields(n, key, `an object of event names and kinds, as {"message.created": "flush"}`) {
		e := KindEntry{Place: r.place(f.key), Pattern: f.name}
		at := join(key, quote(f.name))
		if _, ok := r.name(f.key, at, maxPatternBytes); !ok {
			continue
		}
		kind, err := engine.ParseKind(f.value.Value)
		if err != nil || f.value.Kind != yaml.ScalarNode {
			r.fail(f.value, at, "is %s: unknown kind%s", describe(f.value), orList(f.value.Value, kindNames()))
			continue
		}
		e.Kind = kind
		if before, again := first[canonical(e.Pattern)]; again {
			r.fail(f.key, at, "matches the same names as %s on line %d", quote(before.Pattern), before.Place.Line)
			continue
		}
		first[canonical(e.Pattern)] = e
		kinds.Entries = append(kinds.Entries, e)
	}
	return kinds
}

func kindNames() []string {
	var names []string
	for _, k := range engine.Kinds() {
		names = append(names, k.String())
	}
	return names
}

func routeNames() []string {
	var names []string
	for _, route := range engine.Routes() {
		names = append(names, route.String())
	}
	return names
}

// orList suggests the name that was meant, or lists all there are.
func orList(written string, names []string) string {
	if hint := didYouMean(written, names); hint != "" {
		return hint
	}
	last := len(names) - 1
	return "; want " + strings.Join(names[:last], ", ") + " or " + names[last]
}
