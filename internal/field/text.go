package field

import (
	"strconv"
	"strings"
	"unicode"
)

// The protocol counts, trims, sorts and prints as JavaScript does. Here is how
// Go says the same.

// units is the length of a text in UTF-16 code units.
func units(s string) int {
	n := 0
	for _, r := range s {
		if n++; r > 0xFFFF {
			n++
		}
	}
	return n
}

// trim takes white space off both ends: also U+FEFF, and not U+0085, which is
// the other way round in package strings.
func trim(s string) string { return strings.TrimFunc(s, isSpace) }

func isSpace(r rune) bool {
	switch r {
	case '\t', '\n', '\v', '\f', '\r', '\uFEFF', '\u2028', '\u2029':
		return true
	}
	return unicode.Is(unicode.Zs, r)
}

func blank(s string) bool { return trim(s) == "" }

// compareUnits orders texts by their UTF-16 code units. That is the order of
// their bytes, but for characters beyond U+FFFF, which are surrogates there
// and so stand before U+E000.
func compareUnits(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		x, y := a[i], b[i]
		if x == y {
			continue
		}
		if x >= 0xEE && y >= 0xEE && (x >= 0xF0) != (y >= 0xF0) {
			x, y = y, x
		}
		return int(x) - int(y)
	}
	return len(a) - len(b)
}

// fixed2 prints two decimals, nearest by the exact value, and ties upwards.
// Only an odd multiple of an eighth is a tie; Go would make it even.
func fixed2(x float64) string {
	if eighths := x * 8; eighths == float64(int64(eighths)) && int64(eighths)%2 != 0 {
		x += 0.001
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// tokens are the runs of letters and digits of a text, in lower case, each
// once, in the order of their first appearance. Each character has one in lower
// case, whatever stands beside it: that of İ is i. JavaScript would make it i
// and a combining dot, which is no letter and would cut the word in two.
func tokens(s string) []string {
	var out []string
	seen := make(map[string]bool)
	for _, t := range strings.FieldsFunc(strings.ToLower(s), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}

// shortened is a text that somebody gave, for a message: its first 100
// characters.
func shortened(s string) string {
	n := 0
	for i := range s {
		if n++; n > 100 {
			return s[:i] + "…"
		}
	}
	return s
}

// SplitPath takes a path of a Conflict apart, into the keys that lead to the
// value: a backslash takes its meaning from the dot or backslash after it.
func SplitPath(path string) []string {
	keys := []string{""}
	for i := 0; i < len(path); i++ {
		last := &keys[len(keys)-1]
		switch {
		case path[i] == '\\' && i+1 < len(path):
			i++
			*last += path[i : i+1]
		case path[i] == '.':
			keys = append(keys, "")
		default:
			*last += path[i : i+1]
		}
	}
	return keys
}

// pathKey makes a key a part of a path.
func pathKey(key string) string {
	if !strings.ContainsAny(key, `.\`) {
		return key
	}
	return strings.ReplaceAll(strings.ReplaceAll(key, `\`, `\\`), ".", `\.`)
}
