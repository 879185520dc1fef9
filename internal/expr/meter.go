package expr

import (
	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// CEL counts a call after it has returned, and most calls as one. Here every
// call that may take longer for a larger value is counted before it is made, or
// while it works: what an event holds cannot make it take longer than the limit
// allows. Nothing is timed, so that a verdict stays a function of its window.

// tollID names the overload by which a call is paid, see [tolls].
const tollID = "attend_toll"

// toll is a call that costs what its argument says.
type toll struct{}

func (toll) Function() string   { return tollID }
func (toll) OverloadID() string { return tollID }

// tolls lets the tracker of CEL count what a meter spends.
func tolls() cel.ProgramOption {
	return cel.CostTrackerOptions(cost.OverloadTracker(tollID, func(args []ref.Val, _ ref.Val) *uint64 {
		n := uint64(args[0].(types.Uint))
		return &n
	}))
}

// meter counts what one call costs. It ends the evaluation when nothing is left.
type meter struct {
	tracker *cost.Tracker
	spent   uint64
	left    uint64
}

func meterOf(frame *interpreter.ExecutionFrame) *meter {
	m := &meter{tracker: frame.CostTracker(), left: CostLimit}
	if m.tracker != nil && m.tracker.Limit != nil {
		m.left = *m.tracker.Limit - min(*m.tracker.Limit, m.tracker.ActualCost())
	}
	return m
}

// spend counts n. It does not return when that is more than is left.
func (m *meter) spend(n uint64) {
	m.spent += min(n, CostLimit)
	if m.spent > m.left {
		m.spent = m.left + 1
		m.pay()
	}
}

// pay hands what was spent to the tracker, which panics when that passes its
// limit; the evaluation that it belongs to returns that as its error.
func (m *meter) pay() {
	if m.tracker != nil && m.spent > 0 {
		m.tracker.EvalUnary(nil, 0, toll{}, types.Uint(m.spent), nil)
	}
	m.left -= min(m.left, m.spent)
	m.spent = 0
}

// text counts bytes of text that are looked through, or copied.
func (m *meter) text(bytes uint64) { m.spend(bytes / textUnit) }

// through counts every value in v, and its text. Each level of nesting adds to
// the price of a value what deeper says.
func (m *meter) through(v ref.Val, price, deeper uint64) {
	m.spend(price * (1 + length(v)/textUnit))
	switch v := v.(type) {
	case traits.Lister:
		for i, n := types.Int(0), v.Size().(types.Int); i < n; i++ {
			m.through(v.Get(i), price+deeper, deeper)
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			m.through(key, price+deeper, deeper)
			m.through(v.Get(key), price+deeper, deeper)
		}
	case *types.Optional:
		if v.HasValue() {
			m.through(v.GetValue(), price+deeper, deeper)
		}
	}
}

// length is the length of a text in bytes, 0 of what is no text.
func length(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	default:
		return 0
	}
}

// count is how many elements a list or a map has, 0 of what is neither.
func count(v ref.Val) uint64 {
	if _, text := v.(types.String); text {
		return 0
	}
	if s, ok := v.(traits.Sizer); ok {
		if n, ok := s.Size().(types.Int); ok {
			return uint64(max(n, 0))
		}
	}
	return 0
}

// operation is a function of the expressions.
type operation func(m *meter, args []ref.Val) ref.Val

// call is a call of an operation in a program.
type call struct {
	id   int64
	args []interpreter.InterpretableV2
	run  operation
}

// ID returns the number of the call in its program.
func (c *call) ID() int64 { return c.id }

// Eval makes the call, see [call.Exec].
func (c *call) Eval(vars interpreter.Activation) ref.Val {
	return interpreter.EvalActivation(vars, c.Exec)
}

// Exec makes the call: arguments first, one that fails is what the call returns.
func (c *call) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := make([]ref.Val, len(c.args))
	for i, arg := range c.args {
		if args[i] = arg.Exec(frame); types.IsUnknownOrError(args[i]) {
			return args[i]
		}
	}
	m := meterOf(frame)
	m.spend(1)
	v := c.run(m, args)
	m.pay()
	return v
}
