package hooks

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Template makes a scope: text, with values of what was sent in braces, as
// "repo:{repository.full_name}". A brace that stands for itself is doubled.
type Template struct{ parts []part }

// part is text, or the path of a value.
type part struct {
	text string
	path []string
}

// ParseTemplate takes a template apart.
func ParseTemplate(text string) (Template, error) {
	parts, err := split(text, func(name string) ([]string, error) {
		path := strings.Split(name, ".")
		for _, step := range path {
			if step == "" || strings.TrimSpace(step) != step {
				return nil, fmt.Errorf("holds {%s}: want the path of a value without blanks, as {repository.full_name}", name)
			}
		}
		return path, nil
	})
	return Template{parts}, err
}

// split cuts text at its braces. What stands between them is given to path.
func split(text string, path func(name string) ([]string, error)) (parts []part, err error) {
	for text != "" {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			return append(parts, part{text: text}), nil
		}
		if i > 0 {
			parts = append(parts, part{text: text[:i]})
		}
		brace, rest := text[i], text[i+1:]
		if rest != "" && rest[0] == brace {
			parts, text = append(parts, part{text: string(brace)}), rest[1:]
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if brace == '}' || !closed {
			return nil, errors.New("has a brace that is not closed, or was not opened: double one that stands for itself")
		}
		p, err := path(name)
		if err != nil {
			return nil, err
		}
		parts, text = append(parts, part{path: p}), after
	}
	return parts, nil
}

// fill puts the values in. ok is false where one is not there, or is no text,
// number or boolean.
func (t *Template) fill(members map[string]json.RawMessage) (scope string, ok bool) {
	var b strings.Builder
	for _, p := range t.parts {
		if p.path == nil {
			b.WriteString(p.text)
			continue
		}
		value, ok := valueAt(members, p.path)
		if !ok {
			return "", false
		}
		b.WriteString(value)
	}
	return b.String(), b.Len() > 0
}

// valueAt returns a value as text.
func valueAt(members map[string]json.RawMessage, path []string) (string, bool) {
	value := members[path[0]]
	for _, step := range path[1:] {
		var inner map[string]json.RawMessage
		if json.Unmarshal(value, &inner) != nil {
			return "", false
		}
		value = inner[step]
	}
	value = bytes.TrimSpace(value)
	switch {
	case len(value) == 0 || value[0] == 'n' || value[0] == '{' || value[0] == '[':
		return "", false
	case value[0] != '"':
		return string(value), true
	}
	text := textOf(value)
	return text, text != ""
}

// textOf returns a JSON string's text, "" where it is none.
func textOf(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) != nil {
		return ""
	}
	return text
}

// scoper makes the scopes of a hook. What its template cannot fill goes to a
// scope of the hook's own, so that it is not lost.
type scoper struct {
	template Template
	fallback string
}

func (s scoper) of(members map[string]json.RawMessage) string {
	if scope, ok := s.template.fill(members); ok {
		return fitScope(scope)
	}
	return s.fallback
}

// maxScope is how many bytes a scope may have.
const maxScope = 512

// fitScope makes a scope of text that a sender has chosen: without control
// characters, and a long one ends in a hash in place of what was cut off.
func fitScope(text string) string {
	scope := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, text)
	return fitted(scope, maxScope)
}

// fitted cuts text to so many bytes, and puts a hash in place of what it cuts:
// what was different stays so.
func fitted(text string, most int) string {
	if len(text) <= most {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	end := "~" + hex.EncodeToString(sum[:16])
	return cutText(text, most-len(end)) + end
}

// cutText returns the first bytes of a text, whole characters.
func cutText(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}
