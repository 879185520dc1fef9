package config

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// didYouMean returns "; did you mean x?" for the candidate that is near enough
// to what was written, or "". Case, dashes and underscores do not count, so
// max_events finds maxEvents.
func didYouMean(written string, candidates []string) string {
	if near := nearest(written, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

func nearest(written string, candidates []string) string {
	const longest = 64 // longer names are no slips, and the distance is quadratic
	if len(written) > longest {
		return ""
	}
	w := plain(written)
	best, bestDistance := "", 1+max(1, utf8.RuneCountInString(w)/3)
	for _, c := range candidates {
		if d := distance(w, plain(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

func plain(s string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours that turn a into b.
func distance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	older, row := []int(nil), make([]int, len(rb)+1) // two rows up, one row up
	for j := range row {
		row[j] = j
	}
	for i := range ra {
		next := make([]int, len(rb)+1)
		next[0] = i + 1
		for j := range rb {
			replaced := row[j]
			if ra[i] != rb[j] {
				replaced++
			}
			next[j+1] = min(replaced, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && ra[i] == rb[j-1] && ra[i-1] == rb[j] {
				next[j+1] = min(next[j+1], older[j-1]+1)
			}
		}
		older, row = row, next
	}
	return row[len(rb)]
}

// quote writes text from a file so that it can neither break a line nor fill
// a screen.
func quote(s string) string { return strconv.Quote(clip(s)) }

// clip cuts text to what fits in a message.
func clip(s string) string {
	const most = 80
	if utf8.RuneCountInString(s) > most {
		return string([]rune(s)[:most]) + "…"
	}
	return s
}
