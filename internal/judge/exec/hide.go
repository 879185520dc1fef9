package exec

import (
	"encoding/json"
	"strings"

	"attend/internal/judge"
)

// hide takes secrets out of what a hook brought: it goes into the log and to
// judges.
func hide(c judge.Context, from func(string) string) judge.Context {
	c.Facts = hideIn(c.Facts, from)
	for i := range c.Predicates {
		p := &c.Predicates[i]
		p.Name, p.Question = from(p.Name), from(p.Question)
	}
	return c
}

// hideIn takes secrets out of the strings of valid JSON, and leaves every other
// byte as it is.
func hideIn(doc json.RawMessage, from func(string) string) json.RawMessage {
	var out []byte
	kept := 0 // of doc stands in out
	for i := 0; i < len(doc); i++ {
		if doc[i] != '"' {
			continue
		}
		end := i + 1
		for doc[end] != '"' {
			if doc[end] == '\\' {
				end++
			}
			end++
		}
		end++
		var text string
		if err := json.Unmarshal(doc[i:end], &text); err == nil {
			if hidden := from(text); hidden != text {
				out = append(append(out, doc[kept:i]...), quote(hidden)...)
				kept = end
			}
		}
		i = end - 1
	}
	if kept == 0 {
		return doc
	}
	return append(out, doc[kept:]...)
}

// quote writes a text as a JSON string.
func quote(text string) []byte {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // of a string, it cannot fail
	return []byte(strings.TrimSuffix(b.String(), "\n"))
}
