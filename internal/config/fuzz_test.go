package config

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// Kinds from any bytes: no panic; every mistake has a place; what is accepted
// is what encoding/json reads, compiles, and comes back the same from YAML's
// flow style where that can hold it.
func FuzzKinds(f *testing.F) {
	for _, seed := range []string{
		`{"message.created":"flush","build.*":"closing","*":"consequence"}`,
		"{}", "[]", "null", "", "{", `{"a":"flush",}`, `{"a":"flush","a":"closing"}`, `{"a\\*":"flush","a\*":"flush"}`,
		"\ufeff{\"größe\":\"passive\"}", `{"\u0000":"flush"}`, `{"\/":"flush"}`, "{\"a\":\"flush\"}\n{}", "{\"\xff\":\"flush\"}",
		"a: flush\n\"*\": context\n", "a: &x flush\nb: *x\n", "? [a]\n: flush\n", "<<: {a: flush}\n", "- a\n", "a: flush\n---\nb: flush\n", "a: !!binary x\n", "a: \"", "&a [*a]", "*: x", "\t",
	} {
		f.Add([]byte(seed))
	}
	f.Add([]byte(strings.Repeat("x", 5000) + "\x00")) // breaks in a line longer than the parser's buffer
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, file := range []string{"kinds.json", "kinds.yaml"} {
			kinds, err := ParseKinds(file, b)
			if err != nil {
				checkPlaces(t, err, file)
				continue
			}
			policy := engine.Policy{Kinds: kinds.Map(), Default: engine.Defaults()}
			if err := policy.Compile(); err != nil {
				t.Fatalf("%s: accepted, and does not compile: %v", file, err)
			}
			for _, e := range kinds.Entries {
				if e.Place.Line < 1 || e.Place.Column < 1 {
					t.Fatalf("%s: %q has no place", file, e.Pattern)
				}
			}
			if file == "kinds.json" {
				var want map[string]engine.Kind
				if err := json.Unmarshal(trimBOM(b), &want); err != nil {
					t.Fatalf("accepted, and encoding/json says %v", err)
				}
				if len(want) > 0 || len(kinds.Entries) > 0 {
					if diff := cmp.Diff(want, kinds.Map()); diff != "" {
						t.Fatalf("encoding/json reads something else (-json +kinds):\n%s", diff)
					}
				}
			}
			_ = kinds.warnings()
		}
	})
}

// A configuration from any bytes: no panic, every mistake has a place, and
// what is accepted compiles.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		"port: 1\npolicy: {maxEvents: 5}\nscopes: [{scope: 'a*', floor: {}}]\nkinds: {a: flush}\n",
		"policy: &p {maxEvents: 1}\nscopes: [*p]\n", "predicates: {a: b}\ncriteria: {ask: b}\n", "floor: {flush: wait}\nactThreshold: .5\n",
		"token: x\nhost: 0.0.0.0\n", "scopes:\n- scope: \"a*\"\n- scope: \"a**\"\n", "kinds: [a]\n", "1: 2\n",
		"judge: {type: rules, rules: {rules: [{when: a, then: note}], default: skip}}\n", "judges: [{type: command, command: [a], env: {B: c}, when: d, below: 0.5}, {type: rule}]\n",
		"override: [{when: a, then: b}]\ncapture: {http: c}\ncontext: {command: [d], attune: {agent: e}}\n", "judges: [&a {type: http, url: 'http://b'}, *a]\n", "policy:\n  retryBackoffMs: [1, 1.5, .inf]\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		t.Chdir(t.TempDir())
		write(t, DefaultFile, string(b))
		c, err := Load(nil, nil)
		if err != nil {
			if !errors.As(err, new(Mistakes)) {
				t.Fatalf("an error that is no mistake: %v", err)
			}
			return
		}
		policy := c.Policy()
		if err := policy.Compile(); err != nil {
			t.Fatalf("accepted, and does not compile: %v", err)
		}
	})
}

func checkPlaces(t *testing.T, err error, file string) {
	t.Helper()
	mistakes, ok := errors.AsType[Mistakes](err)
	if !ok || len(mistakes) == 0 {
		t.Fatalf("%s: an error that is no mistake: %v", file, err)
	}
	for _, m := range mistakes {
		if m.Line < 1 || m.Source != file {
			t.Fatalf("a mistake without a place: %+v", m)
		}
	}
}

func trimBOM(b []byte) []byte {
	if len(b) >= 3 && string(b[:3]) == "\ufeff" {
		return b[3:]
	}
	return b
}
