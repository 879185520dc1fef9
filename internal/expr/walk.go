package expr

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"attend/internal/engine"
)

// keyMark stands between a variable and a key of it, among what is looked at.
const keyMark = "\x00"

// usesOf lists what a checked expression looks at: its variables, Bodies, Zone.
// A field of something whose type is not known may be an event's.
func usesOf(tree *ast.AST) map[string]bool {
	uses := make(map[string]bool)
	look := func(operand ast.Expr, field string, known bool) {
		switch t := tree.GetType(operand.ID()); {
		case t.TypeName() == eventName && t.Kind() == types.StructKind:
			uses[Bodies] = uses[Bodies] || !known || slices.Contains([]string{"id", "text", "data"}, field)
		case t.Kind() == types.DynKind && !ownJSON(operand):
			uses[Bodies] = true
		}
	}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.IdentKind:
			uses[e.AsIdent()] = true
		case ast.SelectKind:
			look(e.AsSelect().Operand(), e.AsSelect().FieldName(), true)
			if operand := e.AsSelect().Operand(); operand.Kind() == ast.IdentKind {
				uses[operand.AsIdent()+keyMark+e.AsSelect().FieldName()] = true
			}
		case ast.CallKind:
			call := e.AsCall()
			if indexes(call) {
				look(call.Args()[0], "", false)
				if of, key := call.Args()[0], call.Args()[1]; of.Kind() == ast.IdentKind && key.Kind() == ast.LiteralKind {
					uses[of.AsIdent()+keyMark+fmt.Sprint(key.AsLiteral().Value())] = true
				}
			}
			_, names := zoneOf(call)
			uses[Zone] = uses[Zone] || names
		default:
		}
	}))
	return uses
}

// indexes reports a[b], a[?b] and a.?b.
func indexes(call ast.CallExpr) bool {
	return len(call.Args()) == 2 && slices.Contains([]string{"_[_]", "_[?_]", "_?._"}, call.FunctionName())
}

// ownJSON reports that an operand is a path that starts at facts or body, which
// hold no events.
func ownJSON(e ast.Expr) bool {
	for {
		switch {
		case e.Kind() == ast.SelectKind:
			e = e.AsSelect().Operand()
			continue
		case e.Kind() == ast.CallKind && indexes(e.AsCall()):
			e = e.AsCall().Args()[0]
			continue
		}
		break
	}
	return e.Kind() == ast.IdentKind && (e.AsIdent() == "facts" || e.AsIdent() == "body")
}

// zoneOf reports a function of a timestamp that is given a time zone which is
// not a fixed distance from UTC, as "+02:00" is. name is nil where the zone is
// worked out.
func zoneOf(call ast.CallExpr) (name ast.Expr, is bool) {
	if !call.IsMemberFunction() || !strings.HasPrefix(call.FunctionName(), "get") || len(call.Args()) != 1 {
		return nil, false
	}
	zone := call.Args()[0]
	if zone.Kind() != ast.LiteralKind {
		return nil, true
	}
	s, ok := zone.AsLiteral().(types.String)
	if !ok || s == "UTC" || regexp.MustCompile(`^[+-]?\d{1,2}:\d{2}$`).MatchString(string(s)) {
		return nil, false
	}
	return zone, true
}

// refused reports what checks as CEL and is not wanted in a condition: maps that
// are built in it, which have no order to be walked in, time zones that there
// are not, and comparisons of a variable with a word that it never holds.
func refused(tree *ast.AST) error {
	var found []Mistake
	say := func(e ast.Expr, format string, args ...any) {
		at := tree.SourceInfo().GetStartLocation(e.ID())
		found = append(found, Mistake{Line: max(at.Line(), 1), Column: at.Column() + 1, Problem: fmt.Sprintf(format, args...)})
	}
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.MapKind, ast.StructKind:
			say(e, "an expression cannot build maps or objects: compare fields one by one")
		case ast.CallKind:
			if zone, _ := zoneOf(e.AsCall()); zone != nil {
				name := fmt.Sprint(zone.AsLiteral().Value())
				if _, err := time.LoadLocation(name); err != nil {
					say(zone, "there is no time zone %q", name)
				}
			}
			for word, of := range strangers(e.AsCall()) {
				say(word, "%q is never %s: it is %s", word.AsLiteral().Value(), of.name, listed(of.words))
			}
			if pattern := patternOf(e.AsCall()); pattern != nil {
				var bad *syntax.Error
				if _, err := regexp.Compile(fmt.Sprint(pattern.AsLiteral().Value())); errors.As(err, &bad) {
					say(pattern, "is no pattern: %s: `%s`", bad.Code, bad.Expr)
				}
			}
		case ast.SelectKind:
			of := entries(e.AsSelect().Operand())
			if field := e.AsSelect().FieldName(); len(of.words) > 0 && !slices.Contains(of.words, field) {
				say(e, "%q is never %s: it is %s", field, of.name, listed(of.words))
			}
		default:
		}
	}))
	if len(found) == 0 {
		return nil
	}
	return &Error{Mistakes: found}
}

// vocabulary is what a variable or field can hold.
type vocabulary struct {
	name  string
	words []string
}

// strangers yields the words that a call compares a closed vocabulary with, and
// that are not in it.
func strangers(call ast.CallExpr) func(yield func(ast.Expr, vocabulary) bool) {
	return func(yield func(ast.Expr, vocabulary) bool) {
		args := call.Args()
		if len(args) != 2 || call.IsMemberFunction() {
			return
		}
		for i, side := range args {
			other := args[1-i]
			var of vocabulary
			var words []ast.Expr
			switch call.FunctionName() {
			case "_==_", "_!=_":
				of, words = holds(side), []ast.Expr{other}
			case "_[_]", "_[?_]", "_?._":
				if i == 0 {
					of, words = entries(side), []ast.Expr{other}
				}
			case "@in":
				if i == 0 && other.Kind() == ast.ListKind {
					of, words = holds(side), other.AsList().Elements()
				} else if i == 1 {
					of, words = elements(side), []ast.Expr{other}
				}
			}
			for _, w := range words {
				if len(of.words) == 0 || w.Kind() != ast.LiteralKind {
					continue
				}
				if s, ok := w.AsLiteral().(types.String); ok && !slices.Contains(of.words, string(s)) && !yield(w, of) {
					return
				}
			}
		}
	}
}

// holds returns the vocabulary of a variable or a field. Fields of the same name
// in JSON that producers send are left alone.
func holds(e ast.Expr) vocabulary {
	name := ""
	switch e.Kind() {
	case ast.IdentKind:
		name = e.AsIdent()
	case ast.SelectKind:
		if e.AsSelect().Operand().Kind() != ast.IdentKind {
			return vocabulary{}
		}
		name = e.AsSelect().FieldName()
		if name != "kind" && name != "judgedRoute" && name != "route" {
			return vocabulary{}
		}
		if operand := e.AsSelect().Operand().AsIdent(); operand == "body" || operand == "facts" {
			return vocabulary{}
		}
	default:
		return vocabulary{}
	}
	switch name {
	case "reason":
		return vocabulary{"the reason", wordsOf(engine.Reasons())}
	case "trigger":
		return vocabulary{"the trigger", wordsOf([]engine.Trigger{
			engine.TriggerDeadline, engine.TriggerHorizon, engine.TriggerFlush, engine.TriggerRequeue,
		})}
	case "kind":
		return vocabulary{"a kind", wordsOf(engine.Kinds())}
	case "route", "judgedRoute":
		return vocabulary{"a route", wordsOf(engine.Routes())}
	default:
		return vocabulary{}
	}
}

// elements returns the vocabulary of a list.
func elements(e ast.Expr) vocabulary {
	if e.Kind() != ast.IdentKind {
		return vocabulary{}
	}
	switch e.AsIdent() {
	case "kinds":
		return vocabulary{"a kind", wordsOf(engine.Kinds())}
	case "offered":
		return vocabulary{"a route", wordsOf(engine.Routes())}
	default:
		return entries(e)
	}
}

// entries returns the vocabulary of a map's keys.
func entries(e ast.Expr) vocabulary {
	if e.Kind() != ast.IdentKind {
		return vocabulary{}
	}
	switch e.AsIdent() {
	case "counts":
		return vocabulary{"a kind", wordsOf(engine.Kinds())}
	case "probabilities":
		return vocabulary{"a route", wordsOf(engine.Routes())}
	default:
		return vocabulary{}
	}
}

// patternOf returns the pattern of matches, where it is written down.
func patternOf(call ast.CallExpr) ast.Expr {
	if args := call.Args(); call.FunctionName() == "matches" && len(args) > 0 {
		if last := args[len(args)-1]; last.Kind() == ast.LiteralKind {
			return last
		}
	}
	return nil
}

func wordsOf[T any](values []T) []string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = fmt.Sprint(v)
	}
	return words
}
