package expr

import (
	"fmt"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/functions"
	"cel.dev/cel-go/common/overloads"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// metered makes the calls of a program ones that are counted before they work.
// What a function costs stands in [prices]; one that does not is refused.
func (e *Env) metered() cel.ProgramOption {
	known := prices()
	return cel.CustomDecoratorV2(func(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
		c, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		p, ok := known[c.Function()]
		if !ok {
			return nil, fmt.Errorf("there is no price for %q", c.Function())
		}
		if p.toll == nil && p.work == nil || folded(c) {
			return i, nil
		}
		run := p.work
		switch {
		case c.Function() == overloads.Matches:
			matcher, err := matching(c.Args())
			if err != nil {
				return nil, err
			}
			run = matcher
		case c.Function() == "@in":
			run = membership(c.Args())
		case run == nil:
			native, err := e.native(c)
			if err != nil {
				return nil, err
			}
			run = func(m *meter, args []ref.Val) ref.Val {
				p.toll(m, args)
				m.pay()
				return native(args)
			}
		}
		return &call{id: c.ID(), args: c.Args(), run: run}, nil
	})
}

// folded reports a conversion of a constant, which CEL makes once, as it plans.
func folded(c interpreter.InterpretableCall) bool {
	if !overloads.IsTypeConversionFunction(c.Function()) || len(c.Args()) != 1 {
		return false
	}
	_, constant := c.Args()[0].(interpreter.InterpretableConst)
	return constant
}

// native returns what CEL does at a call.
func (e *Env) native(c interpreter.InterpretableCall) (func(args []ref.Val) ref.Val, error) {
	function, overload := c.Function(), c.OverloadID()
	decl, ok := e.env.Functions()[function]
	if !ok {
		return nil, fmt.Errorf("there is no function %q", function)
	}
	bindings, err := decl.Bindings()
	if err != nil {
		return nil, fmt.Errorf("bind %q: %w", function, err)
	}
	var impl *functions.Overload
	for _, b := range bindings {
		if b.Operator == overload || b.Operator == function && impl == nil {
			impl = b
		}
	}
	return func(args []ref.Val) ref.Val {
		if impl != nil && (impl.OperandTrait == 0 || args[0].Type().HasTrait(impl.OperandTrait)) {
			switch {
			case impl.Unary != nil && len(args) == 1:
				return impl.Unary(args[0])
			case impl.Binary != nil && len(args) == 2:
				return impl.Binary(args[0], args[1])
			case impl.Function != nil:
				return impl.Function(args...)
			}
		}
		if receiver, ok := args[0].(traits.Receiver); ok {
			return receiver.Receive(function, overload, args[1:])
		}
		return types.NewErr("no such overload: %s", function)
	}, nil
}
