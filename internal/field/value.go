package field

import (
	"encoding/json"
	"iter"
	"strconv"
	"strings"
)

// Payloads stay the JSON that came. What is here reads them where they lie:
// the text must be valid JSON, as everything is that has passed the door. Of
// keys that stand twice in one object the last counts, as in JSON.parse.

type valueKind uint8

const (
	kindNone valueKind = iota
	kindNull
	kindBool
	kindNumber
	kindString
	kindObject
	kindArray
	kindBroken // of a parameter: a string that holds half of a surrogate pair
)

// value is a JSON value for comparison: primitives are strictly equal exactly
// when they are ==. Numbers are doubles, so 1 is 1.0, and 0 is -0.
type value struct {
	kind valueKind
	num  float64 // of numbers, and 1 for true
	text string  // of strings, decoded; of objects and arrays, the JSON
}

func (v value) primitive() bool { return v.kind >= kindNull && v.kind <= kindString }

// valueOf reads one JSON value, without space around it.
func valueOf(raw string) value {
	switch raw[0] {
	case '{':
		return value{kind: kindObject, text: raw}
	case '[':
		return value{kind: kindArray, text: raw}
	case '"':
		return value{kind: kindString, text: unquote(raw)}
	case 't':
		return value{kind: kindBool, num: 1}
	case 'f':
		return value{kind: kindBool}
	case 'n':
		return value{kind: kindNull}
	default:
		num, _ := strconv.ParseFloat(raw, 64) // beyond range: infinite, as in JSON.parse
		if num == 0 {
			num = 0 // without a sign
		}
		return value{kind: kindNumber, num: num}
	}
}

// unquote decodes a JSON string. Without escapes it is a part of raw.
func unquote(raw string) string {
	inner := raw[1 : len(raw)-1]
	if strings.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if err := json.Unmarshal([]byte(raw), &s); err != nil {
		return inner // not reached: the text is valid
	}
	return s
}

// members gives an object's keys, decoded, and the JSON of their values, in
// the order in which they stand.
func members(object string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for key, value := range rawMembers(object) {
			if !yield(unquote(key), value) {
				return
			}
		}
	}
}

// rawMembers gives the same with the keys as they are written.
func rawMembers(object string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		i := skipSpace(object, 1)
		for i < len(object) && object[i] != '}' {
			end := skipValue(object, i)
			key := object[i:end]
			i = skipSpace(object, skipSpace(object, end)+1) // the colon
			end = skipValue(object, i)
			if !yield(key, object[i:end]) {
				return
			}
			if i = skipSpace(object, end); i < len(object) && object[i] == ',' {
				i = skipSpace(object, i+1)
			}
		}
	}
}

// ValueAt returns the JSON to which keys lead from an Entry's payload, nil where
// there is none.
func ValueAt(payload json.RawMessage, keys ...string) json.RawMessage {
	at := string(payload)
	for _, key := range keys {
		if !isObject(at) {
			return nil
		}
		if at = find(at, key); at == "" {
			return nil
		}
	}
	return json.RawMessage(at)
}

// lookup returns the value of a key, or one of kindNone.
func lookup(object, key string) value {
	found := find(object, key)
	if found == "" {
		return value{}
	}
	return valueOf(found)
}

// find returns the JSON of a key's value, or "".
func find(object, key string) (found string) {
	for k, raw := range members(object) {
		if k == key {
			found = raw
		}
	}
	return found
}

func skipSpace(s string, i int) int {
	for i < len(s) && (s[i] == ' ' || s[i] == '\n' || s[i] == '\t' || s[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns where the value ends that starts at i.
func skipValue(s string, i int) int {
	switch s[i] {
	case '"':
		return skipString(s, i)
	case '{', '[':
		depth := 0
		for i < len(s) {
			switch s[i] {
			case '"':
				i = skipString(s, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				depth--
			}
			if i++; depth == 0 {
				return i
			}
		}
		return i
	default:
		for i < len(s) && strings.IndexByte(",}] \n\t\r", s[i]) < 0 {
			i++
		}
		return i
	}
}

func skipString(s string, i int) int {
	for i++; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// String is a primitive as text: a string as it is, another as its JSON. An
// object or array is "".
func (v value) String() string {
	switch v.kind {
	case kindString:
		return v.text
	case kindNumber:
		if b, err := json.Marshal(v.num); err == nil {
			return string(b)
		}
		return strconv.FormatFloat(v.num, 'g', -1, 64) // infinite
	case kindBool:
		return strconv.FormatBool(v.num == 1)
	case kindNull:
		return "null"
	default:
		return ""
	}
}

// Topic returns the topic of an Entry's payload as text, for names and
// messages; "" when it has none, or one that no entry can share.
func Topic(payload json.RawMessage) string { return topicOf(payload).String() }

func isObject(text string) bool { return len(text) > 1 && text[0] == '{' }
