package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/judge/rules"
)

func TestLoad_Mistakes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{"1:1: the file is empty"}},
		{"list", "- a", []string{"1:1: the file must be an object with rules, default"}},
		{"nothing", "{}", []string{"1:1: default is missing", "1:1: rules is missing"}},
		{"default", "rules: []\ndefault: wait", []string{"2:10: default cannot be wait"}},
		{"route", "rules: []\ndefault: skp", []string{`2:10: default: unknown route "skp"`}},
		{"unknown", "rules: []\ndefault: skip\nrule: 1", []string{`3:1: "rule" is no key of the file`}},
		{"twice", "rules: []\ndefault: skip\ndefault: note", []string{"3:1: default is given twice"}},
		{"no list", "rules: {}\ndefault: skip", []string{"1:8: rules must be a list"}},
		{"syntax", "rules: [\ndefault: skip", []string{"not valid YAML"}},
		{"two", "rules: []\ndefault: skip\n---\na: 1", []string{"3:1: a second document starts here"}},
		{"keys", "default: skip\nrules:\n  - {if: 'true', route: queue}", []string{
			"3:5: when is missing: the condition of rule 1", "3:5: then is missing",
			`3:6: "if" is no key of rule 1: there are name, when, then, confidence, predicates; the condition stands in when`,
			`3:18: "route" is no key of rule 1: there are name, when, then, confidence, predicates; the route stands in then`,
		}},
		{"values", "default: skip\nrules:\n  - when: 3\n    then: 1\n    confidence: 2\n    predicates: {a: x}\n    name: default", []string{
			"3:11: when must be text", "4:11: then must be text", "5:17: confidence must be a number from 0 to 1",
			`6:21: the predicate "a" must be a number from 0 to 1`, "7:11: name must be",
		}},
		{"names", "default: skip\nrules:\n- {name: a, when: 'true', then: note}\n- {name: a, when: 'true', then: note}", []string{
			`4:10: the name "a" is given twice, first in line 3`,
		}},
		{"all at once", "rules:\n  - when: scop == 'a'\n    then: quue\n  - when: wats > 1\n    then: note\n", []string{
			"1:1: default is missing", `2:11: there is no "scop" here`, `3:11: then: unknown route "quue"`, `4:11: there is no "wats" here`,
		}},
		{"long", "default: skip #" + strings.Repeat("x", rules.MaxText), []string{"1:1: is 262159 bytes long: at most 262144"}},
		{"many", "default: skip\nrules:\n" + strings.Repeat("- {when: 'true', then: note}\n", 501), []string{"3:1: holds 501 rules: at most 500"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got := rules.Load(c.text)
			if len(got) != len(c.want) {
				t.Fatalf("got %d mistakes, want %d:\n%v", len(got), len(c.want), got)
			}
			for i, m := range got {
				if s := fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Problem); !strings.Contains(s, c.want[i]) {
					t.Errorf("got  %s\nwant %s", s, c.want[i])
				}
			}
		})
	}
}

// A mistake in a condition has its place in the file, however the condition is
// written. wrong is what the mistake is about, and stands once in each text.
func TestLoad_PlaceOfAMistakeInACondition(t *testing.T) {
	const wrong = "wats"
	for name, when := range map[string]string{
		"plain":              "waits == 1 || wats == 2",
		"plain, folded":      "waits == 1 ||\n      wats == 2",
		"plain, comment":     "wats == 2 # why",
		"single":             "'scope == ''it'' + ''s'' || wats == 2'",
		"single, folded":     "'scope == \"a\" ||\n\n        wats == 2'",
		"double":             `"scope == \"\u00e9\x41\\n\" || wats == 2"`,
		"double, escaped":    `"waits == 1 ||\n\twats == 2"`,
		"double, folded":     "\"waits == 1 || \\\n        wats == 2\"",
		"literal":            "|\n      waits == 1 ||\n        wats == 2",
		"literal, stripped":  "|-\n\n      scope == 'é' || wats == 2\n",
		"literal, indent":    "|2\n        waits == 1\n      || wats == 2",
		"literal, commented": "| # why\n      waits == 1 || wats == 2",
		"folded":             ">\n      waits == 1 ||\n      wats == 2",
		"folded, stripped":   ">-\n      waits == 1 ||\n\n      wats == 2",
		"tag":                "!!str waits == 1 || wats == 2",
		"anchor":             "&a waits == 1 || wats == 2",
		"anchor, quoted":     "&a 'waits == 1 || wats == 2'",
		"anchor, literal":    "&a |\n      waits == 1 || wats == 2",
	} { //arch:sorted each is a case of its own
		t.Run(name, func(t *testing.T) {
			text := "default: skip\nrules:\n  - then: note\n    when: " + when + "\n"
			before, _, _ := strings.Cut(text, wrong)
			line := strings.Count(before, "\n")
			column := len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1
			_, got := rules.Load(text)
			if len(got) != 1 || !strings.Contains(got[0].Problem, wrong) {
				t.Fatalf("got %v\n%s", got, text)
			}
			if diff := cmp.Diff([2]int{line + 1, column}, [2]int{got[0].Line, got[0].Column}); diff != "" {
				t.Errorf("%s\n%s", diff, text)
			}
		})
	}
}

func TestLoad_JSONAndAliases(t *testing.T) {
	for _, text := range []string{
		`{"rules": [{"when": "waits > 0", "then": "note", "confidence": 0.5, "predicates": {"asked": 1}}], "default": "skip"}`,
		"default: skip\nrules:\n  - &r {when: 'waits > 0', then: note}\n  - *r\n  - when: true\n    then: queue\n",
	} {
		if _, mistakes := rules.Load(text); len(mistakes) > 0 {
			t.Errorf("%s: %v", text, mistakes)
		}
	}
}

func FuzzLoad(f *testing.F) {
	f.Add("default: skip\nrules:\n  - when: |\n      waits ==\n    then: note\n")
	f.Add("default: skip\nrules:\n  - &a {when: \"wa\\x41its\", then: note}\n  - *a\n")
	f.Add("rules: [{when: 'a''b', then: wait}]")
	f.Fuzz(func(t *testing.T, text string) {
		s, mistakes := rules.Load(text)
		if (s == nil) == (len(mistakes) == 0) {
			t.Fatalf("ruleset %v, mistakes %v", s, mistakes)
		}
		lines := strings.Count(text, "\n") + 1
		for _, m := range mistakes {
			if m.Line < 1 || m.Line > lines+1 || m.Column < 0 || m.Problem == "" {
				t.Errorf("a mistake outside of the text: %+v", m)
			}
		}
	})
}
