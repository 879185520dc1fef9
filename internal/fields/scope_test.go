package fields_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"attend/internal/fields"
)

func TestScopeOf(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, c := range []struct{ name, topic, want string }{
		{"default", `"competitor-pricing"`, "field:default:competitor-pricing"},
		{"default", `"a:b"`, "field:default:a:b"},
		{"a:b", `"c"`, "field:a%3Ab:c"},
		{"a", `"b:c"`, "field:a:b:c"},
		{"50%", `"50% off"`, "field:50%25:50%25 off"},
		{"a", `"5"`, "field:a:5"},
		{"a", `5`, "field:a:=5"},
		{"a", `5.0`, "field:a:=5"},
		{"a", `-0`, "field:a:=0"},
		{"a", `1e999`, "field:a:=INF"},
		{"a", `-1e999`, "field:a:=-INF"},
		{"a", `"=5"`, "field:a:%3D5"},
		{"a", `"x=5"`, "field:a:x=5"},
		{"a", `true`, "field:a:=true"},
		{"a", `null`, "field:a:=null"},
		{"a", ``, "field:a:=none"},
		{"a", `""`, "field:a:"},
		{"a", `{"b":1}`, "field:a:=object"},
		{"a", `[1]`, "field:a:=array"},
		{"a", `"one\ntwo\u0085"`, "field:a:one%0Atwo%C2%85"},
		{"a", `"` + long + `"`, "field:a:" + strings.Repeat("é", 243) + "%~"},
	} {
		got := fields.ScopeOf(c.name, json.RawMessage(c.topic))
		if got != c.want && (len(got) <= 500 || !strings.HasPrefix(got, c.want)) {
			t.Errorf("scope of %q, %.40s is %q, want %q", c.name, c.topic, got, c.want)
		}
	}
}

// primitive draws a topic, often an odd one.
func primitive(t *rapid.T, label string) any {
	text := rapid.OneOf(rapid.StringMatching(`[=%:~a-c5\n\x{85}]{0,4}`), rapid.StringN(0, -1, 700), rapid.Just(strings.Repeat("a%", 300)), rapid.Just(strings.Repeat("a%", 301)))
	return rapid.OneOf(
		text.AsAny(), rapid.Float64().AsAny(), rapid.IntRange(-3, 7).AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil),
	).Draw(t, label)
}

func TestScopeOf_LegalAndDistinct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`[a:%=]{1,3}`), rapid.StringMatching(`[é:%]{1,64}`)).Draw(t, "name")
		other := rapid.OneOf(rapid.Just(name), rapid.StringMatching(`[a:%=]{1,3}`)).Draw(t, "other")
		one, _ := json.Marshal(primitive(t, "one"))
		two, _ := json.Marshal(primitive(t, "two"))
		a, b := fields.ScopeOf(name, one), fields.ScopeOf(other, two)
		for _, s := range []string{a, b} {
			if len(s) < 1 || len(s) > 512 || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
				t.Fatalf("scope %q of %d bytes is not legal", s, len(s))
			}
		}
		var x, y any
		_ = json.Unmarshal(one, &x)
		_ = json.Unmarshal(two, &y)
		if same := name == other && x == y; same != (a == b) {
			t.Fatalf("(%q, %s) and (%q, %s) are the same: %v; their scopes %q and %q", name, one, other, two, same, a, b)
		}
	})
}
