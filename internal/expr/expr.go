package expr

import (
	"fmt"
	"slices"
	"strings"
	_ "time/tzdata" // named time zones mean something in an image that has none

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/ext"
)

// Kind says what an expression looks at.
type Kind int

// The kinds of expression, with their variables.
const (
	// Window is what a judge sees: scope, reason, trigger, waits, dropped, gap,
	// events, names, kinds, counts, recent, facts, offered and now.
	Window Kind = iota + 1
	// Verdict is the window, but for facts, and what a judge said of it: route,
	// probabilities, predicates and confidence.
	Verdict
	// Hook is an incoming request: body, headers and query.
	Hook
)

// Result is the type of an expression's value.
type Result int

// The results.
const (
	Bool   Result = iota + 1 // of a condition
	String                   // a string; numbers and booleans are written out
	Time                     // a timestamp, RFC 3339 text, or Unix milliseconds
	JSON                     // any JSON value
)

// Limits of one expression. They are the same for all, so that a configuration
// that loads here loads everywhere.
const (
	// MaxSource is the length of an expression in characters.
	MaxSource = 16 << 10
	// MaxNesting is how deep macros that walk (exists, all, filter, map) may
	// stand in each other.
	MaxNesting = 2
	// CostLimit bounds one evaluation, counted before the work is done: about one
	// an operation, one an element of a list that is looked through, and one for
	// fifty bytes of text that are copied, for more where they are compared or
	// searched only (see [prices]); a pattern costs its length for every forty
	// bytes. An expression that passes it fails, within some tenths of a second
	// whatever the window holds.
	CostLimit = 250_000
	// TotalLimit bounds all evaluations on the same variables: when it is spent,
	// what comes after fails.
	TotalLimit = 4 * CostLimit
)

// Env compiles the expressions of one kind. It is safe for concurrent use.
type Env struct {
	kind Kind
	env  *cel.Env
}

// New returns the environment of a kind.
func New(kind Kind) (*Env, error) {
	registry, err := types.NewRegistry()
	if err != nil {
		return nil, fmt.Errorf("make the environment of expressions: %w", err)
	}
	opts := []cel.EnvOption{
		cel.CustomTypeProvider(provider{registry}),
		cel.CustomTypeAdapter(adapter{registry}),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.OptionalTypes(),
		ext.Strings(), ext.Lists(), ext.Math(), ext.Sets(),
		cel.ParserExpressionSizeLimit(MaxSource),
		cel.ParserRecursionLimit(100),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(), cel.ValidateTimestampLiterals(),
			cel.ValidateComprehensionNestingLimit(MaxNesting),
		),
	}
	opts = append(opts, guards()...)
	for _, v := range kind.variables() {
		opts = append(opts, cel.Variable(v.name, v.typ))
	}
	env, err := cel.NewEnv(opts...)
	if err != nil {
		return nil, fmt.Errorf("make the environment of expressions: %w", err)
	}
	return &Env{kind: kind, env: env}, nil
}

// Compile compiles a condition of a kind. What is wrong with it is an *[Error].
func Compile(kind Kind, source string) (*Program, error) {
	env, err := New(kind)
	if err != nil {
		return nil, err
	}
	return env.Compile(source)
}

// Compile compiles a condition. What is wrong with it is an *[Error].
func (e *Env) Compile(source string) (*Program, error) { return e.CompileTo(Bool, source) }

// CompileTo compiles an expression whose value is of the type given. What is
// wrong with it is an *[Error].
func (e *Env) CompileTo(want Result, source string) (*Program, error) {
	if strings.TrimSpace(source) == "" {
		return nil, mistake("the expression is empty")
	}
	checked, issues := e.env.Compile(source)
	if issues.Err() != nil {
		return nil, e.mistakes(source, issues)
	}
	tree := checked.NativeRep()
	if err := refused(tree); err != nil {
		return nil, err
	}
	if !want.takes(checked.OutputType()) {
		return nil, mistake(fmt.Sprintf("is %s, and must be %s", plainType(checked.OutputType()), want))
	}
	if err := e.affordable(checked); err != nil {
		return nil, err
	}
	guarded, err := e.guarded(checked)
	if err != nil {
		return nil, mistake(err.Error())
	}
	program, err := e.env.Program(guarded, cel.EvalOptions(cel.OptOptimize), cel.CostLimit(CostLimit), tolls(), e.metered())
	if err != nil {
		return nil, mistake(err.Error())
	}
	return &Program{source: source, program: program, uses: usesOf(tree), quotes: e.kind == Hook}, nil
}

// affordable refuses what costs too much even where every list is empty and
// every text short.
func (e *Env) affordable(checked *cel.Ast) error {
	cost, err := e.env.EstimateCost(checked, unknown{})
	if err != nil || cost.Min <= CostLimit {
		return nil //nolint:nilerr // what cannot be estimated is bounded when it runs
	}
	return mistake(fmt.Sprintf("costs at least %d, and the limit is %d: make it simpler", cost.Min, uint64(CostLimit)))
}

func (r Result) takes(t *cel.Type) bool {
	if t.Kind() == types.DynKind || t.Kind() == types.AnyKind || t.Kind() == types.NullTypeKind && r != Bool {
		return true
	}
	switch r {
	case Bool:
		return t.Kind() == types.BoolKind
	case String:
		return slices.Contains([]types.Kind{types.StringKind, types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind}, t.Kind())
	case Time:
		return slices.Contains([]types.Kind{types.TimestampKind, types.StringKind, types.IntKind}, t.Kind())
	default:
		return true
	}
}

func (r Result) String() string {
	switch r {
	case Bool:
		return "true or false"
	case String:
		return "a string"
	case Time:
		return "a time"
	default:
		return "a JSON value"
	}
}

type variable struct {
	name string
	typ  *cel.Type
}

func (k Kind) variables() []variable {
	if k == Hook {
		texts := cel.MapType(cel.StringType, cel.StringType)
		return []variable{{"body", cel.DynType}, {"headers", texts}, {"query", texts}}
	}
	strs, shares := cel.ListType(cel.StringType), cel.MapType(cel.StringType, cel.DoubleType)
	vars := []variable{
		{"scope", cel.StringType},
		{"reason", cel.StringType},
		{"trigger", cel.StringType},
		{"waits", cel.IntType},
		{"dropped", cel.IntType},
		{"gap", cel.BoolType},
		{"now", cel.TimestampType},
		{"events", cel.ListType(eventType())},
		{"names", strs},
		{"kinds", strs},
		{"counts", cel.MapType(cel.StringType, cel.IntType)},
		{"recent", cel.ListType(recentType())},
		{"offered", strs},
	}
	if k == Verdict {
		return append(vars,
			variable{"route", cel.StringType}, variable{"probabilities", shares}, variable{"predicates", shares},
			variable{"confidence", cel.NullableType(cel.DoubleType)})
	}
	return append(vars, variable{"facts", cel.DynType})
}
