package field

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"
)

// JSON allows more than a Field can keep and compare. What it refuses of the
// content of an entry or a query is found here.

const halfPair = `half of a surrogate pair, as "\ud800" alone: it stands for no character`

// flaw says what is wrong with an object by the name of what, in the text of
// valid JSON; "" for nothing.
func flaw(what, object string) string {
	l := &looker{}
	path, why := l.look(object, 1)
	if why == "" && l.keys > MaxKeys {
		why = fmt.Sprintf("has %d keys, those of objects within it too: at most %d", l.keys, MaxKeys)
	}
	if why == "" {
		return ""
	}
	if path = strings.TrimPrefix(path, "."); path != "" {
		what = shortened(path) + " of " + what
	}
	return what + " " + why
}

// looker looks through a value.
type looker struct {
	lists int // that it is within
	keys  int // of the objects that are compared
}

// look returns the first flaw, and the path that leads there from the value.
func (l *looker) look(raw string, level int) (path, why string) {
	switch raw[0] {
	case '"':
		if half(raw) {
			return "", "holds " + halfPair
		}
		return "", ""
	case '{', '[':
		if level > MaxLevels {
			return "", fmt.Sprintf("is an object or list at level %d: at most %d", level, MaxLevels)
		}
		if raw[0] == '{' {
			return l.object(raw, level)
		}
		l.lists++
		defer func() { l.lists-- }()
		i := 0
		for element := range elements(raw) {
			if path, why = l.look(element, level+1); why != "" {
				return "[" + strconv.Itoa(i) + "]" + path, why
			}
			i++
		}
		return "", ""
	}
	if v := valueOf(raw); math.IsInf(v.num, 0) {
		return "", "is " + shortened(raw) + ": a number so large cannot be compared; write it as a text"
	}
	return "", ""
}

func (l *looker) object(raw string, level int) (path, why string) {
	for key, value := range rawMembers(raw) {
		if half(key) {
			return "", "has a key that holds " + halfPair
		}
		if l.lists == 0 {
			l.keys++
		}
		if path, why = l.look(value, level+1); why != "" {
			return "." + pathKey(shortened(unquote(key))) + path, why
		}
	}
	return "", ""
}

// elements gives the JSON of a list's elements.
func elements(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		i := skipSpace(list, 1)
		for i < len(list) && list[i] != ']' {
			end := skipValue(list, i)
			if !yield(list[i:end]) {
				return
			}
			if i = skipSpace(list, end); i < len(list) && list[i] == ',' {
				i = skipSpace(list, i+1)
			}
		}
	}
}

// Text reads a JSON string among parameters. Without ok it is none, or it holds
// half of a surrogate pair, which no text of a Field may.
func Text(raw json.RawMessage) (text string, ok bool) {
	if len(raw) < 2 || raw[0] != '"' || half(string(raw)) || !json.Valid(raw) {
		return "", false
	}
	return unquote(string(raw)), true
}

// half reports whether a text of JSON escapes half of a surrogate pair alone.
// Decoders put U+FFFD in its place, and so make one of what differs.
func half(raw string) bool {
	for i := strings.IndexByte(raw, '\\'); i >= 0 && i < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		first, ok := escaped(raw, i)
		if i++; !ok {
			continue // another escape: what follows the backslash is passed over
		}
		i += 4
		if first < 0xD800 || first > 0xDFFF {
			continue
		}
		second, ok := escaped(raw, i+1)
		if first >= 0xDC00 || !ok || second < 0xDC00 || second > 0xDFFF {
			return true
		}
		i += 6
	}
	return false
}

// escaped returns the UTF-16 unit of the escape \uXXXX that stands at i.
func escaped(raw string, i int) (unit uint64, ok bool) {
	if i+6 > len(raw) || raw[i] != '\\' || raw[i+1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(raw[i+2:i+6], 16, 16)
	return unit, err == nil
}
