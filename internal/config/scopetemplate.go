package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// ScopeTemplate makes the scope of a source's events: text, with values of the
// subscription's arguments and of an event's data in braces, as
// "repo:{arguments.repo}" and "chat:{data.channel.id}". A brace that stands for
// itself is doubled.
type ScopeTemplate struct {
	text  string
	parts []scopePart
}

// scopePart is text, or a value of the data.
type scopePart struct {
	text string
	path []string // of the value within the data; nil for text
}

// String is the template as it was written.
func (t *ScopeTemplate) String() string { return t.text }

// Fixed returns the scope where it is the same for every event, else "".
func (t *ScopeTemplate) Fixed() string {
	if len(t.parts) == 1 && t.parts[0].path == nil {
		return t.parts[0].text
	}
	return ""
}

// Of returns the scope of an event with the data. The error says which value
// the data lacks.
func (t *ScopeTemplate) Of(data json.RawMessage) (string, error) {
	var b strings.Builder
	for _, part := range t.parts {
		if part.path == nil {
			b.WriteString(part.text)
			continue
		}
		text, err := valueAt(data, part.path)
		if err != nil {
			return "", fmt.Errorf("data.%s %w", strings.Join(part.path, "."), err)
		}
		b.WriteString(text)
	}
	return b.String(), nil
}

// valueAt returns a string, number or boolean within a JSON value, as text.
func valueAt(value json.RawMessage, path []string) (string, error) {
	for _, name := range path {
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil || members[name] == nil {
			return "", errors.New("is not there")
		}
		value = members[name]
	}
	value = bytes.TrimSpace(value)
	switch {
	case len(value) == 0 || bytes.Equal(value, []byte("null")):
		return "", errors.New("is not there")
	case value[0] == '{' || value[0] == '[':
		return "", errors.New("is an object or a list: a scope needs text, a number, true or false")
	case value[0] != '"':
		return string(value), nil
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return "", errors.New("cannot be read")
	}
	if text == "" {
		return "", errors.New("is empty")
	}
	return text, nil
}

// maxScopeBytes is what a scope may have.
const maxScopeBytes = 512

// scopeTemplate reads a template, and fills in the arguments.
func (r *reader) scopeTemplate(n *yaml.Node, key string, arguments json.RawMessage) ScopeTemplate {
	text, ok := r.name(n, key, maxScopeBytes)
	if !ok {
		return ScopeTemplate{}
	}
	t, err := parseScope(text, arguments)
	if err != nil {
		r.fail(n, key, "%v", err)
	}
	return t
}

// parseScope takes a template apart. Text that stands side by side is one part.
func parseScope(text string, arguments json.RawMessage) (ScopeTemplate, error) {
	t := ScopeTemplate{text: text}
	add := func(s string) {
		if last := len(t.parts) - 1; last >= 0 && t.parts[last].path == nil {
			t.parts[last].text += s
			return
		}
		t.parts = append(t.parts, scopePart{text: s})
	}
	for rest := text; rest != ""; {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			add(rest)
			break
		}
		if i > 0 {
			add(rest[:i])
		}
		brace := rest[i]
		if strings.HasPrefix(rest[i+1:], string(brace)) {
			add(string(brace))
			rest = rest[i+2:]
			continue
		}
		name, after, closed := strings.Cut(rest[i+1:], "}")
		if brace == '}' || !closed {
			return t, fmt.Errorf("has a brace that is not closed, or was not opened: double one that stands for itself")
		}
		rest = after
		value, path, err := reference(name, arguments)
		switch {
		case err != nil:
			return t, err
		case path != nil:
			t.parts = append(t.parts, scopePart{path: path})
		default:
			add(value)
		}
	}
	if fixed := t.Fixed(); len(fixed) > maxScopeBytes || strings.ContainsFunc(fixed, unicode.IsControl) {
		return t, fmt.Errorf("makes the scope %s: want 1 to %d bytes without control characters", quote(fixed), maxScopeBytes)
	}
	return t, nil
}

// reference finds what stands in braces: a value of the arguments, or a path
// within the data.
func reference(name string, arguments json.RawMessage) (value string, path []string, err error) {
	parts := strings.Split(name, ".")
	for _, part := range parts {
		if part == "" || len(parts) < 2 {
			return "", nil, fmt.Errorf("holds {%s}: want {arguments.NAME} or {data.NAME}, as {data.repository.name}", clip(name))
		}
	}
	switch parts[0] {
	case "data":
		return "", parts[1:], nil
	case "arguments":
		if value, err = valueAt(arguments, parts[1:]); err != nil {
			err = fmt.Errorf("holds {%s}, which %w", clip(name), err)
		}
		return value, nil, err
	default:
		return "", nil, fmt.Errorf("holds {%s}: want {arguments.NAME} or {data.NAME}%s", clip(name), didYouMean(parts[0], []string{"arguments", "data"}))
	}
}

// sourceArguments reads the arguments of a subscription as JSON.
func (r *reader) sourceArguments(n *yaml.Node, key string) json.RawMessage {
	if n.Kind != yaml.MappingNode {
		r.fail(n, key, "is %s: must be an object, as {repo: acme/shop}", describe(n))
		return nil
	}
	budget := maxSourceArguments
	value, ok := r.json(n, key, &budget)
	if !ok {
		return nil
	}
	b, err := json.Marshal(value) // which sorts keys
	if err != nil || len(b) > maxSourceArguments {
		r.fail(n, key, "is too large: at most %d bytes of JSON", maxSourceArguments)
		return nil
	}
	if len(n.Content) == 0 {
		return nil
	}
	return b
}

// json reads a node as a JSON value. The budget bounds how many nodes aliases
// can make of a few.
func (r *reader) json(n *yaml.Node, key string, budget *int) (any, bool) {
	n = resolve(n)
	if *budget--; *budget < 0 {
		return nil, false
	}
	switch {
	case n.Kind == yaml.MappingNode:
		object, fine := make(map[string]any), true
		for _, f := range r.fields(n, key, "an object") {
			value, ok := r.json(f.value, join(key, label(f.name)), budget)
			object[f.name], fine = value, fine && ok
		}
		return object, fine
	case n.Kind == yaml.SequenceNode:
		list, fine := make([]any, len(n.Content)), true
		for i, item := range n.Content {
			value, ok := r.json(item, fmt.Sprintf("%s[%d]", key, i), budget)
			list[i], fine = value, fine && ok
		}
		return list, fine
	case isNull(n):
		return nil, true
	case n.Tag == "!!bool":
		return strings.EqualFold(n.Value, "true"), true
	case n.Tag == "!!int" || n.Tag == "!!float":
		return r.jsonNumber(n, key)
	default:
		return n.Value, true
	}
}

// jsonNumber keeps the digits of a number that JSON can write as it stands.
func (r *reader) jsonNumber(n *yaml.Node, key string) (any, bool) {
	if json.Valid([]byte(n.Value)) {
		return json.Number(n.Value), true
	}
	v, ok := r.number(n, key)
	return json.Number(strconv.FormatFloat(v, 'g', -1, 64)), ok
}
