package expr_test

import (
	"errors"
	"strings"
	"testing"

	"attend/internal/expr"
)

// Whatever is written, it is either refused with places inside of the text, or
// gives the same answer twice, and never crashes.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{
		`events.exists(e, e.text.contains("x") && e.data.count > 3)`, `facts.?a.b.orValue(false)`, `reason in ["flush", "clsing"]`,
		`now.getHours("+01:00") > 8`, `events[0].data.map(k, k) == []`, `"%s".format([events])  == ""`, `dyn(events)[0]["text"] == ""`,
		`type(events[0]) == type(recent[0])`, `attend.Event{id: "a"} == events[0]`, "scope ==\n", `optional.of(events[0]).hasValue()`,
		`lists.range(1000000).exists(i, i < 0)`, `"x".replace("", "yyyyyyyyyyyyyyyyyyyy") == scope`, `events.sortBy(e, e.data.count) == events`,
		`dyn(events)[0][events[0].text] == 1`, `lists.range(5).exists(i, dyn(events[0].text).exists(x, x == i))`, `"a".matches(events[0].text)`,
		`sets.contains(names, events[0].data.tags) || names.distinct() == names`, `facts[?scope].hasValue()`,
	} {
		f.Add(seed)
	}
	env, err := expr.New(expr.Window)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, source string) {
		p, err := env.Compile(source)
		if err != nil {
			var e *expr.Error
			if !errors.As(err, &e) || len(e.Mistakes) == 0 {
				t.Fatalf("an error without mistakes: %v", err)
			}
			for _, m := range e.Mistakes {
				if m.Line < 1 || m.Line > strings.Count(source, "\n")+2 || m.Column < 1 || m.Problem == "" {
					t.Errorf("a mistake outside of the text: %+v", m)
				}
			}
			return
		}
		vars := expr.OfInput(incident())
		met, failed := p.Met(vars)
		if spent := expr.Spent(vars); spent > expr.CostLimit+1 {
			t.Errorf("cost %d", spent)
		}
		again, failedAgain := p.Met(expr.OfInput(incident()))
		if met != again || (failed == nil) != (failedAgain == nil) || failed != nil && failed.Error() != failedAgain.Error() {
			t.Errorf("first %v, %v, then %v, %v", met, failed, again, failedAgain)
		}
	})
}
