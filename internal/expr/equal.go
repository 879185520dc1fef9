package expr

import (
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"cel.dev/cel-go/interpreter"
)

// equal compares two values as CEL does, and counts what it looks at.
func equal(m *meter, a, b ref.Val) bool {
	m.spend(1)
	switch a := a.(type) {
	case types.String:
		b, ok := b.(types.String)
		if !ok || len(a) != len(b) {
			return false
		}
		m.spend(uint64(len(a)) / compareUnit)
		return a == b
	case types.Bytes:
		m.spend(min(length(a), length(b)) / compareUnit)
		return types.Equal(a, b) == types.True
	case *types.Optional:
		b, ok := b.(*types.Optional)
		if !ok || !a.HasValue() || !b.HasValue() {
			return ok && a.HasValue() == b.HasValue()
		}
		return equal(m, a.GetValue(), b.GetValue())
	case traits.Lister:
		b, ok := b.(traits.Lister)
		return ok && equalLists(m, a, b)
	case traits.Mapper:
		b, ok := b.(traits.Mapper)
		return ok && equalMaps(m, a, b)
	default:
		return types.Equal(a, b) == types.True
	}
}

func equalLists(m *meter, a, b traits.Lister) bool {
	if a.Size() != b.Size() {
		return false
	}
	for i := range a.Size().(types.Int) {
		if !equal(m, a.Get(i), b.Get(i)) {
			return false
		}
	}
	return true
}

func equalMaps(m *meter, a, b traits.Mapper) bool {
	if a.Size() != b.Size() {
		return false
	}
	for it := a.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		m.spend(1 + length(key)/compareUnit)
		other, found := b.Find(key)
		if !found || !equal(m, a.Get(key), other) {
			return false
		}
	}
	return true
}

// holdsValue is hasValue: with one argument, whether an optional holds that.
func holdsValue(m *meter, args []ref.Val) ref.Val {
	o, ok := args[0].(*types.Optional)
	if !ok {
		return types.NewErr("no such overload: hasValue")
	}
	return types.Bool(o.HasValue() && (len(args) == 1 || equal(m, o.GetValue(), args[1])))
}

// set holds values of which none equals another. Texts, numbers and booleans
// are found at once, others one by one.
type set struct {
	found map[any]bool
	rest  []ref.Val
}

// sureInteger is the bound below which whole numbers of all types are the same
// as doubles.
const sureInteger = 1 << 53

// hashOf returns what is the same for equal values. ok is false where there is
// no such thing.
func hashOf(v ref.Val) (hash any, ok bool) {
	switch v := v.(type) {
	case types.String:
		return string(v), true
	case types.Bool:
		return bool(v), true
	case types.Null:
		return nil, true
	case types.Int:
		return int64(v), v > -sureInteger && v < sureInteger
	case types.Uint:
		return int64(v), v < sureInteger //nolint:gosec // above it, it is not used
	case types.Double:
		if i := int64(v); types.Double(i) == v {
			return i, i > -sureInteger && i < sureInteger
		}
		return float64(v), v > -sureInteger && v < sureInteger
	default:
		return nil, false
	}
}

func (s *set) has(m *meter, v ref.Val) bool {
	m.spend(2 + length(v)/compareUnit)
	if hash, ok := hashOf(v); ok {
		return s.found[hash]
	}
	for _, other := range s.rest {
		if equal(m, v, other) {
			return true
		}
	}
	return false
}

// add puts a value into the set. It reports false for one that is there.
func (s *set) add(m *meter, v ref.Val) bool {
	if s.has(m, v) {
		return false
	}
	hash, ok := hashOf(v)
	switch {
	case !ok:
		s.rest = append(s.rest, v)
	case s.found == nil:
		s.found = map[any]bool{hash: true}
	default:
		s.found[hash] = true
	}
	return true
}

// setOf holds the values of a list.
func setOf(m *meter, list traits.Lister) *set {
	s := &set{}
	for i := range list.Size().(types.Int) {
		s.add(m, list.Get(i))
	}
	return s
}

// lists returns arguments that must be lists.
func lists(args []ref.Val) (all []traits.Lister, wrong ref.Val) {
	for _, arg := range args {
		list, ok := arg.(traits.Lister)
		if !ok {
			return nil, types.NewErr("no such overload: %s and not a list", arg.Type().TypeName())
		}
		all = append(all, list)
	}
	return all, nil
}

func distinct(m *meter, args []ref.Val) ref.Val {
	all, wrong := lists(args)
	if wrong != nil {
		return wrong
	}
	s, once := &set{}, []ref.Val{}
	for i := range all[0].Size().(types.Int) {
		if v := all[0].Get(i); s.add(m, v) {
			once = append(once, v)
		}
	}
	return types.NewRefValList(types.DefaultTypeAdapter, once)
}

// containsAll reports whether every element of the second list is in the first.
func containsAll(m *meter, args []ref.Val) ref.Val {
	all, wrong := lists(args)
	if wrong != nil {
		return wrong
	}
	s := setOf(m, all[0])
	for i := range all[1].Size().(types.Int) {
		if !s.has(m, all[1].Get(i)) {
			return types.False
		}
	}
	return types.True
}

// containsAny reports whether an element of the second list is in the first.
func containsAny(m *meter, args []ref.Val) ref.Val {
	all, wrong := lists(args)
	if wrong != nil {
		return wrong
	}
	s := setOf(m, all[0])
	for i := range all[1].Size().(types.Int) {
		if s.has(m, all[1].Get(i)) {
			return types.True
		}
	}
	return types.False
}

func sameSet(m *meter, args []ref.Val) ref.Val {
	if there := containsAll(m, args); there != types.True {
		return there
	}
	return containsAll(m, []ref.Val{args[1], args[0]})
}

// search is x in a list, looked through from its start, or in the keys of a map.
func search(m *meter, args []ref.Val) ref.Val {
	switch in := args[1].(type) {
	case traits.Lister:
		for i := range in.Size().(types.Int) {
			if equal(m, args[0], in.Get(i)) {
				return types.True
			}
		}
		return types.False
	case traits.Mapper:
		m.spend(length(args[0]) / compareUnit)
		v, found := in.Find(args[0])
		if types.IsError(v) {
			return v
		}
		return types.Bool(found)
	default:
		return types.NewErr("no such overload: in %s", args[1].Type().TypeName())
	}
}

// membership is x in a list: one that is written down is a set, made once.
func membership(args []interpreter.InterpretableV2) operation {
	written, ok := args[1].(interpreter.InterpretableConst)
	if !ok {
		return search
	}
	list, ok := written.Value().(traits.Lister)
	if !ok {
		return search
	}
	s := setOf(&meter{left: 1 << 62}, list)
	return func(m *meter, args []ref.Val) ref.Val { return types.Bool(s.has(m, args[0])) }
}
