package config

import (
	"slices"
	"strings"

	"attend/internal/engine"
)

// The elements of a pattern other than literal characters. They are no valid
// characters, so that nothing else can be mistaken for them.
const (
	anyRun rune = -1 // *
	anyOne rune = -2 // ?
	// fresh is a character that no pattern names: only * and ? match it.
	fresh rune = -3
)

// elements splits a pattern as [engine.Glob] reads it.
func elements(pattern string) []rune {
	chars := []rune(pattern)
	out := make([]rune, 0, len(chars))
	for i := 0; i < len(chars); i++ {
		switch c := chars[i]; {
		case c == '*':
			out = append(out, anyRun)
		case c == '?':
			out = append(out, anyOne)
		case c == '\\' && i+1 < len(chars):
			i++
			out = append(out, chars[i])
		default:
			out = append(out, c)
		}
	}
	return out
}

// isGlob reports whether a pattern matches more than one name.
func isGlob(pattern string) bool {
	return slices.ContainsFunc(elements(pattern), func(c rune) bool { return c == anyRun || c == anyOne })
}

// canonical writes a pattern with the fewest escapes, so that two spellings of
// one pattern are equal.
func canonical(pattern string) string {
	var b strings.Builder
	for _, c := range elements(pattern) {
		switch c {
		case anyRun:
			b.WriteByte('*')
		case anyOne:
			b.WriteByte('?')
		case '*', '?', '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// covers reports whether every name that inner matches is matched by outer
// too. It walks inner while it keeps the set of places at which outer may be.
// A * or ? of inner is walked with a character that outer does not name: it is
// the hardest one to match, so what holds for it holds for all. False is also
// the answer when the budget, of which each step takes, is spent.
func covers(outer, inner string, budget *int) bool {
	w := walk{outer: elements(outer), inner: elements(inner), seen: make(map[string]bool), budget: budget}
	start := make([]bool, len(w.outer)+1)
	start[0] = true
	return w.matches(0, w.spread(start))
}

type walk struct {
	outer, inner []rune
	seen         map[string]bool // states that are being or have been walked
	budget       *int            // places that may still be looked at
}

// matches reports whether outer, being at any of the places, matches all that
// inner from element i on stands for.
func (w *walk) matches(i int, places []bool) bool {
	*w.budget -= len(places)
	if !slices.Contains(places, true) || *w.budget < 0 {
		return false
	}
	if i == len(w.inner) {
		return places[len(w.outer)]
	}
	switch c := w.inner[i]; c {
	case anyRun:
		// A run may end here or take one character more. A state that was met
		// before brings nothing new: if it fails, the whole walk fails.
		key := stateKey(i, places)
		if w.seen[key] {
			return true
		}
		w.seen[key] = true
		return w.matches(i+1, places) && w.matches(i, w.step(places, fresh))
	case anyOne:
		return w.matches(i+1, w.step(places, fresh))
	default:
		return w.matches(i+1, w.step(places, c))
	}
}

// step moves outer over one character.
func (w *walk) step(places []bool, c rune) []bool {
	next := make([]bool, len(places))
	for at, here := range places[:len(w.outer)] {
		if !here {
			continue
		}
		switch w.outer[at] {
		case anyRun:
			next[at] = true
		case anyOne, c:
			next[at+1] = true
		}
	}
	return w.spread(next)
}

// spread adds the places behind a *, which may stand for nothing.
func (w *walk) spread(places []bool) []bool {
	for at, c := range w.outer {
		if places[at] && c == anyRun {
			places[at+1] = true
		}
	}
	return places
}

func stateKey(i int, places []bool) string {
	b := make([]byte, 0, len(places)+4)
	b = append(b, byte(i), byte(i>>8), byte(i>>16))
	for _, here := range places {
		if here {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	return string(b)
}

// Bounds on how long patterns are compared with each other: far above what
// people write, and a fraction of a second.
const (
	maxShadowed   = 500
	maxComparison = 5_000_000
)

// shadowed returns, for each pattern that can never match, one that always
// comes before it. Only a glob can cover a glob, and no pattern covers an
// exact name, which comes first.
func shadowed(patterns []string) map[string]string {
	globs := slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return !isGlob(p) })
	found := make(map[string]string)
	if len(globs) > maxShadowed {
		return found
	}
	budget := maxComparison
	for _, p := range globs {
		name := example(p)
		for _, q := range globs {
			if p != q && engine.Glob(q, name) && covers(q, p, &budget) && first(p, q, name) == q {
				found[p] = q
				break
			}
		}
	}
	return found
}

// example returns a name that a pattern matches.
func example(pattern string) string {
	chars := elements(pattern)
	for i, c := range chars {
		if c == anyRun || c == anyOne {
			chars[i] = 'x'
		}
	}
	return string(chars)
}

// first asks the engine which of two patterns a name that both match belongs to.
func first(p, q, name string) string {
	policy := engine.Policy{Kinds: map[string]engine.Kind{p: engine.Context, q: engine.Context}, Default: engine.Defaults()}
	if err := policy.Compile(); err != nil {
		return ""
	}
	_, pattern := policy.KindOf(name)
	return pattern
}
