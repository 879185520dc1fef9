package config

import (
	"slices"
	"strings"
	"testing"

	"github.com/gobwas/glob"
	"pgregory.net/rapid"

	"attend/internal/engine"
)

// forGobwas writes a pattern so that a library with a richer language reads it
// as the engine does.
func forGobwas(pattern string) string {
	var b strings.Builder
	for _, c := range elements(pattern) {
		switch c {
		case anyRun:
			b.WriteByte('*')
		case anyOne:
			b.WriteByte('?')
		default:
			if strings.ContainsRune(`\*?[]{},!-`, c) {
				b.WriteByte('\\')
			}
			b.WriteRune(c)
		}
	}
	return b.String()
}

// oracle resolves a name as the design says, without the engine: the exact
// name first, then the glob with the longest literal prefix (ties: the longer
// pattern, then byte order), then "*".
func oracle(t *rapid.T, patterns []string, name string) string {
	var best, bestPrefix string
	for _, p := range patterns {
		g, err := glob.Compile(forGobwas(p))
		if err != nil {
			t.Fatalf("pattern %q: %v", p, err)
		}
		if !g.Match(name) {
			continue
		}
		if !isGlob(p) {
			return p
		}
		prefix := string(elements(p)[:slices.IndexFunc(elements(p), func(c rune) bool { return c < 0 })])
		longer := len(prefix) > len(bestPrefix) ||
			len(prefix) == len(bestPrefix) && (len(p) > len(best) || len(p) == len(best) && p < best)
		if best == "" || best == "*" || p != "*" && longer {
			best, bestPrefix = p, prefix
		}
	}
	return best
}

// The engine resolves names as an independent library and the plain rule do.
func TestPattern_EngineAgreesWithGobwas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		patterns := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom([]rune(`ab.é/*?\[{!,-`)), 1, 8, -1), 1, 6, canonical).Draw(t, "patterns")
		name := rapid.StringOfN(rapid.RuneFrom([]rune(`ab.é/*?\[{!,-`)), 1, 10, -1).Draw(t, "name")
		policy := engine.Policy{Kinds: make(map[string]engine.Kind), Default: engine.Defaults()}
		for _, p := range patterns {
			policy.Kinds[p] = engine.Flush
		}
		if err := policy.Compile(); err != nil {
			t.Fatal(err)
		}
		_, got := policy.KindOf(name)
		if want := oracle(t, patterns, name); got != want {
			t.Fatalf("%q: the engine says %q, the rule %q", name, got, want)
		}
		for _, p := range patterns {
			if engine.Glob(canonical(p), name) != engine.Glob(p, name) {
				t.Fatalf("%q and its canonical form %q disagree on %q", p, canonical(p), name)
			}
			if !engine.Glob(p, example(p)) {
				t.Fatalf("%q does not match its example %q", p, example(p))
			}
		}
	})
}

// covers is right: compared with every name of up to six characters, of which
// one stands for all that no pattern names.
func TestPattern_CoversAgreesWithEnumeration(t *testing.T) {
	names := []string{""}
	for from := 0; len(names[len(names)-1]) < 6; {
		to := len(names)
		for _, name := range names[from:to] {
			for _, c := range "abz" {
				names = append(names, name+string(c))
			}
		}
		from = to
	}
	both := make(map[bool]int)
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringOfN(rapid.RuneFrom([]rune("ab*?")), 0, 4, -1)
		outer, inner := pattern.Draw(t, "outer"), pattern.Draw(t, "inner")
		want := !slices.ContainsFunc(names, func(name string) bool {
			return engine.Glob(inner, name) && !engine.Glob(outer, name)
		})
		both[want]++
		budget := 1_000_000
		if got := covers(outer, inner, &budget); got != want {
			t.Fatalf("covers(%q, %q) is %v, want %v", outer, inner, got, want)
		}
	})
	if both[true] == 0 || both[false] == 0 {
		t.Errorf("only one answer was ever right: %v", both)
	}
}

// A pattern that is called shadowed belongs to no name at all.
func TestPattern_ShadowedNeverWins(t *testing.T) {
	found := 0
	rapid.Check(t, func(t *rapid.T) {
		patterns := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.RuneFrom([]rune("ab*?")), 1, 4, -1), 2, 5, canonical).Draw(t, "patterns")
		policy := engine.Policy{Kinds: make(map[string]engine.Kind), Default: engine.Defaults()}
		for _, p := range patterns {
			policy.Kinds[p] = engine.Flush
		}
		if err := policy.Compile(); err != nil {
			t.Fatal(err)
		}
		by := shadowed(patterns)
		found += len(by)
		for range 20 {
			name := rapid.StringOfN(rapid.RuneFrom([]rune("abz")), 1, 6, -1).Draw(t, "name")
			_, pattern := policy.KindOf(name)
			if q, ok := by[pattern]; ok {
				t.Fatalf("%q belongs to %q, which is said to be shadowed by %q", name, pattern, q)
			}
		}
	})
	if found == 0 {
		t.Error("no pattern was ever shadowed: the property was not tested")
	}
}

func TestNearest(t *testing.T) {
	names := []string{"closing", "flush", "maxEvents", "maxEventBytes", "port"}
	for written, want := range map[string]string{
		"closng": "closing", "Flush": "flush", "max_events": "maxEvents", "max-event-bytes": "maxEventBytes",
		"prot": "port", "por": "port", "ports": "port", "": "", "interrupt": "", "x": "", strings.Repeat("flush", 100): "",
	} {
		if got := nearest(written, names); got != want {
			t.Errorf("nearest(%q) is %q, want %q", written, got, want)
		}
	}
}
