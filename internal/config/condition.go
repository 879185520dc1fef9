package config

import (
	"errors"

	"go.yaml.in/yaml/v3"

	"attend/internal/expr"
	"attend/internal/judge/rules"
)

// maxCondition is the length of a condition in bytes.
const maxCondition = expr.MaxSource

// condition reads a condition and checks it: each mistake is said where it
// stands within the text.
func (r *reader) condition(n *yaml.Node, key string, check func(text string) rules.Mistakes) string {
	text, ok := r.text(n, key, maxCondition)
	if !ok {
		return ""
	}
	for _, m := range check(text) {
		r.mistakes = append(r.mistakes, Mistake{r.placeIn(n, m.Line, m.Column), key, m.Problem})
	}
	return text
}

// windowCondition checks the condition under which a judge is asked.
func windowCondition(text string) rules.Mistakes {
	_, err := expr.Compile(expr.Window, text)
	found, ok := errors.AsType[*expr.Error](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		return rules.Mistakes{{Line: 1, Column: 1, Problem: err.Error()}}
	}
	mistakes := make(rules.Mistakes, len(found.Mistakes))
	for i, m := range found.Mistakes {
		mistakes[i] = rules.Mistake{Line: m.Line, Column: m.Column, Problem: m.Problem}
	}
	return mistakes
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

// rewritten is an object of the file that was written out as a text of its own,
// and read again: the same nodes in the same order, at other places.
type rewritten struct{ before, after []*yaml.Node }

// rewrite writes an object out.
func rewrite(n *yaml.Node) (text string, w rewritten, err error) {
	b, err := yaml.Marshal(n)
	if err != nil {
		return "", w, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		return "", w, err
	}
	w.before, w.after = nodesOf(n, nil), nodesOf(doc.Content[0], nil)
	return string(b), w, nil
}

// nodesOf lists a node and what it holds, as they stand.
func nodesOf(n *yaml.Node, all []*yaml.Node) []*yaml.Node {
	all = append(all, n)
	for _, c := range n.Content {
		all = nodesOf(c, all)
	}
	return all
}

// place is where a line and column of the text stand in the file: as far from
// the last node before it as there.
func (w rewritten) place(r *reader, line, column int) Place {
	at := 0
	for i, n := range w.after {
		if i < len(w.before) && (n.Line < line || n.Line == line && n.Column <= max(column, 1)) {
			at = i
		}
	}
	n, from := w.before[at], w.after[at]
	switch {
	case from.Line != line:
		return Place{Source: r.source, Line: n.Line + line - from.Line}
	case column == 0:
		return r.place(n)
	default:
		return Place{r.source, n.Line, n.Column + column - from.Column}
	}
}
