package config

import (
	"errors"

	"go.yaml.in/yaml/v3"

	"attend/internal/expr"
)

// maxCondition is the length of a condition in bytes.
const maxCondition = expr.MaxSource

// condition reads a condition and checks it: each mistake is said where it
// stands within the text.
func (r *reader) condition(n *yaml.Node, key string, kind expr.Kind) string {
	text, ok := r.text(n, key, maxCondition)
	if !ok {
		return ""
	}
	_, err := expr.Compile(kind, text)
	if found, ok := errors.AsType[*expr.Error](err); ok {
		for _, m := range found.Mistakes {
			r.mistakes = append(r.mistakes, Mistake{r.placeIn(n, m.Line, m.Column), key, m.Problem})
		}
	} else if err != nil {
		r.fail(n, key, "%v", err)
	}
	return text
}

// placeIn is where a line and column of a text stand in the file. How far a
// block is indented is not known, so that there is no column then.
func (r *reader) placeIn(n *yaml.Node, line, column int) Place {
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return Place{Source: r.source, Line: n.Line + line}
	case line > 1:
		return Place{Source: r.source, Line: n.Line + line - 1}
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		return Place{r.source, n.Line, n.Column + column}
	default:
		return Place{r.source, n.Line, n.Column + column - 1}
	}
}
