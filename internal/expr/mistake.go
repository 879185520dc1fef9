package expr

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Error is what is wrong with the source of an expression, in the order of the
// text. There is at least one mistake.
type Error struct{ Mistakes []Mistake }

// Mistake is one thing that is wrong, and where. Lines and columns count from
// 1, columns in characters.
type Mistake struct {
	Line, Column int
	Problem      string
}

func (e *Error) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Problem)
	}
	return strings.Join(lines, "\n")
}

// mistake is one about the expression as a whole.
func mistake(problem string) *Error {
	return &Error{Mistakes: []Mistake{{Line: 1, Column: 1, Problem: problem}}}
}

func (e *Env) mistakes(source string, issues *cel.Issues) *Error {
	var found []Mistake
	text := textOf(source)
	for _, issue := range issues.Errors() {
		m := Mistake{Line: max(issue.Location.Line(), 1), Column: max(issue.Location.Column()+1, 1)}
		at := text.at(m.Line, m.Column)
		syntax, broken := strings.CutPrefix(issue.Message, "Syntax error: ")
		name, unknown := quoted(issue.Message, `^undeclared reference to '([^']*)'`)
		switch {
		case broken && strings.Contains(syntax, "recursion limit"):
			m.Problem = e.plain(syntax)
		case broken:
			m.Problem = at.slip(syntax)
			return &Error{Mistakes: []Mistake{m}} // what comes after it may follow from it
		case unknown && at.walks(name):
			continue
		case unknown && at.next() == '(':
			m.Problem = e.noFunction(name)
		default:
			m.Problem = e.plain(issue.Message) + at.size(issue.Message)
		}
		if !slices.Contains(found, m) {
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b Mistake) int { return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column)) })
	if len(found) == 0 {
		return mistake("cannot be read")
	}
	return &Error{Mistakes: found}
}

// plain says in words what the checker says in its own.
func (e *Env) plain(message string) string {
	message, _, _ = strings.Cut(message, "\n")
	if name, ok := quoted(message, `^undeclared reference to '([^']*)'`); ok {
		var names []string
		for _, v := range e.kind.variables() {
			names = append(names, v.name)
		}
		return fmt.Sprintf("there is no %q here: there are %s", name, listed(names))
	}
	if field, ok := quoted(message, `^undefined field '([^']*)'`); ok {
		return fmt.Sprintf("there is no field %q: an event has %s; a recent verdict has %s",
			field, listed(namesOf(fieldsOf(eventName))), listed(namesOf(fieldsOf(recentName))))
	}
	if m := regexp.MustCompile(`^found no matching overload for '([^']*)' applied to '(.*)'$`).FindStringSubmatch(message); m != nil {
		hint := ""
		if strings.Contains(m[2], "double") && strings.Contains(m[2], "int") {
			hint = `: write whole numbers as 1.0, or turn one into the other with double()`
		}
		return fmt.Sprintf("%s cannot be applied to %s%s", operator(m[1]), plainSignature(m[2]), hint)
	}
	if t, ok := quoted(message, `^type '([^']*)' does not support field selection`); ok {
		return "has no fields: it is " + plainName(t)
	}
	if t, ok := quoted(message, `^expression of type '([^']*)' cannot be range`); ok {
		return "cannot be walked through: it is " + plainName(t) + ", and must be a list or a map"
	}
	if strings.Contains(message, "comprehension exceeds nesting limit") {
		return fmt.Sprintf("more than %d of exists, all, filter and map stand in each other", MaxNesting)
	}
	if strings.Contains(message, "recursion limit exceeded") {
		return "is nested too deeply"
	}
	return message
}

func namesOf(vars []variable) []string {
	names := make([]string, len(vars))
	for i, v := range vars {
		names[i] = v.name
	}
	return names
}

// listed joins words as a sentence does.
func listed(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

func quoted(message, pattern string) (string, bool) {
	m := regexp.MustCompile(pattern).FindStringSubmatch(message)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// operator writes _==_ as it is typed.
func operator(name string) string {
	name = strings.TrimPrefix(name, "@")
	switch name {
	case "_[_]":
		return "an index"
	case "_?_:_":
		return "a choice (a ? b : c)"
	}
	return `"` + strings.Trim(name, "_") + `"`
}

// plainSignature writes "string.(int)" and "(string, int)" in words.
func plainSignature(s string) string {
	target, args, member := strings.Cut(s, ".(")
	words := []string{}
	if member {
		words = append(words, plainName(target))
	} else {
		args = strings.TrimPrefix(s, "(")
	}
	depth, from := 0, 0
	for i, r := range args {
		switch {
		case r == '(':
			depth++
		case (r == ',' || r == ')') && depth == 0:
			if t := strings.TrimSpace(args[from:i]); t != "" {
				words = append(words, plainName(t))
			}
			from = i + 1
		case r == ')':
			depth--
		}
	}
	return strings.Join(words, " and ")
}

func plainType(t *cel.Type) string { return plainName(cel.FormatCELType(t)) }

func plainName(t string) string {
	t, _, _ = strings.Cut(t, "(") // of list(string), the list
	switch t {
	case "bool":
		return "true or false"
	case "int", "uint":
		return "a whole number"
	case "double":
		return "a number"
	case "string":
		return "a string"
	case "null_type", "null":
		return "null"
	case "list":
		return "a list"
	case "map":
		return "a map"
	case eventName:
		return "an event"
	case recentName:
		return "a recent verdict"
	case "google.protobuf.Timestamp", "timestamp":
		return "a timestamp"
	case "dyn":
		return "a JSON value"
	default:
		return "a " + t
	}
}

func typeOf(v ref.Val) *cel.Type {
	if t, ok := v.Type().(*types.Type); ok {
		return t
	}
	return types.DynType
}

// plainRuntime says in words why an evaluation failed.
func plainRuntime(message string) string {
	switch {
	case strings.Contains(message, "cost limit exceeded"):
		return fmt.Sprintf("costs more than %d to evaluate: make it simpler", uint64(CostLimit))
	case strings.HasPrefix(message, "no such key"):
		return "there is n" + strings.TrimPrefix(message, "n") + ": ask has() first"
	case strings.HasPrefix(message, "no such overload"):
		return "the types do not go together (" + message + ")"
	default:
		return message
	}
}

// unknown knows no size: every list may be empty, and every text.
type unknown struct{}

func (unknown) EstimateSize(cost.AstNode) *cost.SizeEstimate { return nil }

func (unknown) EstimateCallCost(string, string, *cost.AstNode, []cost.AstNode) *cost.CallEstimate {
	return nil
}
