package expr

import (
	"strings"
	"unicode"
)

// Failure is why an expression failed on a window. Its text holds nothing that
// only the window holds: it is logged and recorded where what events say may not
// be. [Failure.Quoted] may quote an event, unescaped.
type Failure struct{ plain, quoted string }

// Error implements error.
func (f *Failure) Error() string { return f.plain }

// Quoted is the same text with what it quotes.
func (f *Failure) Quoted() string { return f.quoted }

// Quoted is the text of an error, with what it quotes where it is a [Failure].
func Quoted(err error) string {
	if f, ok := err.(*Failure); ok { //nolint:errorlint // one that is wrapped says something more
		return f.quoted
	}
	return err.Error()
}

// failure makes one of what CEL says. What it quotes stays where the expression
// itself has it, as the key that is missing mostly is.
func (p *Program) failure(message string) *Failure {
	quoted := short(plainRuntime(message))
	if p.quotes {
		return &Failure{quoted, quoted}
	}
	return &Failure{short(plainRuntime(p.withoutData(message))), quoted}
}

// gone is in place of what an event said.
const gone = "…"

// withoutData takes out of a message what does not stand in the expression: all
// after a colon, all in quotes, and words with a digit. What CEL says itself has
// none of them.
func (p *Program) withoutData(message string) string {
	for _, own := range []string{"cost limit exceeded", tooManyValues, "cannot be walked through"} { // said here
		if strings.Contains(message, own) {
			return message
		}
	}
	own := func(text string) bool { return text != "" && strings.Contains(p.source, text) }
	said, value, colon := strings.Cut(message, ": ")
	if zone, is := strings.CutPrefix(said, "unknown time zone "); is && !own(zone) {
		said = "unknown time zone " + gone
	}
	if at := strings.IndexAny(said, "\"`"); at >= 0 && !own(strings.Trim(said[at:], "\"`")) {
		said, colon = said[:at]+gone, false
	}
	said = digits(said, own)
	switch {
	case !colon:
		return said
	case said == "lists.range":
		return said + ": " + digits(value, own)
	case said == "no such overload" || own(value):
		return said + ": " + value
	default:
		return said + ": " + gone
	}
}

// digits takes words with a digit out of a text, but for those of the expression.
func digits(said string, own func(string) bool) string {
	words := strings.Split(said, " ")
	for i, w := range words {
		if strings.ContainsFunc(w, unicode.IsDigit) && w != "3339" && !own(strings.Trim(w, "'()")) {
			words[i] = gone
		}
	}
	return strings.Join(words, " ")
}
