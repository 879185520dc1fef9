package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NoticeMax is the size of a notice in bytes, at most.
const NoticeMax = 8 << 10

const shortLine = 160 // bytes of a line at least, where even the lines that stay do not fit

// Line is an event as a notice shows it.
type Line struct {
	Kind Kind
	Name string
	Text string
	Data []byte // shown behind the name where there is no text and withData is set
}

// Notice writes what the agent reads: oldest first, one line an event, its
// text, else its name (design, section 5 "Notice"). What had to be cut is
// counted in a last line.
func Notice(events []Line, withData bool) string {
	lines := make([]string, len(events))
	items := make([]cutItem, len(events))
	for i := range events {
		lines[i] = noticeLine(&events[i], withData)
		items[i] = cutItem{events[i].Kind, len(lines[i]) + 1}
	}
	c := newCutter(items)
	if c.over(len(items), NoticeMax+1) { // the last line ends without a newline
		room := NoticeMax - len("and 1234567890 more")
		c.fit(len(items), room, shortLine, func(i, limit int) int { return min(len(lines[i]), limit) + 1 }, func(i, limit int) {
			lines[i] = Shorten(lines[i], limit)
		})
	}
	var b strings.Builder
	for i, line := range lines {
		if c.keep[i] {
			b.WriteString(line)
			b.WriteByte('\n')
		}
	}
	if left := len(lines) - c.count; left > 0 {
		fmt.Fprintf(&b, "and %d more", left)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func noticeLine(e *Line, withData bool) string {
	if e.Text != "" {
		return EscapeLine(e.Text)
	}
	line := EscapeLine(e.Name)
	if withData && len(e.Data) > 0 {
		var b bytes.Buffer
		if json.Compact(&b, e.Data) == nil {
			line += " " + EscapeLine(b.String())
		}
	}
	return line
}

// Shorten cuts a string to at most limit bytes at a character, ending in "…".
func Shorten(s string, limit int) string {
	const ellipsis = "…"
	if len(s) <= limit {
		return s
	}
	cut := max(limit-len(ellipsis), 0)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + ellipsis
}

// EscapeLine makes newlines, control and bidi characters visible, so that an
// event cannot forge a line or turn the order of what is read.
func EscapeLine(s string) string {
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	switch {
	case r == utf8.RuneError, unicode.IsControl(r):
		return true
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069: // bidi
		return true
	case r == 0x2028, r == 0x2029: // line and paragraph separators
		return true
	default:
		return false
	}
}
