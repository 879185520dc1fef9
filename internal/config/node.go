package config

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v3"

	"attend/internal/judge/rules"
)

// reader walks a document and gathers its mistakes. Its methods report what is
// wrong and return ok false, so that the walk goes on to the next mistake.
type reader struct {
	source   string
	doc      *rules.Document   // its text; nil where it has no conditions
	env      map[string]string // what values may name
	keyless  bool              // they need not be set: nothing is sent
	mistakes Mistakes
}

func (r *reader) place(n *yaml.Node) Place { return Place{r.source, n.Line, n.Column} }

func (r *reader) fail(n *yaml.Node, key, format string, args ...any) {
	r.mistakes = append(r.mistakes, Mistake{Place: r.place(n), Key: key, Problem: fmt.Sprintf(format, args...)})
}

// field is one entry of a mapping.
type field struct {
	name       string
	key, value *yaml.Node
}

// fields returns the entries of a mapping in file order, each name once. A nil
// or null node has none.
func (r *reader) fields(n *yaml.Node, key, want string) []field {
	if n == nil || isNull(n) {
		return nil
	}
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		r.fail(n, key, "is %s: must be %s", describe(n), want)
		return nil
	}
	all := make([]field, 0, len(n.Content)/2)
	first := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := resolve(k)
		switch before, again := first[name.Value]; {
		case name.Kind != yaml.ScalarNode:
			r.fail(k, key, "a key is %s: must be text", describe(name))
		case k.Tag == "!!merge":
			r.fail(k, join(key, "<<"), "merge keys are not read; write the settings out")
		case again:
			r.fail(k, join(key, label(name.Value)), "is given twice, first on line %d", before.Line)
		default:
			first[name.Value] = k
			all = append(all, field{name.Value, k, resolve(v)})
		}
	}
	return all
}

// items returns the elements of a list; a nil or null node has none.
func (r *reader) items(n *yaml.Node, key, want string) []*yaml.Node {
	if n == nil || isNull(n) {
		return nil
	}
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		r.fail(n, key, "is %s: must be %s", describe(n), want)
		return nil
	}
	all := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		all[i] = resolve(item)
	}
	return all
}

// text reads a scalar as it was written, 007 and yes included.
func (r *reader) text(n *yaml.Node, key string, mostBytes int) (string, bool) {
	switch {
	case n.Kind != yaml.ScalarNode || isNull(n):
		r.fail(n, key, "is %s: must be text", describe(n))
	case strings.TrimSpace(n.Value) == "":
		r.fail(n, key, "is empty: give a value, or leave the key out")
	case len(n.Value) > mostBytes:
		r.fail(n, key, "has %d bytes: may have at most %d", len(n.Value), mostBytes)
	default:
		return n.Value, true
	}
	return "", false
}

// name reads text without control characters: a pattern, a predicate's name.
func (r *reader) name(n *yaml.Node, key string, mostBytes int) (string, bool) {
	v, ok := r.text(n, key, mostBytes)
	if ok && strings.ContainsFunc(v, unicode.IsControl) {
		r.fail(n, key, "is %s: must not hold control characters", quote(v))
		return "", false
	}
	return v, ok
}

// integer reads a whole number up to most. The engine knows the least.
func (r *reader) integer(n *yaml.Node, key string, most int64) (int64, bool) {
	var v int64
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" {
		hint := ""
		if d, err := time.ParseDuration(n.Value); err == nil && strings.Contains(key, "Ms") {
			hint = fmt.Sprintf(" of milliseconds: write %d", d.Milliseconds())
		}
		r.fail(n, key, "is %s: must be a whole number%s", describe(n), hint)
		return 0, false
	}
	if err := n.Decode(&v); err != nil || v > most {
		r.fail(n, key, "is %s: must be at most %d", n.Value, most)
		return 0, false
	}
	return v, true
}

// number reads a number, whole or not.
func (r *reader) number(n *yaml.Node, key string) (float64, bool) {
	var v float64
	if n.Kind == yaml.ScalarNode && (n.Tag == "!!int" || n.Tag == "!!float") {
		if err := n.Decode(&v); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, true
		}
	}
	r.fail(n, key, "is %s: must be a number", describe(n))
	return 0, false
}

// resolve follows a YAML alias to what it stands for. An alias never stands
// for another one.
func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	return resolve(n).Kind == yaml.ScalarNode && resolve(n).Tag == "!!null"
}

// describe says what a node is, for "is …: must be …".
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	default:
		if isNull(n) {
			return "null"
		}
		if n.Tag == "!!str" {
			return quote(n.Value)
		}
		return clip(n.Value)
	}
}

// join makes the path of a key: policy.maxEvents.
func join(parent, name string) string {
	if parent == "" {
		return name
	}
	return parent + "." + name
}

// label writes a name in a path: plain when it is a plain word, else quoted.
func label(name string) string {
	plainWord := name != "" && len(name) <= 64 && !slices.ContainsFunc([]rune(name), func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
	if plainWord {
		return name
	}
	return quote(name)
}
