package ingest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// told is what a line tells.
type told struct {
	Scope, Name, ID, Text, Data string
	HasID, HasData, HasAt       bool
	At                          engine.Time
	Unknowns                    int
}

func tellsOf(d *decoder) told {
	return told{
		Scope: string(d.scope), Name: string(d.name), ID: string(d.id), Text: string(d.text), Data: string(d.data),
		HasID: d.has&fieldID != 0, HasData: d.has&fieldData != 0, HasAt: d.has&fieldAt != 0, At: d.at, Unknowns: d.unknowns,
	}
}

func nested(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func TestDecode_WhatIsKept(t *testing.T) {
	deep := nested(maxDepth - 1) // within the event's own object
	for _, c := range []struct {
		name, line string
		want       told
	}{
		{"all fields", `{"scope":"s","name":"n","id":"1","at":5,"data":{"a":1},"text":"t"}`, told{Scope: "s", Name: "n", ID: "1", HasID: true, HasAt: true, At: 5, Data: `{"a":1}`, HasData: true, Text: "t"}},
		{"nothing at all", `{}`, told{}},
		{"space everywhere", " { \"scope\" : \"s\" ,\t\"data\" : [ 1 , 2 ] } \r", told{Scope: "s", Data: "[ 1 , 2 ]", HasData: true}},
		{"escapes", `{"name":"\u0061\/\"\\\b\f\n\r\t","text":"\uD83D\ude00\u00e9\u00E9"}`, told{Name: "a/\"\\\b\f\n\r\t", Text: "😀éé"}},
		{"an escaped field name", `{"\u0069d":"1"}`, told{ID: "1", HasID: true}},
		{"text beyond ASCII", `{"scope":"日本語","text":"é😀"}`, told{Scope: "日本語", Text: "é😀"}},
		{"an empty text", `{"text":""}`, told{}},
		{"data that is null", `{"data":null}`, told{Data: "null", HasData: true}},
		{"data that is a word", `{"data":false}`, told{Data: "false", HasData: true}},
		{"data that is a string", `{"data":"a\u0000b"}`, told{Data: `"a\u0000b"`, HasData: true}},
		{"duplicate keys in data", `{"data":{"a":1,"a":2,"id":"x","id":"y"}}`, told{Data: `{"a":1,"a":2,"id":"x","id":"y"}`, HasData: true}},
		{"known names in data, in any case", `{"data":{"ID":1,"Scope":2}}`, told{Data: `{"ID":1,"Scope":2}`, HasData: true}},
		{"a number beyond float64 in data", `{"data":1e400}`, told{Data: "1e400", HasData: true}},
		{"a number of 23 digits in data", `{"data":12345678901234567890123}`, told{Data: "12345678901234567890123", HasData: true}},
		{"a long fraction in data", `{"data":-0.10000000000000000000001E-7}`, told{Data: "-0.10000000000000000000001E-7", HasData: true}},
		{"data as deep as may be", `{"data":` + deep + `}`, told{Data: deep, HasData: true}},
		{"unknown fields", `{"x":1,"y":{"z":[]},"x":2}`, told{Unknowns: 3}},
		{"milliseconds before 1970", `{"at":-1}`, told{At: -1, HasAt: true}},
		{"milliseconds: minus nothing", `{"at":-0}`, told{HasAt: true}},
		{"the last millisecond", `{"at":253402300799999}`, told{At: 253402300799999, HasAt: true}},
		{"the first millisecond", `{"at":-62167219200000}`, told{At: -62167219200000, HasAt: true}},
		{"RFC 3339", `{"at":"2026-01-31T12:00:00Z"}`, told{At: 1769860800000, HasAt: true}},
		{"RFC 3339 with a zone and a fraction", `{"at":"2026-01-31T13:30:00.123456789+01:30"}`, told{At: 1769860800123, HasAt: true}},
		{"RFC 3339 with an escape", `{"at":"2026-01-31T12:00:00\u005a"}`, told{At: 1769860800000, HasAt: true}},
		{"a scope of 512 bytes", `{"scope":"` + strings.Repeat("s", 512) + `"}`, told{Scope: strings.Repeat("s", 512)}},
		{"a name of 256 bytes", `{"name":"` + strings.Repeat("é", 128) + `"}`, told{Name: strings.Repeat("é", 128)}},
		{"an id of 256 bytes", `{"id":"` + strings.Repeat("i", 256) + `"}`, told{ID: strings.Repeat("i", 256), HasID: true}},
		{"control characters outside of scope", `{"name":"\u0007","id":"\u0000","text":"\u001b[0m"}`, told{Name: "\a", ID: "\x00", HasID: true, Text: "\x1b[0m"}},
		{"a field called none", `{"none":1}`, told{Unknowns: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d decoder
			if f := d.decode([]byte(c.line)); f != nil {
				t.Fatalf("refused: %s: %s", f.code, f)
			}
			if diff := cmp.Diff(c.want, tellsOf(&d)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecode_WhatIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, line string
		code       Code
		says       string // the whole message
	}{
		{"two objects", `{"name":"a"}{"name":"b"}`, CodeTwoValues, `column 13: a second value on the line: put each on a line of its own`},
		{"two objects with space", `{} {}`, CodeTwoValues, `column 4: a second value on the line: put each on a line of its own`},
		{"an object and a word", `{} true`, CodeSyntax, `column 4: 't' where the end of the line is expected`},
		{"an element of an array", `{},`, CodeSyntax, `column 3: a comma after the object: a line is no element of an array`},
		{"not JSON", `hello`, CodeSyntax, `column 1: 'h' where a value is expected`},
		{"half a word", `nul`, CodeIncomplete, `column 4: the line ends where the rest of null is expected: a line holds one whole object`},
		{"a wrong word", `trve`, CodeSyntax, `column 1: 't' where a value is expected`},
		{"nothing", ``, CodeIncomplete, `column 1: the line ends where a value is expected: a line holds one whole object`},
		{"an open object", `{`, CodeIncomplete, `column 2: the line ends where a field name in quotes is expected: a line holds one whole object`},
		{"an open string", `{"name":"a`, CodeIncomplete, `column 11: the line ends inside the string that opens at column 9: a line holds one whole object`},
		{"an open escape", `{"name":"a\`, CodeIncomplete, `column 12: the line ends where the rest of an escape is expected: a line holds one whole object`},
		{"an open \\u", `{"name":"\u00`, CodeIncomplete, `column 14: the line ends where a hexadecimal digit is expected: a line holds one whole object`},
		{"an open time", `{"at":"2026`, CodeIncomplete, `column 12: the line ends inside the string that opens at column 7: a line holds one whole object`},
		{"an open number", `{"at":-`, CodeIncomplete, `column 8: the line ends where a digit is expected: a line holds one whole object`},
		{"no value", `{"name":`, CodeIncomplete, `column 9: the line ends where a value is expected: a line holds one whole object`},
		{"no colon", `{"name"`, CodeIncomplete, `column 8: the line ends where a colon is expected: a line holds one whole object`},
		{"no comma", `{"name":"a" "id":"1"}`, CodeSyntax, `column 13: '"' where a comma or } is expected`},
		{"a comma too many", `{"name":"a",}`, CodeSyntax, `column 13: '}' where a field name in quotes is expected`},
		{"a comma too many in data", `{"data":[1,]}`, CodeSyntax, `column 12: ']' where a value is expected`},
		{"brackets that do not match", `{"data":[1}}`, CodeSyntax, `column 11: '}' where a comma or ] is expected`},
		{"single quotes", `{'name':'a'}`, CodeSyntax, `column 2: '\'' where a field name in quotes is expected`},
		{"a comment", `{/**/}`, CodeSyntax, `column 2: '/' where a field name in quotes is expected`},
		{"NaN", `{"data":NaN}`, CodeSyntax, `column 9: 'N' where a value is expected`},
		{"a leading zero", `{"data":01}`, CodeSyntax, `column 10: a number has no leading zeros`},
		{"a plus", `{"data":+1}`, CodeSyntax, `column 9: '+' where a value is expected`},
		{"no digit after the point", `{"data":1.}`, CodeSyntax, `column 11: '}' where a digit is expected`},
		{"no digit in the exponent", `{"data":1e+}`, CodeSyntax, `column 12: '}' where a digit is expected`},
		{"a hexadecimal number", `{"data":0x1}`, CodeSyntax, `column 10: 'x' where a comma or } is expected`},
		{"a tab in a string", "{\"name\":\"a\tb\"}", CodeSyntax, `column 11: control character 0x09 in a string: write it as \u0009`},
		{"a bad escape", `{"name":"\x41"}`, CodeSyntax, `column 11: 'x' where one of " \ / b f n r t u after a backslash is expected`},
		{"a bad \\u", `{"name":"\u00g1"}`, CodeSyntax, `column 14: 'g' where a hexadecimal digit is expected`},
		{"a byte order mark", "\xef\xbb\xbf{}", CodeSyntax, `column 1: a byte order mark may stand at the start of the body alone`},
		{"UTF-16", "\xff\xfe{\x00}\x00", CodeInvalidUTF8, `column 1: this looks like UTF-16: send UTF-8`},

		{"a bad \\u after half a pair", `{"text":"\ud800\u00zz"}`, CodeSyntax, `column 20: 'z' where a hexadecimal digit is expected`},
		{"no UTF-8 in text", "{\"text\":\"a\xff\"}", CodeInvalidUTF8, `column 11: byte 0xff in a string is not UTF-8: encode the text as UTF-8`},
		{"no UTF-8 in data", "{\"data\":{\"k\":\"\xc3\"}}", CodeInvalidUTF8, `column 15: byte 0xc3 in a string is not UTF-8: encode the text as UTF-8`},
		{"no UTF-8 in a key of data", "{\"data\":{\"\xe2\x82\":1}}", CodeInvalidUTF8, `column 11: byte 0xe2 in a string is not UTF-8: encode the text as UTF-8`},
		{"no UTF-8 in an unknown field", "{\"\x80\":1}", CodeInvalidUTF8, `column 3: byte 0x80 in a string is not UTF-8: encode the text as UTF-8`},
		{"a surrogate in UTF-8", "{\"text\":\"\xed\xa0\x80\"}", CodeInvalidUTF8, `column 10: byte 0xed in a string is not UTF-8: encode the text as UTF-8`},
		{"no UTF-8 outside of strings", "{\"name\":\"a\"\xa0}", CodeInvalidUTF8, `column 12: byte 0xa0 is not UTF-8`},
		{"a lone high surrogate", `{"text":"\ud800"}`, CodeLoneSurrogate, `column 10: \ud800 is half of a surrogate pair and stands for no character`},
		{"a lone low surrogate", `{"text":"a\udc00"}`, CodeLoneSurrogate, `column 11: \udc00 is half of a surrogate pair and stands for no character`},
		{"a pair the wrong way round", `{"text":"\udc00\ud800"}`, CodeLoneSurrogate, `column 10: \udc00 is half of a surrogate pair and stands for no character`},
		{"a lone surrogate in data", `{"data":["\ud800\u0041"]}`, CodeLoneSurrogate, `column 11: \ud800 is half of a surrogate pair and stands for no character`},

		{"an array", `[{}]`, CodeNotObject, `column 1: a line is one JSON object, and this is an array: send an array as application/json, or its elements line by line`},
		{"a string", ` "x"`, CodeNotObject, `column 2: a line is one JSON object, and this is a string`},
		{"a number", `-1.5e3`, CodeNotObject, `column 1: a line is one JSON object, and this is a number`},
		{"null", `null`, CodeNotObject, `column 1: a line is one JSON object, and this is null`},
		{"a boolean", `true`, CodeNotObject, `column 1: a line is one JSON object, and this is a boolean`},

		{"id twice", `{"id":"1","id":"1"}`, CodeDuplicateField, `column 11: field "id" stands twice: which one counts cannot be known`},
		{"id twice, once escaped", `{"id":"1","\u0069d":"2"}`, CodeDuplicateField, `column 11: field "id" stands twice: which one counts cannot be known`},
		{"data twice", `{"data":1,"data":2}`, CodeDuplicateField, `column 11: field "data" stands twice: which one counts cannot be known`},
		{"ID", `{"ID":"1"}`, CodeFieldCase, `column 2: field "ID": write it as "id"`},
		{"Scope beside scope", `{"scope":"s","Scope":"t"}`, CodeFieldCase, `column 14: field "Scope": write it as "scope"`},
		{"a long s that folds", `{"ſcope":"s"}`, CodeFieldCase, `column 2: field "ſcope": write it as "scope"`},
		{"id null", `{"id":null}`, CodeWrongType, `column 7: field "id" is null: it must be a string, or be left out`},
		{"id a number", `{"id":12}`, CodeWrongType, `column 7: field "id" is a number: it must be a string, or be left out`},
		{"scope an object", `{"scope":{}}`, CodeWrongType, `column 10: field "scope" is an object: it must be a string, or be left out`},
		{"name an array", `{"name":[]}`, CodeWrongType, `column 9: field "name" is an array: it must be a string, or be left out`},
		{"text a boolean", `{"text":true}`, CodeWrongType, `column 9: field "text" is a boolean: it must be a string, or be left out`},
		{"at a boolean", `{"at":false}`, CodeWrongType, `column 7: field "at" is a boolean: it must be Unix milliseconds or an RFC 3339 string, or be left out`},
		{"at null", `{"at":null}`, CodeWrongType, `column 7: field "at" is null: it must be Unix milliseconds or an RFC 3339 string, or be left out`},
		{"an empty id", `{"id":""}`, CodeEmptyField, `column 7: field "id" is empty: give 1 to 256 bytes, or leave it out`},
		{"an empty scope", `{"scope":""}`, CodeEmptyField, `column 10: field "scope" is empty: give 1 to 512 bytes`},
		{"an empty name", `{"name":""}`, CodeEmptyField, `column 9: field "name" is empty: give 1 to 256 bytes`},
		{"a scope of 513 bytes", `{"scope":"` + strings.Repeat("s", 513) + `"}`, CodeTooLong, `column 10: field "scope" has 513 bytes: at most 512`},
		{"a name of 258 bytes", `{"name":"` + strings.Repeat("é", 129) + `"}`, CodeTooLong, `column 9: field "name" has 258 bytes: at most 256`},
		{"an id of 257 bytes", `{"id":"` + strings.Repeat("i", 257) + `"}`, CodeTooLong, `column 7: field "id" has 257 bytes: at most 256`},
		{"a newline in scope", `{"scope":"a\nb"}`, CodeControl, `column 10: field "scope" holds the control character U+000A: leave it out`},
		{"DEL in scope", "{\"scope\":\"\x7f\"}", CodeControl, `column 10: field "scope" holds the control character U+007F: leave it out`},
		{"a C1 control in scope", `{"scope":"é\u0085"}`, CodeControl, `column 10: field "scope" holds the control character U+0085: leave it out`},
		{"at a fraction", `{"at":1.5}`, CodeBadTime, `column 7: field "at" is no whole number: write Unix milliseconds without fraction or exponent`},
		{"at an exponent", `{"at":1e3}`, CodeBadTime, `column 7: field "at" is no whole number: write Unix milliseconds without fraction or exponent`},
		{"at in microseconds", `{"at":1769860800000000}`, CodeBadTime, `column 7: field "at" is not in the years 0 to 9999: write Unix milliseconds, not micro- or nanoseconds`},
		{"at beyond int64", `{"at":-99999999999999999999999999}`, CodeBadTime, `column 7: field "at" is not in the years 0 to 9999: write Unix milliseconds, not micro- or nanoseconds`},
		{"at a date", `{"at":"2026-01-31"}`, CodeBadTime, `column 7: field "at" is no RFC 3339 time: write it as "2026-01-31T12:00:00Z", or as Unix milliseconds`},
		{"at with a short hour", `{"at":"2026-01-31T1:00:00Z"}`, CodeBadTime, `column 7: field "at" is no RFC 3339 time: write it as "2026-01-31T12:00:00Z", or as Unix milliseconds`},
		{"at with a comma", `{"at":"2026-01-31T12:00:00,5Z"}`, CodeBadTime, `column 7: field "at" is no RFC 3339 time: write it as "2026-01-31T12:00:00Z", or as Unix milliseconds`},
		{"at in a zone of a day", `{"at":"2026-01-31T12:00:00+24:00"}`, CodeBadTime, `column 7: field "at" is no RFC 3339 time: write it as "2026-01-31T12:00:00Z", or as Unix milliseconds`},
		{"at in a zone with 60 minutes", `{"at":"2026-01-31T12:00:00-01:60"}`, CodeBadTime, `column 7: field "at" is no RFC 3339 time: write it as "2026-01-31T12:00:00Z", or as Unix milliseconds`},
		{"at without a zone", `{"at":"2026-01-31T12:00:00"}`, CodeBadTime, `column 7: field "at" is no RFC 3339 time: write it as "2026-01-31T12:00:00Z", or as Unix milliseconds`},
		{"at on the 30th of February", `{"at":"2026-02-30T12:00:00Z"}`, CodeBadTime, `column 7: field "at" is no RFC 3339 time: write it as "2026-01-31T12:00:00Z", or as Unix milliseconds`},
		{"at an empty string", `{"at":""}`, CodeBadTime, `column 7: field "at" is no RFC 3339 time: write it as "2026-01-31T12:00:00Z", or as Unix milliseconds`},

		{"data one too deep", `{"data":` + nested(maxDepth) + `}`, CodeTooDeep, `column 520: more than 512 objects and arrays in one another`},
		{"objects too deep", strings.Repeat(`{"data":`, maxDepth+1), CodeTooDeep, `column 4097: more than 512 objects and arrays in one another`},
		{"an array too deep", nested(maxDepth + 1), CodeTooDeep, `column 513: more than 512 objects and arrays in one another`},

		{"the first of two faults", `{"id":"","name":""}`, CodeEmptyField, `column 7: field "id" is empty: give 1 to 256 bytes, or leave it out`},
		{"what is no JSON goes first", `{"id":"","name":}`, CodeSyntax, `column 17: '}' where a value is expected`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d decoder
			f := d.decode([]byte(c.line))
			if f == nil {
				t.Fatalf("kept: %+v", tellsOf(&d))
			}
			if f.code != c.code || f.String() != c.says {
				t.Errorf("got  %s: %s\nwant %s: %s", f.code, f, c.code, c.says)
			}
		})
	}
}

// The rows of the corner cases on which decoders are known to differ.
func TestDecode_CornerCases(t *testing.T) {
	for _, c := range []struct {
		name, line string
		code       Code // "" when the line is kept
	}{
		{"duplicate top key", `{"name":"a","name":"b"}`, CodeDuplicateField},
		{"duplicate key in data", `{"data":{"a":1,"a":2}}`, ""},
		{"ID for id", `{"ID":"1"}`, CodeFieldCase},
		{"bad UTF-8 in text", "{\"text\":\"\xff\"}", CodeInvalidUTF8},
		{"bad UTF-8 in data", "{\"data\":\"\xff\"}", CodeInvalidUTF8},
		{"lone surrogate", `{"text":"\ud800"}`, CodeLoneSurrogate},
		{"1e400 in data", `{"data":1e400}`, ""},
		{"23-digit integer", `{"data":12345678901234567890123}`, ""},
		{"leading zero", `{"data":007}`, CodeSyntax},
		{"control character", "{\"text\":\"\x01\"}", CodeSyntax},
		{"bad escape", `{"text":"\q"}`, CodeSyntax},
		{"trailing junk", `{"text":"a"} junk`, CodeSyntax},
		{"trailing value", `{"text":"a"} {"text":"b"}`, CodeTwoValues},
		{"id null", `{"id":null}`, CodeWrongType},
		{"depth 1000", `{"data":` + nested(1000) + `}`, CodeTooDeep},
		{"depth 9990", `{"data":` + nested(9990) + `}`, CodeTooDeep},
		{"depth 100k", `{"data":` + nested(100000) + `}`, CodeTooDeep},
	} {
		t.Run(c.name, func(t *testing.T) {
			var d decoder
			var got Code
			if f := d.decode([]byte(c.line)); f != nil {
				got = f.code
			}
			if got != c.code {
				t.Errorf("got %q, want %q", got, c.code)
			}
		})
	}
}

func TestDecode_AgainCarriesNothingOver(t *testing.T) {
	var d decoder
	if f := d.decode([]byte(`{"scope":"\u0061","name":"n","id":"1","at":5,"data":1,"text":"t","x":1}`)); f != nil {
		t.Fatal(f)
	}
	if f := d.decode([]byte(`{"id":""}`)); f == nil {
		t.Fatal("kept an empty id")
	}
	if f := d.decode([]byte(`{}`)); f != nil {
		t.Fatalf("refused: %s", f)
	}
	if diff := cmp.Diff(told{}, tellsOf(&d)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
