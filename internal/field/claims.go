package field

import "slices"

// claims are what an entry says: its keys, without the topic, and what stands
// within its objects.
type claims struct {
	keys  []claim
	paths []claim // in a deep reckoning
}

type claim struct {
	key   string
	value value
}

func claimsOf(payload string, deep bool) claims {
	var c claims
	for _, m := range sortedMembers(payload) {
		switch {
		case m.key == "topic":
		case m.value.primitive():
			c.keys = append(c.keys, m)
		case deep && m.value.kind == kindObject:
			c.paths = appendPaths(c.paths, pathKey(m.key), m.value.text, 1)
		}
	}
	slices.SortFunc(c.paths, func(a, b claim) int { return compareUnits(a.key, b.key) })
	return c
}

func appendPaths(to []claim, path, object string, depth int) []claim {
	if depth >= MaxLevels {
		return to
	}
	for _, m := range sortedMembers(object) {
		at := path + "." + pathKey(m.key)
		switch {
		case m.value.primitive():
			to = append(to, claim{at, m.value})
		case m.value.kind == kindObject:
			to = appendPaths(to, at, m.value.text, depth+1)
		}
	}
	return to
}

// sortedMembers are an object's members by key, each key once: the last.
func sortedMembers(object string) []claim {
	var all []claim
	for key, raw := range members(object) {
		all = append(all, claim{key, valueOf(raw)})
	}
	slices.SortStableFunc(all, func(a, b claim) int { return compareUnits(a.key, b.key) })
	kept := all[:0]
	for i, m := range all {
		if i+1 == len(all) || all[i+1].key != m.key {
			kept = append(kept, m)
		}
	}
	return kept
}

// asserted is what one entry says beside its topic, for comparison with many
// others, none of which is taken apart more than it must be.
type asserted struct {
	keys    []claim // by rising units
	places  map[string]int
	differs []bool
}

func assertedBy(payload string) *asserted {
	a := &asserted{keys: claimsOf(payload, false).keys}
	a.places, a.differs = make(map[string]int, len(a.keys)), make([]bool, len(a.keys))
	for i, c := range a.keys {
		a.places[c.key] = i
	}
	return a
}

// contradicts returns the keys that both have, with different values.
func (a *asserted) contradicts(payload string) []string {
	clear(a.differs)
	n := 0
	for key, raw := range members(payload) {
		i, ok := a.places[key]
		if !ok {
			continue
		}
		v := valueOf(raw)
		a.differs[i] = v.primitive() && v != a.keys[i].value // the last of a key counts
	}
	for _, differs := range a.differs {
		if differs {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	out := make([]string, 0, n)
	for i, differs := range a.differs {
		if differs {
			out = append(out, a.keys[i].key)
		}
	}
	return out
}
