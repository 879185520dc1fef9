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

// against compares the claims of two entries of one topic.
func (c claims) against(d claims) (Conflict, bool) {
	keys, paths := differing(c.keys, d.keys), differing(c.paths, d.paths)
	if len(keys)+len(paths) == 0 {
		return Conflict{}, false
	}
	if keys == nil {
		keys = []string{}
	}
	return Conflict{Keys: keys, Paths: paths}, true
}

// differing returns the keys that both have, with different values.
func differing(a, b []claim) []string {
	var out []string
	for len(a) > 0 && len(b) > 0 {
		switch order := compareUnits(a[0].key, b[0].key); {
		case order < 0:
			a = a[1:]
		case order > 0:
			b = b[1:]
		default:
			if a[0].value != b[0].value {
				out = append(out, a[0].key)
			}
			a, b = a[1:], b[1:]
		}
	}
	return out
}
