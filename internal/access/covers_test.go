package access_test

import (
	"testing"

	"pgregory.net/rapid"

	"attend/internal/access"
	"attend/internal/engine"
)

func TestPrincipal_MayAll(t *testing.T) {
	for _, c := range []struct {
		own, pattern string
		want         bool
	}{
		{"*", "*", true},
		{"*", "a?b*", true},
		{"repo:*", "repo:*", true},
		{"repo:*", "repo:acme/*", true},
		{"repo:*", "repo:", true},
		{"repo:*", "*", false},
		{"repo:*", "rep*", false},
		{"repo:a", "repo:a", true},
		{"repo:a", "repo:?", false},
		{"repo:?", "repo:?", true},
		{"repo:?", "repo:*", false},
		{"repo:??", "repo:?x", true},
		{`repo:\*`, "repo:*", false},
		{"repo:*", `repo:\*`, true},
		{"*:x", "repo:*:x", true},
	} {
		p := access.NewPrincipal(access.Grant{Rights: []string{access.Admin}, Scopes: []string{"none", c.own}})
		if got := p.MayAll(access.Admin, c.pattern); got != c.want {
			t.Errorf("%q covers %q: %t", c.own, c.pattern, got)
		}
		if p.MayAll(access.Read, c.pattern) {
			t.Errorf("%q: a right that it has not", c.pattern)
		}
	}
	if !access.NewPrincipal(access.Grant{Rights: access.Rights()}).MayAll(access.Admin, "*") {
		t.Error("who has every scope may not have all")
	}
}

// Where a pattern is covered, whatever it matches is matched by the other too.
func TestPrincipal_MayAllIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := func(name, from string) string {
			return rapid.StringOfN(rapid.RuneFrom([]rune(from)), 0, 6, -1).Draw(t, name)
		}
		own, pattern, scope := text("own", `ab*?\é`), text("pattern", `ab*?\é`), text("scope", `ab*\é`)
		p := access.NewPrincipal(access.Grant{Rights: []string{access.Admin}, Scopes: []string{own}})
		if p.MayAll(access.Admin, pattern) && engine.Glob(pattern, scope) && !engine.Glob(own, scope) {
			t.Errorf("%q is said to cover %q, which matches %q", own, pattern, scope)
		}
	})
}
