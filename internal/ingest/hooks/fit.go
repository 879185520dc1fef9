package hooks

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// note stands in data that was cut down, so that nobody takes it for whole.
type note struct {
	Cut   bool `json:"cut"`
	Bytes int  `json:"bytes"` // of the data as it came
}

// noteName is the member that holds the note.
const noteName = "_attend"

// maxText is how many bytes of text stay where an event is too large.
const maxText = 4 << 10

// maxDepth is how many objects and lists of data may stand in one another: what
// ingest takes, the event's own object left out.
const maxDepth = 511

// fit makes of an event what ingest takes: an event that tells less is worth more
// than one that is refused. Characters that are none are replaced, and data that
// is too large for its scope, or too deep, is cut down.
func (s *Service) fit(e *Event) {
	e.Data = mend(e.Data)
	size := func() int64 {
		return int64(len(e.Scope) + len(e.Name) + len(e.ID) + len(e.Text) + len(e.Data))
	}
	most := int64(math.MaxInt32)
	if s.limit != nil {
		most = s.limit(e.Scope)
	}
	if size() > most && len(e.Text) > maxText {
		e.Text = cutText(e.Text, maxText) + "…"
	}
	if len(e.Data) > 0 && (size() > most || deep(e.Data)) {
		e.Data = project(e.Data, note{true, cmp.Or(e.whole, len(e.Data))}, int(most-size())+len(e.Data))
	}
}

// mend replaces what stands for no character in JSON: bytes that are no UTF-8, and
// halves of surrogate pairs in escapes. JavaScript writes the latter of a text that
// was cut in the middle of a character.
func mend(data []byte) []byte {
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\ufffd"))
	}
	if !bytes.Contains(data, []byte(`\u`)) {
		return data
	}
	mended := data
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			continue
		}
		first := escaped(data[i:])
		switch {
		case !utf16.IsSurrogate(first):
			i++ // an escaped backslash begins no escape
		case utf16.DecodeRune(first, escaped(data[i+6:])) != utf8.RuneError:
			i += 11
		default:
			if &mended[0] == &data[0] {
				mended = bytes.Clone(data) // which is the sender's
			}
			copy(mended[i:], `\ufffd`)
			i += 5
		}
	}
	return mended
}

// escaped returns what an escape at the start of b stands for, 0 where there is
// none of four digits.
func escaped(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(n)
}

// deep reports whether more objects and lists stand in one another than may.
func deep(data []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// encode writes a value that came from JSON.
func encode(value any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(value) // what was read as JSON can be written
	return bytes.TrimRight(b.Bytes(), "\n")
}

// line makes one line of text that a sender wrote, and not too long a one.
func line(text string, most int) string {
	short := strings.Join(strings.Fields(cutText(text, 4*most)), " ")
	if len(short) > most {
		return cutText(short, most) + "…"
	}
	return short
}
