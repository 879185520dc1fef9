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

// placeIn is where a line and column of a text stand in the file.
func (r *reader) placeIn(n *yaml.Node, line, column int) Place {
	if r.doc == nil {
		return r.place(n)
	}
	line, column = r.doc.Place(n, line, column)
	return Place{r.source, line, column}
}
