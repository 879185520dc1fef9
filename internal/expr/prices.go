package expr

import (
	"math/bits"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// The prices of text: how many bytes one unit of cost pays for.
const (
	textUnit    = 50   // to decode, copy or change
	searchUnit  = 500  // to look for another text in, or count
	compareUnit = 1000 // to compare or hash
)

// maxRange is how long a list lists.range makes.
const maxRange = 1_000_000

// zonePrice is what it costs to look up a time zone.
const zonePrice = 100

// price is what a function costs. One that has neither is done in about the
// same time whatever it is given, and costs what CEL says: one.
type price struct {
	toll func(m *meter, args []ref.Val) // is counted before CEL does the work
	work operation                      // does the work, and counts as it goes
}

// prices lists every function that an expression may call.
func prices() map[string]price {
	all := map[string]price{
		"_==_":       {work: func(m *meter, args []ref.Val) ref.Val { return types.Bool(equal(m, args[0], args[1])) }},
		"_!=_":       {work: func(m *meter, args []ref.Val) ref.Val { return types.Bool(!equal(m, args[0], args[1])) }},
		walkFunction: {work: walked},
		"@in":        {work: search}, "matches": {work: match}, "hasValue": {work: holdsValue}, "distinct": {work: distinct},
		"sets.contains": {work: containsAll}, "sets.intersects": {work: containsAny}, "sets.equivalent": {work: sameSet},
		"hasAll": {work: containsAll}, "hasAny": {work: containsAny}, "hasExactly": {work: sameSet},
		"hasOnly": {work: func(m *meter, args []ref.Val) ref.Val { return containsAll(m, []ref.Val{args[1], args[0]}) }},
	}
	for _, same := range []struct {
		toll  func(m *meter, args []ref.Val)
		names string
	}{
		{nil, `!_ -_ _-_ _*_ _/_ _%_ @not_strictly_false __not_strictly_false__ dyn type first last value or orValue
			optional.none optional.of optional.ofNonZeroValue math.abs math.bitAnd math.bitNot math.bitOr math.bitShiftLeft
			math.bitShiftRight math.bitXor math.ceil math.floor math.isFinite math.isInf math.isNaN math.round math.sign
			math.sqrt math.trunc`},
		{texts, "_+_ bool bytes string int uint double duration timestamp charAt lowerAscii upperAscii substring trim strings.quote"},
		{func(m *meter, args []ref.Val) { m.spend(length(args[0]) / compareUnit) }, keyFunction},
		{comparison, "_<_ _<=_ _>_ _>=_"},
		{func(m *meter, args []ref.Val) { m.spend(length(args[0]) / searchUnit) }, "size"},
		{func(m *meter, args []ref.Val) { m.spend(length(args[1]) / compareUnit) }, "startsWith endsWith"},
		{func(m *meter, args []ref.Val) { m.spend((length(args[0]) + length(args[1])) / searchUnit) }, "contains"},
		{finding, "indexOf lastIndexOf"},
		{replacement, "replace"},
		{pieces, "split"},
		{func(m *meter, args []ref.Val) { m.text(length(args[0])); m.spend(count(args[0])) }, "reverse"},
		{func(m *meter, args []ref.Val) { m.spend(count(args[0])) }, "math.@max math.@min optional.unwrap unwrapOpt"},
		{func(m *meter, args []ref.Val) { m.spend(whole(args[2]) - min(whole(args[1]), whole(args[2]))) }, "slice"},
		{func(m *meter, args []ref.Val) { m.spend(whole(args[0])) }, "lists.range"},
		{func(m *meter, args []ref.Val) { m.through(args[0], 1, 0) }, "flatten"},
		{func(m *meter, args []ref.Val) {
			m.through(args[0], 1, 0)
			m.text(count(args[0]) * length(args[len(args)-1]))
		}, "join"},
		{func(m *meter, args []ref.Val) { m.text(length(args[0])); m.through(args[1], 2, 2) }, "format"},
		{sorting, "sort @sortByAssociatedKeys"},
		{clock, `getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear getHours getMilliseconds getMinutes getMonth getSeconds`},
	} {
		for name := range strings.FieldsSeq(same.names) {
			all[name] = price{toll: same.toll}
		}
	}
	return all
}

// texts pays for all the text that a function is given.
func texts(m *meter, args []ref.Val) {
	for _, arg := range args {
		m.text(length(arg))
	}
}

func comparison(m *meter, args []ref.Val) {
	m.spend(min(length(args[0]), length(args[1])) / compareUnit)
}

// finding looks for a text at every character of another.
func finding(m *meter, args []ref.Val) {
	texts(m, args)
	m.spend(length(args[0]) * length(args[1]) / searchUnit)
}

func replacement(m *meter, args []ref.Val) {
	texts(m, args)
	m.text(times(args[0], args[1]) * length(args[2]))
}

func pieces(m *meter, args []ref.Val) {
	texts(m, args)
	m.spend(times(args[0], args[1]) + 1)
}

// times counts how often a text stands in another.
func times(text, part ref.Val) uint64 {
	s, _ := text.(types.String)
	p, _ := part.(types.String)
	if p == "" {
		return uint64(utf8.RuneCountInString(string(s))) + 1
	}
	return uint64(strings.Count(string(s), string(p)))
}

// whole is a whole number, 0 of what is none. What is more than lists.range
// takes is left to it to refuse.
func whole(v ref.Val) uint64 {
	n, _ := v.(types.Int)
	if n < 0 || n > maxRange {
		return 0
	}
	return uint64(n)
}

// sorting pays for the comparisons of keys, each with all of its text.
func sorting(m *meter, args []ref.Val) {
	keys := args[len(args)-1]
	n := count(keys)
	rounds := uint64(bits.Len64(n))
	m.spend(n * rounds)
	m.through(keys, 1, 0)
	if list, ok := keys.(traits.Lister); ok {
		for i := range list.Size().(types.Int) {
			m.spend(length(list.Get(i)) * rounds / compareUnit)
		}
	}
}

// clock pays for a time zone, which is looked up by its name.
func clock(m *meter, args []ref.Val) {
	if len(args) > 1 {
		m.spend(zonePrice)
		m.text(length(args[1]))
	}
}
