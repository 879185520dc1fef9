package engine_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gobwas/glob"

	"attend/internal/engine"
)

// In a glob * is any run of characters, dots and slashes too, ? one; \
// escapes; nothing else is special.
func TestGlob(t *testing.T) {
	for _, c := range []struct {
		pattern string
		matches []string
		not     []string
	}{
		{"", []string{""}, []string{"a"}},
		{"*", []string{"", "a", "a.b/c", "日本"}, nil},
		{"?", []string{"a", ".", "/", "日"}, []string{"", "ab"}},
		{"a.b", []string{"a.b"}, []string{"axb", "a.b.c", "A.b"}},
		{"build.*", []string{"build.", "build.failed", "build.a.b/c"}, []string{"build", "xbuild.failed"}},
		{"*.failed", []string{".failed", "a.b.failed"}, []string{"failed", "a.failed.b"}},
		{"a*b*c", []string{"abc", "aXbYc", "abbcc", "abcbc"}, []string{"acb", "ab"}},
		{"**", []string{"", "ab"}, nil},
		{"a?c", []string{"abc", "a日c"}, []string{"ac", "abbc"}},
		{`a\*b`, []string{"a*b"}, []string{"aXb", `a\*b`}},
		{`a\?b`, []string{"a?b"}, []string{"aXb"}},
		{`a\\b`, []string{`a\b`}, []string{"ab"}},
		{`a\bc`, []string{"abc"}, []string{`a\bc`}},
		{`a\`, []string{`a\`}, []string{"a"}},
		{"[a-c]{x,y}!", []string{"[a-c]{x,y}!"}, []string{"ax!"}},
		{"*a*a*a*a*a*a*a*a*b", []string{"aaaaaaaab"}, []string{strings.Repeat("a", 2000)}},
	} {
		for _, name := range c.matches {
			if !engine.Glob(c.pattern, name) {
				t.Errorf("%q does not match %q", c.pattern, name)
			}
		}
		for _, name := range c.not {
			if engine.Glob(c.pattern, name) {
				t.Errorf("%q matches %q", c.pattern, name)
			}
		}
	}
}

// Glob never panics, ends, and agrees with a library where both know the
// pattern.
// What stands behind the last star has one place in a name: a long pattern on a
// long name costs their lengths, not the product.
func BenchmarkGlob_LongTail(b *testing.B) {
	pattern, name := "z:*"+strings.Repeat("a", 250)+"b", "z:"+strings.Repeat("a", 490)
	for b.Loop() {
		if engine.Glob(pattern, name) {
			b.Fatal("it matches")
		}
	}
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"a*b", "axb"}, {"?", "日"}, {`\*`, "*"}, {`a\`, `a\`}, {"*a*a*b", "aaaa"}, {"\xff*", "\xff"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		got := engine.Glob(pattern, name)
		if len(pattern) > 50 || len(name) > 200 || !utf8.ValidString(pattern) || !utf8.ValidString(name) ||
			strings.ContainsAny(pattern, "[]{}!,\\\x00") {
			return
		}
		g, err := glob.Compile(pattern)
		if err != nil {
			return
		}
		if want := g.Match(name); got != want {
			t.Errorf("Glob(%q, %q) = %v", pattern, name, got)
		}
	})
}
