package expr

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// The prices of patterns.
const (
	// stepUnit is how many steps one unit of cost pays for. At every byte of a
	// text a pattern may take as many steps as its program is long.
	stepUnit = 40
	// letterPrice is what it costs to read a letter of a pattern that is worked
	// out, denseLetterPrice that of one that may stand for very much more.
	letterPrice, denseLetterPrice = 3, 150
)

// pattern is a regular expression, and how long its program is.
type pattern struct {
	re   *regexp.Regexp
	size uint64
}

func compiled(source string) (pattern, error) {
	re, err := regexp.Compile(source)
	if err != nil {
		return pattern{}, err
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return pattern{}, err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return pattern{}, err
	}
	return pattern{re: re, size: uint64(len(program.Inst))}, nil
}

func (p pattern) in(m *meter, text ref.Val) ref.Val {
	s, ok := text.(types.String)
	if !ok {
		return types.NewErr("no such overload: matches")
	}
	m.spend((uint64(len(s)) + 1) * p.size / stepUnit)
	return types.Bool(p.re.MatchString(string(s)))
}

// matching is matches: a pattern that is written down is compiled once.
func matching(args []interpreter.InterpretableV2) (operation, error) {
	written, ok := args[1].(interpreter.InterpretableConst)
	if !ok {
		return match, nil
	}
	source, ok := written.Value().(types.String)
	if !ok {
		return match, nil
	}
	p, err := compiled(string(source))
	if err != nil {
		return nil, err
	}
	return func(m *meter, args []ref.Val) ref.Val { return p.in(m, args[0]) }, nil
}

// match is matches with a pattern that is worked out.
func match(m *meter, args []ref.Val) ref.Val {
	source, ok := args[1].(types.String)
	if !ok {
		return types.NewErr("no such overload: matches")
	}
	letter := uint64(letterPrice)
	for _, dense := range []string{"{", `\p`, `\P`} { // what is repeated, or a class of Unicode
		if strings.Contains(string(source), dense) {
			letter = denseLetterPrice
		}
	}
	m.spend(uint64(len(source)) * letter)
	p, err := compiled(string(source))
	if err != nil {
		return types.WrapErr(err)
	}
	return p.in(m, args[0])
}
