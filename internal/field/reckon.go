package field

import (
	"cmp"
	"slices"
)

// pair is two entries of an answer that contradict each other. Names are by
// their numbers.
type pair struct {
	a, b        int32 // places in the answer; a ranks higher
	keys, paths []int32
}

// Compare finds the contradictions among the entries of a reckon (docs/field.md,
// "Conflicts"), at most MaxConflicts, oldest first by the later of the two
// timestamps. It asks between pairs whether to stop, and reports false when it
// did. An attune has nothing to compare.
func (g *Gathered) Compare(stop func() bool) bool {
	if g.query.Op != OpReckon {
		return true
	}
	all, ok := g.mentions(stop)
	if !ok {
		return false
	}
	for i := range all {
		for j := i + 1; j < len(all); j++ {
			if g.topics[i] == 0 || g.topics[i] != g.topics[j] {
				continue
			}
			if stop() {
				return false
			}
			keys, paths := apart(all[i].keys, all[j].keys), apart(all[i].paths, all[j].paths)
			if len(keys)+len(paths) == 0 {
				continue
			}
			if g.full = len(g.pairs) == MaxConflicts; g.full {
				g.order()
				return true
			}
			g.pairs = append(g.pairs, pair{int32(i), int32(j), keys, paths}) //nolint:gosec // at most MaxReckoned
		}
	}
	g.order()
	return true
}

func (g *Gathered) order() {
	at := func(p *pair) int64 { return max(g.entries[p.a].Timestamp, g.entries[p.b].Timestamp) }
	slices.SortStableFunc(g.pairs, func(x, y pair) int { return cmp.Compare(at(&x), at(&y)) })
}

// mention is a claim as two numbers. Those of names rise in the order of the
// names, and equal values have equal ones: so an entry is read once, however
// many it is compared with.
type mention struct{ name, value int32 }

// mentioned is what one entry says, by rising names.
type mentioned struct{ keys, paths []mention }

// mentions reads the entries, and names what they are about.
func (g *Gathered) mentions(stop func() bool) (all []mentioned, ok bool) {
	all = make([]mentioned, len(g.entries))
	shared := make(map[int32]int)
	for _, topic := range g.topics {
		shared[topic]++
	}
	names, values := make(map[string]int32), make(map[value]int32)
	number := func(list []claim) []mention {
		out := make([]mention, len(list))
		for i, c := range list {
			out[i] = mention{numberOf(names, c.key), numberOf(values, c.value)}
		}
		return out
	}
	for i, topic := range g.topics {
		if topic == 0 || shared[topic] == 1 {
			continue
		}
		if stop() {
			return nil, false
		}
		says := claimsOf(g.payloads[i], g.query.Deep)
		all[i] = mentioned{number(says.keys), number(says.paths)}
	}
	g.names = make([]string, len(names))
	for name := range names { //arch:sorted below
		g.names[names[name]] = name
	}
	// From numbers as they came to numbers in order.
	slices.SortFunc(g.names, compareUnits)
	rank := make([]int32, len(g.names))
	for i, name := range g.names {
		rank[names[name]] = int32(i) //nolint:gosec // at most MaxReckoned entries with MaxKeys
	}
	for i := range all {
		for _, list := range [2][]mention{all[i].keys, all[i].paths} {
			for j := range list {
				list[j].name = rank[list[j].name]
			}
		}
	}
	return all, true
}

// numberOf returns the number of something, a new one if it has none yet.
func numberOf[K comparable](known map[K]int32, k K) int32 {
	n, ok := known[k]
	if !ok {
		n = int32(len(known)) //nolint:gosec // at most MaxReckoned entries with MaxKeys
		known[k] = n
	}
	return n
}

// apart returns the names that both have, with different values.
func apart(a, b []mention) []int32 {
	var out []int32
	for i, j := 0, 0; i < len(a) && j < len(b); {
		x, y := a[i], b[j]
		if x.name == y.name && x.value != y.value {
			out = append(out, x.name)
		}
		if x.name <= y.name {
			i++
		}
		if y.name <= x.name {
			j++
		}
	}
	return out
}
