package expr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// slips are words and signs of other languages, and how they are written here.
func slips() map[string]string {
	return map[string]string{
		"and": "for and write &&", "or": "for or write ||", "not": "for not write !",
		"&": "for and write &&", "|": "for or write ||", "=": "to compare write ==", ">": "to compare write !=",
	}
}

// elsewhere are the names that functions have in other languages.
func elsewhere() map[string]string {
	return map[string]string{
		"any": "exists", "some": "exists", "every": "all", "len": "size", "length": "size", "count": "size",
		"includes": "contains", "has": "contains", "lower": "lowerAscii", "tolower": "lowerAscii", "tolowercase": "lowerAscii",
		"upper": "upperAscii", "toupper": "upperAscii", "touppercase": "upperAscii", "match": "matches", "test": "matches",
		"strip": "trim", "min": "math.least", "math.min": "math.least", "max": "math.greatest", "math.max": "math.greatest",
	}
}

// position is a character of an expression's text, and what stands around it.
type position struct {
	text []rune
	at   int
}

// lines is a text by its lines.
type lines [][]rune

func textOf(source string) lines {
	var all lines
	for line := range strings.Lines(source) {
		all = append(all, []rune(line))
	}
	return all
}

// at returns the character of a line and column, from 1.
func (l lines) at(line, column int) position {
	if line > len(l) {
		return position{}
	}
	return position{l[line-1], min(column-1, len(l[line-1]))}
}

// next is the character itself, 0 at the end.
func (p position) next() rune {
	if p.at >= len(p.text) {
		return 0
	}
	return p.text[p.at]
}

// before is the word or sign that ends before the character.
func (p position) before() string {
	words := strings.Fields(string(p.text[:p.at]))
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// slip says what is wrong with the grammar.
func (p position) slip(message string) string {
	if m := regexp.MustCompile(`(?s)^missing '(.*?)' at '(.*)'$`).FindStringSubmatch(message); m != nil {
		if m[2] == "<EOF>" {
			return "ends in the middle: " + m[1] + " is missing"
		}
		return fmt.Sprintf("%s is missing before %q", m[1], m[2])
	}
	if p.at >= len(p.text) {
		return "ends in the middle"
	}
	word := string(p.next())
	if input, ok := quoted(message, `(?s)input '(.*?)' expecting`); ok {
		word = input
	}
	at, left := strings.ToLower(word), strings.ToLower(p.before())
	unequal := at == ">" && strings.HasSuffix(left, "<")
	switch {
	case word == "<EOF>": // there is nothing after it but spaces
		return "ends in the middle"
	case at == ">" && !unequal, strings.HasPrefix(string(p.text[p.at:]), "=>"):
	case slips()[at] != "":
		return slips()[at]
	case left == "not":
		return slips()["not"]
	case strings.HasPrefix(message, "token recognition") && (word == "'" || word == `"`):
		return "a text begins here and does not end: its quote is missing"
	}
	return fmt.Sprintf("%q is not expected here", word)
}

// walks reports that a name is the variable of a function around it that walks
// through a list and that there is not, as e in any(e, e.text == "a").
func (p position) walks(name string) bool {
	for _, wrong := range []string{"any", "some", "every"} {
		if regexp.MustCompile(`\.` + wrong + `\(\s*` + regexp.QuoteMeta(name) + `\s*,`).MatchString(string(p.text[:min(len(p.text), p.at+len(name)+2)])) {
			return true
		}
	}
	return false
}

// size is how one asks for the size of what has no fields.
func (p position) size(message string) string {
	asked := slices.ContainsFunc([]string{".length", ".size", ".len", ".count"}, func(field string) bool {
		rest, found := strings.CutPrefix(string(p.text[p.at:]), field)
		return found && !strings.HasPrefix(rest, "(")
	})
	if asked && strings.Contains(message, "does not support field selection") {
		return "; for how many there are write size()"
	}
	return ""
}

// noFunction says that there is no function of a name, and which was meant.
func (e *Env) noFunction(name string) string {
	problem := fmt.Sprintf("there is no function %q", name)
	meant := elsewhere()[strings.ToLower(name)]
	for known := range e.env.Functions() { //arch:sorted at most one is the same but for its case
		if known != name && strings.EqualFold(known, name) && unicode.IsLetter(rune(known[0])) {
			meant = known
		}
	}
	for _, macro := range e.env.Macros() {
		if strings.EqualFold(macro.Function(), name) && macro.Function() != name {
			meant = macro.Function()
		}
	}
	if meant != "" {
		problem += "; did you mean " + meant + "?"
	}
	return problem
}
