package rules

import (
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Document is the text of a file of YAML or JSON, to find the place of a
// character of a value in it: values are quoted, escaped, indented and folded.
type Document struct{ lines [][]rune }

// NewDocument returns the document of a text.
func NewDocument(text string) *Document {
	d := new(Document)
	for line := range strings.Lines(text) {
		d.lines = append(d.lines, []rune(line))
	}
	return d
}

// walker goes through the text of one scalar.
type walker struct {
	doc       *Document
	line, col int // from 0
	style     yaml.Style
}

// Place returns where the character at a line and column of a scalar's value
// stands in the file, all counted from 1 and in characters. The node is one of
// the document's.
func (d *Document) Place(n *yaml.Node, line, column int) (int, int) {
	value := []rune(n.Value)
	target := 0
	for at := 1; at < line && target < len(value); target++ {
		if value[target] == '\n' {
			at++
		}
	}
	target = min(target+column-1, len(value))
	w := &walker{doc: d, line: n.Line - 1, col: n.Column - 1, style: n.Style}
	w.enter()
	for i := 0; i < target; i++ {
		if !unicode.IsSpace(value[i]) {
			w.skipSpace()
			w.next()
		}
	}
	if target < len(value) && !unicode.IsSpace(value[target]) {
		w.skipSpace()
	}
	return w.line + 1, w.col + 1
}

// rune returns the character at the walker, and false behind the last.
func (w *walker) rune() (rune, bool) {
	for w.line < len(w.doc.lines) && w.col >= len(w.doc.lines[w.line]) && w.line+1 < len(w.doc.lines) {
		w.line, w.col = w.line+1, 0
	}
	if w.line >= len(w.doc.lines) || w.col >= len(w.doc.lines[w.line]) {
		return 0, false
	}
	return w.doc.lines[w.line][w.col], true
}

// enter goes to the first character of the value: past tags and anchors, the
// quote, or the line of a block's mark.
func (w *walker) enter() {
	for {
		c, ok := w.rune()
		if !ok || c != '!' && c != '&' || w.style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 && c == '"' {
			break
		}
		for c, ok = w.rune(); ok && !unicode.IsSpace(c); c, ok = w.rune() {
			w.col++
		}
		for c, ok = w.rune(); ok && unicode.IsSpace(c); c, ok = w.rune() {
			w.col++
		}
	}
	switch {
	case w.style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		w.col++
	case w.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		w.line, w.col = w.line+1, 0
	}
}

// skipSpace goes to the next character that is no space, written as one or as
// an escape.
func (w *walker) skipSpace() {
	for {
		c, ok := w.rune()
		switch {
		case !ok:
			return
		case unicode.IsSpace(c):
			w.col++
		case w.escaped(c):
			size, space := w.escape()
			if !space {
				return
			}
			w.col += size
		default:
			return
		}
	}
}

// next goes past one character of the value.
func (w *walker) next() {
	c, ok := w.rune()
	switch {
	case !ok:
	case w.escaped(c):
		size, _ := w.escape()
		w.col += size
	case c == '\'' && w.style&yaml.SingleQuotedStyle != 0:
		w.col += 2
	default:
		w.col++
	}
}

func (w *walker) escaped(c rune) bool { return c == '\\' && w.style&yaml.DoubleQuotedStyle != 0 }

// escape returns the length of the escape at the walker, and whether it stands
// for a space.
func (w *walker) escape() (size int, space bool) {
	rest := w.doc.lines[w.line][w.col+1:]
	if len(rest) == 0 {
		return 1, true
	}
	digits := map[rune]int{'x': 2, 'u': 4, 'U': 8}[rest[0]]
	if digits == 0 {
		return 2, strings.ContainsRune("\n\r ntrvfNLP_\t", rest[0])
	}
	code, err := strconv.ParseUint(string(rest[1:min(1+digits, len(rest))]), 16, 32)
	return 2 + digits, err == nil && unicode.IsSpace(rune(code))
}
