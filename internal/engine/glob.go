package engine

import "unicode/utf8"

// Glob reports whether name matches pattern as a whole. In a pattern * is any
// run of characters, dots and slashes too, ? is one character, \ makes the
// next character literal (at the end it stands for itself); nothing else is
// special.
func Glob(pattern, name string) bool {
	p, n := 0, 0
	starP, starN := -1, 0
	for n < len(name) {
		if p < len(pattern) && pattern[p] == '*' {
			starP, starN = p, n
			p++
			if size, last := lastPart(pattern[p:]); last {
				return endsWith(pattern[p:], name[n:], size)
			}
			continue
		}
		if step, ok := globOne(pattern[p:], name[n:]); ok {
			_, size := utf8.DecodeRuneInString(name[n:])
			p += step
			n += size
			continue
		}
		if starP < 0 {
			return false
		}
		// Let the last star take one character more.
		_, size := utf8.DecodeRuneInString(name[starN:])
		starN += size
		p, n = starP+1, starN
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// lastPart counts the characters that a part of a pattern stands for; last is
// false when a star follows.
func lastPart(part string) (size int, last bool) {
	for i := 0; i < len(part); size++ {
		if part[i] == '*' {
			return 0, false
		}
		if part[i] == '\\' && i+1 < len(part) {
			i++
		}
		_, width := utf8.DecodeRuneInString(part[i:])
		i += width
	}
	return size, true
}

// endsWith matches what stands behind the last star against the end of a name.
// There is one place for it: to try every other would take a long pattern's
// length times a long name's.
func endsWith(part, name string, size int) bool {
	at := len(name)
	for range size {
		if at == 0 {
			return false
		}
		_, width := utf8.DecodeLastRuneInString(name[:at])
		at -= width
	}
	for at < len(name) {
		step, ok := globOne(part, name[at:])
		if !ok {
			return false
		}
		_, width := utf8.DecodeRuneInString(name[at:])
		part, at = part[step:], at+width
	}
	return part == ""
}

// globOne matches one pattern element other than * against one character and
// returns the element's length in bytes.
func globOne(pattern, name string) (int, bool) {
	if pattern == "" {
		return 0, false
	}
	if pattern[0] == '?' {
		return 1, true
	}
	at := 0
	if pattern[0] == '\\' && len(pattern) > 1 {
		at = 1
	}
	_, size := utf8.DecodeRuneInString(pattern[at:])
	_, nameSize := utf8.DecodeRuneInString(name)
	return at + size, pattern[at:at+size] == name[:nameSize]
}

// literalPrefix unescapes the pattern up to its first * or ?; whole is true
// when there is none, and the prefix is then the only name that matches.
func literalPrefix(pattern string) (prefix string, whole bool) {
	var b []byte
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*' || c == '?':
			return string(b), false
		case c == '\\' && i+1 < len(pattern):
			i++
			b = append(b, pattern[i])
		default:
			b = append(b, c)
		}
	}
	return string(b), true
}
