package field

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"pgregory.net/rapid"
)

func TestTrim_AsJavaScriptDoes(t *testing.T) {
	t.Parallel()
	for _, r := range "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff" {
		if got := trim(string(r) + "x" + string(r)); got != "x" {
			t.Errorf("%U is not trimmed: %q", r, got)
		}
	}
	for _, r := range "\u0085\u180e\u200b\u2060\u0000\u001c" {
		if s := string(r) + "x"; trim(s) != s {
			t.Errorf("%U is trimmed", r)
		}
	}
}

func TestUnits_AndTheirOrder(t *testing.T) {
	t.Parallel()
	char := rapid.RuneFrom([]rune("aBé_9.\\\uD7FF\uE000\uFFFD\uFFFF😀\U00010000\U0010FFFF"))
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.StringOf(char).Draw(t, "a"), rapid.StringOf(char).Draw(t, "b")
		x, y := utf16.Encode([]rune(a)), utf16.Encode([]rune(b))
		if units(a) != len(x) {
			t.Fatalf("%q has %d units, counted %d", a, len(x), units(a))
		}
		if got, want := sign(compareUnits(a, b)), slices.Compare(x, y); got != want {
			t.Fatalf("%q and %q: %d, want %d", a, b, got, want)
		}
	})
}

func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	default:
		return 0
	}
}

func TestFixed2(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]string{
		0: "0.00", 0.125: "0.13", 0.375: "0.38", 0.625: "0.63", 0.875: "0.88", 1: "1.00",
		0.075: "0.07", 0.6: "0.60", 0.2: "0.20", 0.05: "0.05", 0.115: "0.12", 0.145: "0.14",
		0.11249999999999999: "0.11", 0.12499999999999999: "0.12", 0.004: "0.00", 0.0015151515151515082: "0.00",
	} {
		if got := fixed2(x); got != want {
			t.Errorf("%v: %s, want %s", x, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	for text, want := range map[string]string{ //arch:sorted each by itself
		"Lead market-analyst, Market": "lead market analyst",
		"İstanbul ΣΊΣΥΦΟΣ":            "istanbul σίσυφοσ", // a character each: no combining dot, no final sigma
		" — ":                         "",
	} {
		if got := strings.Join(tokens(text), " "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// What is read off the raw text is what a decoder makes of it.
func TestValue_AsADecoderReadsIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		raw := drawJSON(3).Draw(t, "json")
		if !json.Valid([]byte(raw)) {
			t.Fatalf("drawn: %s", raw)
		}
		var want any
		decodable := json.Unmarshal([]byte(raw), &want) == nil // not so numbers beyond range
		if decodable && !sameValue(valueOf(raw), want) {
			t.Fatalf("%s: %+v", raw, valueOf(raw))
		}
	})
}

// sameValue compares a value with what encoding/json made of the same text.
func sameValue(v value, want any) bool {
	switch want := want.(type) {
	case nil:
		return v == value{kind: kindNull}
	case bool:
		return v.kind == kindBool && (v.num == 1) == want
	case float64:
		return v.kind == kindNumber && v.num == want
	case string:
		return v == value{kind: kindString, text: want}
	case []any:
		return v.kind == kindArray
	case map[string]any:
		got := sortedMembers(v.text)
		if v.kind != kindObject || len(got) != len(want) {
			return false
		}
		for _, m := range got {
			inner, ok := want[m.key]
			if !ok || !sameValue(m.value, inner) || !sameValue(lookup(v.text, m.key), inner) {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// drawJSON draws JSON as people write it: with space, escapes and keys twice.
func drawJSON(depth int) *rapid.Generator[string] {
	space := rapid.SampledFrom([]string{"", "", "", " ", "\n\t", "\r "})
	text := rapid.SampledFrom([]string{
		`"a"`, `"b"`, `"topic"`, `"\u0061"`, `""`, `"\"}"`, `"\\"`, `"a\\\"]"`, `"é😀"`, `"\ud83d\ude00"`, `"\ud800"`, `"a.b"`, `"{"`, `"[,:"`,
	})
	leaf := rapid.OneOf(text, rapid.SampledFrom([]string{"0", "-0", "1", "1.0", "1e3", "-2.5E-1", "1e999", "9007199254740993", "true", "false", "null"}))
	if depth == 0 {
		return leaf
	}
	return rapid.Custom(func(t *rapid.T) string {
		inner := drawJSON(depth - 1)
		s := func() string { return space.Draw(t, "space") }
		parts := make([]string, rapid.IntRange(0, 4).Draw(t, "members"))
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			return leaf.Draw(t, "leaf")
		case 1:
			for i := range parts {
				parts[i] = s() + inner.Draw(t, "item") + s()
			}
			return "[" + s() + strings.Join(parts, ",") + "]"
		default:
			for i := range parts {
				parts[i] = s() + text.Draw(t, "key") + s() + ":" + s() + inner.Draw(t, "value") + s()
			}
			return "{" + s() + strings.Join(parts, ",") + "}"
		}
	})
}

func TestTopic(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]string{
		`{"topic":"reef"}`: "reef", `{"topic":"r\u0065ef"}`: "reef", `{"topic":""}`: "", `{"topic":5.0}`: "5", `{"topic":1e21}`: "1e+21",
		`{"topic":1e999}`: "+Inf", `{"topic":-0}`: "0", `{"topic":true}`: "true", `{"topic":false}`: "false", `{"topic":null}`: "null",
		`{"topic":{}}`: "", `{"topic":["reef"]}`: "", `{}`: "", ``: "", `{"topic":1,"topic":"reef"}`: "reef",
	} {
		if got := Topic(json.RawMessage(payload)); got != want {
			t.Errorf("%s: %q, want %q", payload, got, want)
		}
	}
}
