package expr

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// Two things that cost are no calls: to walk through a value, and to look for a
// key. Where it is not known what they are given, that passes through a call
// which is counted as every other.
const (
	walkFunction = "@walk"
	keyFunction  = "@key"
)

// guards declares the two. Nobody can write them: no name begins with @.
func guards() []cel.EnvOption {
	var opts []cel.EnvOption
	for _, name := range []string{walkFunction, keyFunction} {
		t := cel.TypeParamType("T")
		opts = append(opts, cel.Function(name, cel.Overload("attend_"+name[1:], []*cel.Type{t}, t,
			cel.UnaryBinding(func(v ref.Val) ref.Val { return v }))))
	}
	return opts
}

// walked is what a macro walks through. CEL would count the characters of a text
// before it says that a text cannot be walked through.
func walked(_ *meter, args []ref.Val) ref.Val {
	if length(args[0]) > 0 {
		return types.NewErr("cannot be walked through: it is %s", plainType(typeOf(args[0])))
	}
	return args[0]
}

// guarded returns a checked expression in which what needs it is guarded.
func (e *Env) guarded(checked *cel.Ast) (*cel.Ast, error) {
	optimizer, err := cel.NewStaticOptimizer(guardian{})
	if err != nil {
		return nil, fmt.Errorf("guard the expression: %w", err)
	}
	guarded, issues := optimizer.Optimize(e.env, checked)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("guard the expression: %w", err)
	}
	return guarded, nil
}

// guardian rewrites an expression.
type guardian struct{}

// Optimize puts the calls of the guards into an expression.
func (guardian) Optimize(ctx *cel.OptimizerContext, tree *ast.AST) *ast.AST {
	type guard struct {
		of       ast.Expr
		function string
	}
	var found []guard
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		switch e.Kind() {
		case ast.ComprehensionKind:
			if of := e.AsComprehension().IterRange(); tree.GetType(of.ID()).Kind() == types.DynKind {
				found = append(found, guard{of, walkFunction})
			}
		case ast.CallKind:
			if call := e.AsCall(); indexes(call) && call.FunctionName() != "_?._" {
				of := call.Args()[1]
				kind := tree.GetType(of.ID()).Kind()
				if of.Kind() != ast.LiteralKind && (kind == types.DynKind || kind == types.StringKind) {
					found = append(found, guard{of, keyFunction})
				}
			}
		default:
		}
	}))
	for _, g := range found {
		inner := ctx.NewLiteral(types.NullValue)
		inner.SetKindCase(g.of)
		g.of.SetKindCase(ctx.NewCall(g.function, inner))
	}
	return tree
}
