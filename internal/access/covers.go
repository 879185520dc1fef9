package access

import (
	"slices"
	"unicode/utf8"
)

// MayAll tells whether the principal has a right in every scope that a pattern
// matches. Where patterns are so entangled that it cannot be seen, it says no.
func (p *Principal) MayAll(right, pattern string) bool {
	return p.May(right, "") && (len(p.Scopes) == 0 || slices.ContainsFunc(p.Scopes, func(own string) bool { return covers(own, pattern) }))
}

// element is a part of a pattern: a character, any one character, or any run.
type element struct {
	kind byte // 0, '?' or '*'
	char rune
}

func elements(pattern string) []element {
	var all []element
	for i := 0; i < len(pattern); {
		escaped := pattern[i] == '\\' && i+1 < len(pattern)
		if escaped {
			i++
		}
		char, size := utf8.DecodeRuneInString(pattern[i:])
		i += size
		if !escaped && (char == '*' || char == '?') {
			all = append(all, element{kind: byte(char)})
		} else {
			all = append(all, element{char: char})
		}
	}
	return all
}

// covers tells whether everything that the inner pattern matches is matched by
// the outer one too: as a match of the outer one against the inner one's
// elements, where a run takes any of them, and any one character all but a run.
func covers(outer, inner string) bool {
	o, in := elements(outer), elements(inner)
	// fits[j] tells whether the elements of outer so far match the first j of
	// inner.
	fits := make([]bool, len(in)+1)
	fits[0] = true
	for _, e := range o {
		next := make([]bool, len(in)+1)
		if e.kind == '*' {
			reached := false
			for j := range fits {
				reached = reached || fits[j]
				next[j] = reached
			}
		} else {
			for j, i := range in {
				next[j+1] = fits[j] && (i == e || e.kind == '?' && i.kind != '*')
			}
		}
		fits = next
	}
	return fits[len(in)]
}
