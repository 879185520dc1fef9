package expr_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/expr"
	"attend/internal/judge"
)

// hostile is a window of events that hold as much as they may, of what is
// dearest: 1 MiB of text, long lists, nesting, many keys.
func hostile() *judge.Input {
	in := incident()
	var ids, texts, lists, keys strings.Builder
	for i := range 30_000 {
		fmt.Fprintf(&ids, "%d,", i)
		fmt.Fprintf(&texts, `"%030d",`, i)
		fmt.Fprintf(&lists, "[%d],", i)
		fmt.Fprintf(&keys, `"k%015d":%d,`, i, i)
	}
	long := strings.Repeat("a", 1<<20)
	in.Window.Events = []engine.EventView{
		{ID: "0", Text: long, Data: engine.RawJSON(`{"ids":[` + ids.String() + `0],"texts":[` + texts.String() + `"x"],"n":200000}`)},
		{ID: "1", Text: long[:len(long)-1] + "b", Data: engine.RawJSON(`{"lists":[` + lists.String() + `[0]],"o":{` + keys.String() + `"k":1}}`)},
		{ID: "2", Text: strings.Repeat("é", 1<<19), Data: engine.RawJSON(`{"deep":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`)},
	}
	return in
}

// dear lists conditions that a producer could make cost anything, by what its
// events hold. Each is refused where least is 0, and else costs at least that.
func dear() []struct {
	when  string
	least uint64
} {
	const ids, texts, lists, o, deep = "events[0].data.ids", "events[0].data.texts", "events[1].data.lists", "events[1].data.o", "events[2].data.deep"
	const again = "lists.range(events[0].data.n).exists(i, i < 0 || "
	return []struct {
		when  string
		least uint64
	}{
		{ids + ".distinct().size() == 30000", 30_000},
		{texts + ".distinct().size() == 30001", 30_000},
		{lists + ".distinct().size() == 3", 0},
		{"[lists.range(30000), lists.range(30000)].flatten().distinct().size() == 30000", 120_000},
		{"sets.intersects(" + ids + ", " + texts + ") || true", 60_000},
		{"sets.equivalent(" + ids + ", " + ids + ")", 120_000},
		{"sets.contains(" + ids + ", " + ids + ")", 60_000},
		{"sets.intersects(" + lists + ", " + texts + ") || true", 0},
		{ids + ".all(x, x in " + ids + ")", 0},
		{ids + ".hasAll(" + ids + ")", 60_000},
		{"sets.contains(events, events)", 3},
		{`"%s".format([` + deep + `]) != ""`, 0},
		{`"%s".format([` + ids + `]) != ""`, 60_000},
		{again + ids + " == " + ids + ".map(x, x + 0) && i < 0)", 0},
		{again + "events[0].text == events[1].text)", 0},
		{again + "events[0].text < events[0].text)", 0},
		{again + "events[0].text in [events[1].text])", 0},
		{again + "events[0].text.size() < 0)", 0},
		{again + "events[0].text.charAt(1) == 'b')", 0},
		{again + o + "[events[0].text] == 1)", 0},
		{again + "dyn(events)[0][events[0].text] == 1)", 0},
		{again + o + ".?k.orValue(1) == 2 && events[1].data[?events[0].text].hasValue())", 0},
		{again + "dyn(events[0].text).exists_one(x, x == 1))", 0},
		{again + "int(events[0].text) == 1)", 0},
		{again + "events[0].text.endsWith(events[1].text))", 0},
		{again + "now.getHours('Europe/Berlin') == 99)", 0},
		{again + "optional.of(events[0].text).hasValue(events[1].text))", 0},
		{"events[0].text.replace('a', 'bbbbbbbbbbbbbbbbbbbbbbbbbb') != ''", 0},
		{"events[0].text.split('').size() > 0", 0},
		{"events[0].text.indexOf(events[1].text) < 0", 0},
		{"events[0].text.indexOf('aaaaaaaaaaaaaaaaaaaaaaaaaab') < 0", 50_000},
		{"events[0].text.matches('(.a?){500}b') || true", 0},
		{"!events[0].text.matches('aab')", 100_000},
		{"'a'.matches(events[0].text) || true", 0},
		{texts + ".join(events[0].text) != ''", 0},
		{texts + ".sort().size() == 30001", 0},
		{"lists.range(events[0].data.n + 100000).size() > 0", 0},
		{"[" + strings.Repeat("events[0].text, ", 40) + "'a'].join() != ''", 0},
	}
}

func TestMet_CountsWhatEventsHold(t *testing.T) {
	in := hostile()
	for _, c := range dear() {
		p, err := expr.Compile(expr.Window, c.when)
		if err != nil {
			t.Errorf("%s: %v", c.when, err)
			continue
		}
		vars := expr.OfInput(in)
		met, err := p.Met(vars)
		if c.least == 0 {
			if met || err == nil || !strings.Contains(err.Error(), "costs more than") {
				t.Errorf("%s: %v, %v, at a cost of %d, want that it costs too much", c.when, met, err, expr.Spent(vars))
			}
			continue
		}
		if spent := expr.Spent(vars); spent < c.least || spent > expr.CostLimit {
			t.Errorf("%s costs %d, want between %d and the limit", c.when, spent, c.least)
		}
	}
}

// What is refused has cost its own limit, and leaves what comes after its part.
func TestMet_RefusedCostsItsLimit(t *testing.T) {
	vars := expr.OfInput(hostile())
	p, err := expr.Compile(expr.Window, "events[0].text.indexOf(events[1].text) < 0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Met(vars); err == nil || expr.Spent(vars) > expr.CostLimit+1 {
		t.Errorf("cost %d, %v", expr.Spent(vars), err)
	}
}

func BenchmarkMet_Hostile(b *testing.B) {
	in := hostile()
	for _, c := range dear() {
		p, err := expr.Compile(expr.Window, c.when)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.when, func(b *testing.B) {
			for b.Loop() {
				_, _ = p.Met(expr.OfInput(in))
			}
		})
	}
}

func TestPrices_EveryFunctionHasOne(t *testing.T) {
	for _, kind := range []expr.Kind{expr.Window, expr.Verdict, expr.Hook} {
		env, err := expr.New(kind)
		if err != nil {
			t.Fatal(err)
		}
		if missing := env.Unpriced(); len(missing) > 0 {
			t.Errorf("kind %d: no price for %v", kind, missing)
		}
	}
}

// JSON of very many values is not read; what stands beside it is.
func TestMet_JSONTooMuchToLookAt(t *testing.T) {
	in := incident()
	many := `{"a":[` + strings.Repeat("1,", expr.MaxValues/2) + `1]}`
	in.Window.Events = []engine.EventView{
		{ID: "0", Data: engine.RawJSON(many)},
		{ID: "1", Data: engine.RawJSON(many)},
		{ID: "2", Text: "beside"},
	}
	for _, c := range []struct{ when, want string }{
		{"events[0].data.a.size() > 1", ""},
		{"events[0].data.a.size() + events[1].data.a.size() > 1", "more than 250000 JSON values together"},
		{"events[2].text == 'beside'", ""},
	} {
		p, err := expr.Compile(expr.Window, c.when)
		if err != nil {
			t.Fatal(err)
		}
		met, err := p.Met(expr.OfInput(in))
		if met != (c.want == "") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, %v, want %q", c.when, met, err, c.want)
		}
	}
}

// A list that holds a large value many times is small in memory, and not as JSON.
func TestJSON_Bounded(t *testing.T) {
	env, err := expr.New(expr.Hook)
	if err != nil {
		t.Fatal(err)
	}
	p, err := env.CompileTo(expr.JSON, "lists.range(10000).map(i, body)")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(strings.Repeat("x", 1000))
	if _, err := p.JSON(expr.OfHook(body, nil, nil)); err == nil || !strings.Contains(err.Error(), "bytes of JSON") {
		t.Errorf("got %v, want that it is too much", err)
	}
}

// A failure quotes what an event says, and not all of it.
func TestMet_FailureIsShort(t *testing.T) {
	for _, when := range []string{"timestamp(events[0].text) < now", "events[1].data.o[events[0].text] == 1", "dyn(events)[0][events[0].text] == 1"} {
		p, err := expr.Compile(expr.Window, when)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Met(expr.OfInput(hostile())); err == nil || len(err.Error()) > 400 {
			t.Errorf("%s: %.500v", when, err)
		}
	}
}

// A failure says what an event said only where it is asked to.
func TestMet_FailureHoldsNoData(t *testing.T) {
	in := incident()
	in.Window.Events[0].Data = engine.RawJSON(`{"s":"top secret 4711","n":4711,"z":"Top/Secret","at":{"key":1}}`)
	for when, want := range map[string]string{
		"timestamp(events[0].data.s) < now":                "invalid RFC 3339 timestamp …",
		"duration(events[0].data.s) < duration('1s')":      "",
		"int(events[0].data.s) == 1":                       "",
		"events[0].data.at[events[0].data.s] == 1":         "there is no such key: …: ask has() first",
		"events[0].data.missing == 1":                      "there is no such key: missing: ask has() first",
		"events[events[0].data.n].name == 'a'":             "index out of bounds: …",
		"events[7].name == 'a'":                            "index out of bounds: 7",
		"now.getHours(events[0].data.z) == 1":              "",
		"'a'.matches('[' + events[0].data.s)":              "",
		"[events[0].data.s, events[0].data.n].join() > ''": "join: …",
		"events[0].text.charAt(events[0].data.n) == 'a'":   "index out of range: …",
		"dyn(events)[0][events[0].data.s] == 1":            "no such field: …",
		"[1][events[0].data.s] == 1":                       "",
		"'%d'.format([events[0].data.s]) == ''":            "",
		"events.slice(0, events[0].data.n).size() == 1":    "",
		"lists.range(events[0].data.n * 1000).size() == 1": "",
		"events[0].data.s > 1":                             "the types do not go together (no such overload)",
		"1 / (events[0].data.n - 4711) == 1":               "division by zero",
	} { //arch:sorted each is a case of its own
		p, err := expr.Compile(expr.Window, when)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		_, err = p.Met(expr.OfInput(in))
		if err == nil || strings.Contains(strings.ToLower(err.Error()), "secret") || strings.Contains(err.Error(), "4711") || want != "" && err.Error() != want {
			t.Errorf("%s: %v, want %q", when, err, want)
		}
	}
	p, err := expr.Compile(expr.Window, "timestamp(events[0].data.s) < now")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Met(expr.OfInput(in)); !strings.Contains(expr.Quoted(err), "top secret 4711") {
		t.Errorf("quoted: %s", expr.Quoted(err))
	}
}

// Sets, distinct, in and == say what CEL says of the elements one by one.
func TestMet_SetsAreExact(t *testing.T) {
	for _, when := range []string{
		"sets.contains(facts.a, facts.b) == facts.b.all(x, facts.a.exists(y, y == x))",
		"sets.intersects(facts.a, facts.b) == facts.b.exists(x, facts.a.exists(y, y == x))",
		"sets.equivalent(facts.a, facts.b) == (sets.contains(facts.a, facts.b) && sets.contains(facts.b, facts.a))",
		"facts.a.hasOnly(facts.b) == facts.a.all(x, x in facts.b)",
		"facts.a.distinct().all(x, facts.a.distinct().exists_one(y, y == x))",
		"facts.a.all(x, x in facts.a.distinct())",
		"(facts.a == facts.b) == (facts.a.size() == facts.b.size() && lists.range(facts.a.size()).all(i, facts.a[i] == facts.b[i]))",
		"facts.a.all(x, x in [1, 2.0, 'a', true, null] == (x == 1 || x == 2 || x == 'a' || x == true || x == null))",
		"facts.a.all(x, type(x) in [list, map, null_type] || x <= x)",
	} {
		p, err := expr.Compile(expr.Window, when)
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		rapid.Check(t, func(t *rapid.T) {
			leaf := rapid.SampledFrom([]string{
				"1", "1.0", "2", "2.5", `"a"`, `"b"`, `""`, "true", "false", "null", "[]", "[1]", "[1.0]", "{}", `{"a":1}`, `{"a":1.0}`, `{"a":[1]}`,
				"9007199254740992", "9007199254740993", "9007199254740992.0", "1e300", "-1", "18446744073709551615",
			})
			list := func(name string) string {
				return "[" + strings.Join(rapid.SliceOfN(leaf, 0, 6).Draw(t, name), ",") + "]"
			}
			in := incident()
			in.Facts = json.RawMessage(`{"a":` + list("a") + `,"b":` + list("b") + `}`)
			if met, err := p.Met(expr.OfInput(in)); !met || err != nil {
				t.Fatalf("%s with %s: %v, %v", when, in.Facts, met, err)
			}
		})
	}
}
