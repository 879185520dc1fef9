package fields

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxScope is how many bytes a scope may have (README.md, "Limits").
const maxScope = 512

// ScopeOf is the scope of the events of one topic of a Field:
// field:<name>:<topic>. The topic is the JSON value of an entry's key "topic",
// nil for none.
//
// Different names and topics have different scopes. To that end a "%" is
// written %25, and so are, byte by byte, control characters, a ":" in the name
// and a "=" that a topic begins with; what is no string is written with a "="
// before it: =5, =true, =null, =none, =object, =array. A topic that is too long
// is cut, and ends with %~ and a hash of the whole.
func ScopeOf(name string, topic json.RawMessage) string {
	prefix := "field:" + escape(name, func(_ int, r rune) bool { return r == ':' }) + ":"
	text := topicText(topic)
	if len(prefix)+len(text) <= maxScope {
		return prefix + text
	}
	sum := sha256.Sum256([]byte(text))
	mark := "%~" + hex.EncodeToString(sum[:8])
	return prefix + clipBytes(text, maxScope-len(prefix)-len(mark)) + mark
}

func topicText(topic json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(topic))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return "=none"
	}
	switch v := v.(type) {
	case string:
		return escape(v, func(i int, r rune) bool { return i == 0 && r == '=' })
	case json.Number:
		return "=" + numberText(string(v))
	case bool:
		return "=" + strconv.FormatBool(v)
	case nil:
		return "=null"
	case []any:
		return "=array"
	default:
		return "=object"
	}
}

// numberText writes equal numbers equally: they are doubles, as in the rules.
func numberText(digits string) string {
	f, _ := strconv.ParseFloat(digits, 64) // beyond range: infinite
	if math.IsInf(f, 0) {
		return strings.TrimPrefix(strings.ToUpper(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	return strconv.FormatFloat(f+0, 'g', -1, 64) // no -0
}

// escape writes the bytes of control characters, of "%", and of those that
// also holds, as % and two hex digits.
func escape(s string, also func(i int, r rune) bool) string {
	var b strings.Builder
	for i, r := range s {
		size := utf8.RuneLen(r)
		if r != '%' && !unicode.IsControl(r) && !also(i, r) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(s[i:min(i+size, len(s))]) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// clipBytes returns as much of a string as fits into n bytes, without cutting
// a character or what escape has written for a byte.
func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	if i := strings.LastIndexByte(s[:n], '%'); i >= 0 && i > n-3 {
		n = i
	}
	return s[:n]
}
