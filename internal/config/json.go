package config

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// jsonTree builds the tree of a JSON document. It keeps duplicate names, so
// that each can be reported where it stands.
type jsonTree struct {
	dec    *jsontext.Decoder
	source string
	b      []byte

	// The line and column of offset at; it only moves forward.
	at, line, column int
}

func parseJSON(source string, b []byte) (*yaml.Node, Mistakes) {
	t := &jsonTree{
		dec:    jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true)),
		source: source, b: b, line: 1, column: 1,
	}
	root, err := t.value()
	if err == nil {
		_, err = t.dec.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return root, nil
		case err == nil:
			return nil, Mistakes{{Place: t.place(t.next(int(t.dec.InputOffset()))), Problem: "not valid JSON: a second value follows the first"}}
		}
	}
	return nil, Mistakes{t.syntax(err)}
}

// value reads the next value whole.
func (t *jsonTree) value() (*yaml.Node, error) {
	start := t.place(t.next(int(t.dec.InputOffset())))
	token, err := t.dec.ReadToken()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: start.Line, Column: start.Column}
	switch token.Kind() {
	case '{', '[':
		n.Kind, n.Tag = yaml.MappingNode, "!!map"
		end := jsontext.Kind('}')
		if token.Kind() == '[' {
			n.Kind, n.Tag, end = yaml.SequenceNode, "!!seq", ']'
		}
		for t.dec.PeekKind() != end {
			child, err := t.value()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err = t.dec.ReadToken()
		return n, err
	case '"':
		n.Tag, n.Style = "!!str", yaml.DoubleQuotedStyle
	case '0':
		n.Tag = "!!int"
		if strings.ContainsAny(token.String(), ".eE") {
			n.Tag = "!!float"
		}
	case 't', 'f':
		n.Tag = "!!bool"
	default:
		n.Tag = "!!null"
	}
	n.Value = token.String()
	return n, nil
}

// next returns the offset of the value after offset: what stands between two
// values is white space, a comma or a colon.
func (t *jsonTree) next(offset int) int {
	for offset < len(t.b) && strings.IndexByte(" \t\r\n,:", t.b[offset]) >= 0 {
		offset++
	}
	return offset
}

// place gives the line and column of an offset, which must not be before one
// that was asked for earlier.
func (t *jsonTree) place(offset int) Place {
	for t.at < min(offset, len(t.b)) {
		_, size := utf8.DecodeRune(t.b[t.at:])
		if t.b[t.at] == '\n' {
			t.line, t.column = t.line+1, 0
		}
		t.column++
		t.at += size
	}
	return Place{t.source, t.line, t.column}
}

// syntax says where the JSON is broken.
func (t *jsonTree) syntax(err error) Mistake {
	m := Mistake{Place: t.place(len(t.b)), Problem: "not valid JSON: it ends in the middle"}
	if len(bytes.TrimSpace(t.b)) == 0 {
		m.Problem = `empty: write {} or names and kinds, as {"message.created": "flush"}`
		return m
	}
	broken, ok := errors.AsType[*jsontext.SyntacticError](err)
	if !ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return m
	}
	offset := int(broken.ByteOffset)
	t.at, t.line, t.column = 0, 1, 1 // the offset may lie before the last one
	m.Place = t.place(offset)
	m.Problem = "not valid JSON: " + strings.TrimPrefix(broken.Err.Error(), "jsontext: ")
	if offset < len(t.b) {
		switch t.b[offset] {
		case '/', '#':
			m.Problem += "; JSON has no comments: use a .yaml file to keep them"
		case ',':
			m.Problem += "; there is a comma too many"
		}
	}
	return m
}
