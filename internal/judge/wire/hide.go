package wire

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Hidden stands where a secret stood.
const Hidden = "[key]"

// Hide takes secrets out of a text, as they are and as JSON may write them: /
// as \/, any character as \u0026, and each backslash as several, where JSON
// stands within a string of JSON. Empty secrets are none.
func Hide(text string, secrets ...string) string {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return s == "" })
	if len(secrets) == 0 {
		return text
	}
	var b strings.Builder
	kept := 0 // of the text stands in b
	for i := 0; i < len(text); {
		n := 0
		for _, s := range secrets {
			n = max(n, written(text[i:], s))
		}
		if n == 0 {
			i++
			continue
		}
		b.WriteString(text[kept:i])
		b.WriteString(Hidden)
		i += n
		kept = i
	}
	if kept == 0 {
		return text
	}
	b.WriteString(text[kept:])
	return b.String()
}

// maxEscapes is how many backslashes may stand before a character: enough for
// JSON in JSON in JSON.
const maxEscapes = 8

// written is how many bytes of a text's beginning write a secret, 0 for none.
func written(text, secret string) int {
	at := 0
	for _, want := range secret {
		n := character(text[at:], want)
		if n == 0 {
			return 0
		}
		at += n
	}
	return at
}

// character is how many bytes of a text's beginning write a character.
func character(text string, want rune) int {
	escapes := 0
	for escapes < min(maxEscapes, len(text)) && text[escapes] == '\\' {
		escapes++
	}
	rest := text[escapes:]
	if escapes > 0 && len(rest) >= 5 && rest[0] == 'u' {
		if code, err := strconv.ParseUint(rest[1:5], 16, 16); err == nil && rune(code) == want { //nolint:gosec // 16 bits
			return escapes + 5
		}
	}
	if want == '\\' {
		return escapes
	}
	if got, n := utf8.DecodeRuneInString(rest); n > 0 && got == want && (escapes == 0 || want == '/' || want == '"') {
		return escapes + n
	}
	return 0
}

// shortest is the length from which what any other header than those of keys
// holds is taken for a secret: a version is none.
const shortest = 12

// secretsOf are the values of a request's headers that nobody may see.
func secretsOf(sent http.Header) []string {
	var secrets []string
	for name, values := range sent { //arch:sorted each is looked for by itself
		for _, v := range values {
			switch http.CanonicalHeaderKey(name) {
			case "Authorization", "X-Api-Key", "X-Goog-Api-Key":
				secrets = append(secrets, strings.TrimPrefix(v, "Bearer "))
			default:
				if len(v) >= shortest {
					secrets = append(secrets, v)
				}
			}
		}
	}
	return secrets
}
