package feed

import (
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"
)

// scopeMark begins every cursor of the list of scopes, so that none of another
// kind is taken for one.
const scopeMark = "s1."

// EncodeScopeCursor writes the place behind a scope in the list of all scopes,
// which is ordered by name.
func EncodeScopeCursor(scope string) string {
	return scopeMark + base64.RawURLEncoding.EncodeToString([]byte(scope))
}

// DecodeScopeCursor reads what EncodeScopeCursor wrote. Anything else is
// ErrMalformed.
func DecodeScopeCursor(s string) (scope string, err error) {
	encoded, marked := strings.CutPrefix(s, scopeMark)
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if !marked || err != nil || len(b) == 0 || !utf8.Valid(b) || strings.ContainsAny(s, "\r\n") { // the decoder skips line ends
		return "", fmt.Errorf("cursor: %w: it is none of the list of scopes; send back the string as it was given out", ErrMalformed)
	}
	return string(b), nil
}
