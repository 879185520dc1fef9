package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// visible makes text from outside safe to show: control characters (ANSI
// sequences begin with one), bidi controls and separators of lines become
// escapes, so that an event can neither move the cursor nor forge a line.
func visible(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// visibleJSON does the same for a piece of JSON text that holds no line ends:
// there such characters stand inside strings alone, where the escape means the
// same character.
func visibleJSON(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r) // none of them needs more than four digits
	}
	return b.String()
}

// visibleData makes JSON text safe to show and leaves its blanks alone: line
// ends, which stand between tokens alone, become blanks, and what is hidden
// inside strings becomes escapes. A tab does no harm.
func visibleData(s string) string {
	lines := strings.NewReplacer("\n", " ", "\r", " ").Replace(s)
	parts := strings.Split(lines, "\t")
	for i := range parts {
		parts[i] = visibleJSON(parts[i])
	}
	return strings.Join(parts, "\t")
}

// jsonLine writes a JSON value on one line that is safe to show.
func jsonLine(raw []byte) (string, error) {
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return "", fmt.Errorf("not JSON: %w", err)
	}
	return visibleJSON(line.String()), nil
}

// hidden reports characters that change how others are shown: controls, marks
// that turn the direction of writing, line and paragraph separators.
func hidden(r rune) bool {
	if r < 0x80 {
		return r < 0x20 || r == 0x7F
	}
	return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}
