package ingest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is how many objects and arrays may stand in one another, the
// event's own object included. Readers in other languages recurse and have
// limits not far above.
const maxDepth = 512

// scanner walks over JSON (RFC 8259) strictly, without building anything. Its
// methods return false once the bytes are not JSON; hard then says why. What
// is wrong inside a string (bytes that are no UTF-8, half a surrogate pair)
// leaves the structure readable: the first such fault is kept in soft, and the
// scan goes on.
type scanner struct {
	b    []byte
	i    int
	hard *fault
	soft *fault

	scratch []byte // holds the strings that were unescaped
}

func (s *scanner) reset(b []byte) {
	s.b, s.i, s.hard, s.soft, s.scratch = b, 0, nil, nil, s.scratch[:0]
}

// fail ends the scan.
func (s *scanner) fail(code Code, at int, text string) bool {
	s.hard = &fault{code: code, column: at + 1, text: text, framing: true}
	return false
}

// note keeps a fault that does not end the scan.
func (s *scanner) note(code Code, at int, text string) {
	if s.soft == nil {
		s.soft = &fault{code: code, column: at + 1, text: text}
	}
}

// unexpected ends the scan at the current byte, or at the end of the bytes.
func (s *scanner) unexpected(want string) bool {
	if s.i >= len(s.b) {
		return s.fail(CodeIncomplete, s.i, "the line ends where "+want+" is expected: a line holds one whole object")
	}
	r, size := utf8.DecodeRune(s.b[s.i:])
	switch {
	case r == utf8.RuneError && size == 1 && s.i == 0 && s.b[0] >= 0xfe:
		return s.fail(CodeInvalidUTF8, s.i, "this looks like UTF-16: send UTF-8")
	case r == utf8.RuneError && size == 1:
		return s.fail(CodeInvalidUTF8, s.i, fmt.Sprintf("byte 0x%02x is not UTF-8", s.b[s.i]))
	case r == '\ufeff':
		return s.fail(CodeSyntax, s.i, "a byte order mark may stand at the start of the body alone")
	default:
		return s.fail(CodeSyntax, s.i, fmt.Sprintf("%q where %s is expected", r, want))
	}
}

func (s *scanner) space() {
	for s.i < len(s.b) && blank(s.b[s.i]) {
		s.i++
	}
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// sees reports whether the next byte is c.
func (s *scanner) sees(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

// value passes over one value, which stands at the given depth.
func (s *scanner) value(depth int) bool {
	if s.i >= len(s.b) {
		return s.unexpected("a value")
	}
	switch c := s.b[s.i]; {
	case c == '"':
		_, _, ok := s.str()
		return ok
	case c == '{':
		return s.object(depth)
	case c == '[':
		return s.array(depth)
	case c == '-' || '0' <= c && c <= '9':
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	default:
		return s.unexpected("a value")
	}
}

func (s *scanner) deeper(depth int) bool {
	if depth > maxDepth {
		return s.fail(CodeTooDeep, s.i, fmt.Sprintf("more than %d objects and arrays in one another", maxDepth))
	}
	s.i++
	s.space()
	return true
}

func (s *scanner) object(depth int) bool {
	if !s.deeper(depth) {
		return false
	}
	if s.sees('}') {
		s.i++
		return true
	}
	for {
		if !s.sees('"') {
			return s.unexpected("a field name in quotes")
		}
		if _, _, ok := s.str(); !ok || !s.colon() || !s.value(depth+1) {
			return false
		}
		if more, ok := s.next('}'); !more {
			return ok
		}
	}
}

func (s *scanner) array(depth int) bool {
	if !s.deeper(depth) {
		return false
	}
	if s.sees(']') {
		s.i++
		return true
	}
	for {
		if !s.value(depth + 1) {
			return false
		}
		if more, ok := s.next(']'); !more {
			return ok
		}
	}
}

// colon passes over the colon of a field and the space around it.
func (s *scanner) colon() bool {
	s.space()
	if !s.sees(':') {
		return s.unexpected("a colon")
	}
	s.i++
	s.space()
	return true
}

// next passes over a comma, and more is true, or over the bracket that closes.
func (s *scanner) next(closing byte) (more, ok bool) {
	s.space()
	switch {
	case s.sees(','):
		s.i++
		s.space()
		return true, true
	case s.sees(closing):
		s.i++
		return false, true
	default:
		return false, s.unexpected("a comma or " + string(rune(closing)))
	}
}

func (s *scanner) literal(word string) bool {
	start := s.i
	for k := range len(word) {
		if s.i >= len(s.b) {
			return s.unexpected("the rest of " + word)
		}
		if s.b[s.i] != word[k] {
			s.i = start
			return s.unexpected("a value")
		}
		s.i++
	}
	return true
}

func (s *scanner) number() bool {
	if s.sees('-') {
		s.i++
	}
	if s.sees('0') {
		s.i++
		if s.i < len(s.b) && digit(s.b[s.i]) {
			return s.fail(CodeSyntax, s.i, "a number has no leading zeros")
		}
	} else if !s.digits() {
		return false
	}
	if s.sees('.') {
		s.i++
		if !s.digits() {
			return false
		}
	}
	if s.sees('e') || s.sees('E') {
		s.i++
		if s.sees('+') || s.sees('-') {
			s.i++
		}
		return s.digits()
	}
	return true
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// digits passes over one digit or more.
func (s *scanner) digits() bool {
	start := s.i
	for s.i < len(s.b) && digit(s.b[s.i]) {
		s.i++
	}
	if s.i == start {
		return s.unexpected("a digit")
	}
	return true
}

// str passes over a string and returns what stands between the quotes, still
// escaped.
func (s *scanner) str() (raw []byte, escaped, ok bool) {
	open := s.i
	s.i++
	for {
		s.plain()
		if s.i >= len(s.b) {
			s.fail(CodeIncomplete, s.i, fmt.Sprintf("the line ends inside the string that opens at column %d: a line holds one whole object", open+1))
			return nil, false, false
		}
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[open+1 : s.i-1], escaped, true
		case c == '\\':
			escaped = true
			if !s.escape() {
				return nil, false, false
			}
		case c < 0x20:
			s.fail(CodeSyntax, s.i, fmt.Sprintf("control character 0x%02x in a string: write it as \\u%04x", c, c))
			return nil, false, false
		default:
			r, size := utf8.DecodeRune(s.b[s.i:])
			if r == utf8.RuneError && size == 1 {
				s.note(CodeInvalidUTF8, s.i, fmt.Sprintf("byte 0x%02x in a string is not UTF-8: encode the text as UTF-8", c))
			}
			s.i += size
		}
	}
}

// plain passes over the characters of a string that stand for themselves and
// are one byte long: all but quotes, backslashes, control characters and what
// is not ASCII. It looks at eight bytes at once; most of a body goes by here.
func (s *scanner) plain() {
	const (
		low  = 0x0101010101010101
		high = 0x8080808080808080
	)
	b, i := s.b, s.i
	for ; i+8 <= len(b); i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		// A byte's high bit ends up set where the byte is not plain. A borrow
		// can only falsify bytes above the first of these.
		stop := (x | (x - 0x20*low) | ((x ^ '"'*low) - low) | ((x ^ '\\'*low) - low)) & high
		if stop != 0 {
			s.i = i + bits.TrailingZeros64(stop)/8
			return
		}
	}
	for i < len(b) && b[i] >= 0x20 && b[i] != '"' && b[i] != '\\' && b[i] < utf8.RuneSelf {
		i++
	}
	s.i = i
}

// escape passes over a backslash and what it escapes.
func (s *scanner) escape() bool {
	start := s.i
	s.i++
	if s.i >= len(s.b) {
		return s.unexpected("the rest of an escape")
	}
	switch s.b[s.i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return true
	case 'u':
		s.i++
	default:
		return s.unexpected(`one of " \ / b f n r t u after a backslash`)
	}
	first, ok := s.hex4()
	if !ok {
		return false
	}
	if !utf16.IsSurrogate(first) {
		return true
	}
	// A pair is one character. What follows half a pair is scanned on its own.
	if rest := s.b[s.i:]; len(rest) >= 6 && rest[0] == '\\' && rest[1] == 'u' {
		if second, whole := hex4(rest[2:6]); whole && utf16.DecodeRune(first, second) != utf8.RuneError {
			s.i += 6
			return true
		}
	}
	s.note(CodeLoneSurrogate, start, fmt.Sprintf(`\u%04x is half of a surrogate pair and stands for no character`, first))
	return true
}

func (s *scanner) hex4() (rune, bool) {
	for k := range 4 {
		if s.i+k >= len(s.b) || hexDigit(s.b[s.i+k]) < 0 {
			s.i += k
			return 0, s.unexpected("a hexadecimal digit")
		}
	}
	r, _ := hex4(s.b[s.i : s.i+4])
	s.i += 4
	return r, true
}

// hex4 reads four hexadecimal digits.
func hex4(b []byte) (r rune, ok bool) {
	for _, c := range b[:4] {
		d := hexDigit(c)
		if d < 0 {
			return 0, false
		}
		r = r<<4 | d
	}
	return r, true
}

func hexDigit(c byte) rune {
	switch {
	case digit(c):
		return rune(c - '0')
	case 'a' <= c && c <= 'f':
		return rune(c - 'a' + 10)
	case 'A' <= c && c <= 'F':
		return rune(c - 'A' + 10)
	default:
		return -1
	}
}

// unescape returns the text of a string that str has passed over. The result
// is good until the next reset. Half a surrogate pair becomes U+FFFD; such a
// line is refused anyway.
func (s *scanner) unescape(raw []byte) []byte {
	start := len(s.scratch)
	for i := 0; i < len(raw); {
		run := bytes.IndexByte(raw[i:], '\\')
		if run < 0 {
			s.scratch = append(s.scratch, raw[i:]...)
			break
		}
		s.scratch = append(s.scratch, raw[i:i+run]...)
		i += run + 2
		switch c := raw[i-1]; c {
		case 'b':
			s.scratch = append(s.scratch, '\b')
		case 'f':
			s.scratch = append(s.scratch, '\f')
		case 'n':
			s.scratch = append(s.scratch, '\n')
		case 'r':
			s.scratch = append(s.scratch, '\r')
		case 't':
			s.scratch = append(s.scratch, '\t')
		case 'u':
			r, _ := hex4(raw[i:])
			i += 4
			if utf16.IsSurrogate(r) && len(raw)-i >= 6 && raw[i] == '\\' && raw[i+1] == 'u' {
				if low, ok := hex4(raw[i+2:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
					r = utf16.DecodeRune(r, low)
					i += 6
				}
			}
			s.scratch = utf8.AppendRune(s.scratch, r)
		default: // " \ /
			s.scratch = append(s.scratch, c)
		}
	}
	return s.scratch[start:len(s.scratch):len(s.scratch)]
}
