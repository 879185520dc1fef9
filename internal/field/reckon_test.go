package field_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"attend/internal/field"
)

// Two entries e1 and e2 of the topic reef, with what is given of each beside
// the topic. The later, e2, ranks higher.
func TestReckon_WhatContradicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fact, a, b, want string }{
		{"different numbers", `"depth":12`, `"depth":14`, "depth"},
		{"equal values", `"depth":12`, `"depth":12`, ""},
		{"no common key", `"depth":12`, `"width":14`, ""},
		{"null and a value", `"v":null`, `"v":0`, "v"},
		{"null and nothing", `"v":null`, ``, ""},
		{"null and null", `"v":null`, `"v":null`, ""},
		{"objects are not compared", `"m":{"a":1}`, `"m":{"a":2}`, ""},
		{"arrays are not compared", `"m":[1]`, `"m":[2]`, ""},
		{"a value and an object", `"m":1`, `"m":{"a":1}`, ""},
		{"a number and its digits", `"v":5`, `"v":"5"`, "v"},
		{"true and its name", `"v":true`, `"v":"true"`, "v"},
		{"one and true", `"v":1`, `"v":true`, "v"},
		{"true and false", `"v":false`, `"v":true`, "v"},
		{"one is 1.0", `"v":1`, `"v":1.0`, ""},
		{"one is 10e-1", `"v":1`, `"v":10e-1`, ""},
		{"zero is minus zero", `"v":0`, `"v":-0`, ""},
		{"beyond 2^53 numbers are doubles", `"v":9007199254740992`, `"v":9007199254740993`, ""},
		{"case", `"v":"Reef"`, `"v":"reef"`, "v"},
		{"accents", `"v":"é"`, `"v":"e"`, "v"},
		{"one character composed in two ways", `"v":"\u00e9"`, `"v":"e\u0301"`, "v"},
		{"one character written in two ways", `"v":"é"`, `"v":"\u00e9"`, ""},
		{"one key written in two ways", `"d\u0065pth":1`, `"depth":2`, "depth"},
		{"space", `"v":"reef"`, `"v":"reef "`, "v"},
		{"of a key that stands twice the last value counts", `"v":1,"v":2`, `"v":2`, ""},
		{"also when it is an object", `"v":1,"v":{}`, `"v":2`, ""},
		{
			"keys by their units", `"10":1,"9":1,"a":1,"B":1,"_":1,"é":1,"\ue000":1,"😀":1`,
			`"10":2,"9":2,"a":2,"B":2,"_":2,"é":2,"\ue000":2,"😀":2`, "10,9,B,_,a,é,😀,\ue000",
		},
		{"only the keys that differ", `"a":1,"b":1,"c":1`, `"c":2,"b":1,"a":2`, "a,c"},
	} {
		w := newWorld(t, referenceMode)
		for _, rest := range []string{c.a, c.b} {
			w.write("kelp", strings.Replace(`{"topic":"reef",`+rest+`}`, ",}", "}", 1), intent20)
		}
		want := ""
		if c.want != "" {
			want = "e2 e1 " + c.want + "\n"
		}
		for _, ask := range []string{`{"agent":"mara","topic":"reef"}`, `{"agent":"mara"}`} {
			equal(t, c.fact, paired(w.reckon("%s", ask).Conflicts), want)
		}
	}
}

func TestReckon_Topics(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b  string
		clash bool
	}{
		{`"reef"`, `"reef"`, true},
		{`"reef"`, `"r\u0065ef"`, true},
		{`"reef"`, `"bay"`, false},
		{`1`, `1.0`, true},
		{`0`, `-0`, true},
		{`1`, `"1"`, false},
		{`1`, `true`, false},
		{`true`, `true`, true},
		{`null`, `null`, true},
		{`null`, ``, false},
		{``, ``, false},
		{`{}`, `{}`, false},
		{`["reef"]`, `["reef"]`, false},
		{`"bay","topic":"reef"`, `"reef"`, true},
	} {
		w := newWorld(t, gradedMode)
		for i, topic := range []string{c.a, c.b} {
			if topic != "" {
				topic = `"topic":` + topic + `,`
			}
			w.write("kelp", fmt.Sprintf(`{%s"v":%d}`, topic, i), intent20)
		}
		r := w.reckon(`{"agent":"mara"}`)
		if got := len(r.Conflicts) == 1; got != c.clash || len(r.Entries) != 2 {
			t.Errorf("topics %s and %s: a conflict is %t, want %t", c.a, c.b, got, c.clash)
		}
	}
}

func TestReckon_WhoTakesPart(t *testing.T) {
	t.Parallel()
	const ask = `{"agent":"mara","topic":"reef"}`
	depth := func(n int) string { return fmt.Sprintf(`{"topic":"reef","depth":%d}`, n) }
	two := func(w *world) {
		w.write("kelp", depth(12), intent20)
		w.write("gull", depth(14), intent20)
	}
	drafts := func(w *world) {
		w.write("kelp", depth(5), intent20)
		w.draft("mara", depth(6))
		w.draft("mara", depth(7))
	}
	for _, c := range []struct {
		fact     string
		given    func(*world)
		ask      string
		entries  string
		conflict string
	}{
		{"the higher ranked comes first", two, ask, "e2 e1", "e2 e1 depth\n"},
		{"an author contradicts itself", func(w *world) {
			w.write("kelp", depth(1), intent20)
			w.write("kelp", depth(2), intent20)
		}, ask, "e2 e1", "e2 e1 depth\n"},
		{"one's own entries are left out", two, `{"agent":"kelp"}`, "e2", ""},
		{"own drafts take part, also against each other", drafts, ask, "e3 e2 e1", lines("e2 e1 depth", "e3 e2 depth", "e3 e1 depth")},
		{"drafts of others do not", drafts, `{"agent":"gull","topic":"reef"}`, "e1", ""},
		{"what is retracted is left out", func(w *world) {
			two(w)
			w.do(field.OpRetract, `{"id":"e1","agent":"kelp","intent":%q}`, intent20)
		}, ask, "e2", ""},
		{"what is superseded is left out", func(w *world) {
			two(w)
			w.do(field.OpSupersede, `{"superseding_id":"e1","agent":"gull","intent":%q,"entry":%s}`, intent20, depth(14))
		}, ask, "e3 e2", ""},
		{"three make three pairs", func(w *world) { two(w); w.write("kelp", depth(16), intent20) }, ask, "e3 e2 e1", lines("e2 e1 depth", "e3 e2 depth", "e3 e1 depth")},
		{
			"what is cut off contradicts nothing", func(w *world) { two(w); w.write("kelp", depth(16), intent20) },
			`{"agent":"mara","topic":"reef","max_units":2}`, "e3 e2", "e3 e2 depth\n",
		},
		{"nothing contradicts nothing", two, `{"agent":"mara","max_units":0}`, "", ""},
	} {
		w := newWorld(t, referenceMode)
		c.given(w)
		r := w.reckon("%s", c.ask)
		equal(t, c.fact, ids(r.Entries), c.entries)
		equal(t, c.fact, paired(r.Conflicts), c.conflict)
		if b, err := json.Marshal(r); err != nil || strings.Contains(string(b), "null") {
			t.Errorf("%s: %s, %v: want arrays", c.fact, b, err)
		}
	}
}

// Conflicts go by the later timestamp of the two; of equal ones the order of
// the pairs by rank stays.
func TestReckon_OrderOfConflicts(t *testing.T) {
	t.Parallel()
	s := field.NewState()
	for i, at := range []int64{10, 10, 10, 20} {
		err := s.Apply(&field.Change{
			Kind: field.KindWritten, At: at, Epoch: int64(i), ID: fmt.Sprint("e", i+1), Agent: "kelp",
			Intent: intent20, Entry: json.RawMessage(fmt.Sprintf(`{"topic":"reef","depth":%d}`, i)),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	q, err := field.ParseQuery(field.OpReckon, json.RawMessage(`{"agent":"mara"}`), referenceMode)
	if err != nil {
		t.Fatal(err)
	}
	_, conflicts, _ := s.Reckon(q, referenceMode)
	equal(t, "conflicts", paired(conflicts), lines(
		"e3 e2 depth", "e3 e1 depth", "e2 e1 depth", "e4 e3 depth", "e4 e2 depth", "e4 e1 depth"))
}

func TestReckon_Deep(t *testing.T) {
	t.Parallel()
	nested := func(levels int, leaf string) string {
		return `"m":` + strings.Repeat(`{"m":`, levels) + leaf + strings.Repeat("}", levels)
	}
	for _, c := range []struct{ fact, a, b, want string }{
		{"values within objects", `"m":{"a":1,"b":2}`, `"m":{"a":2,"b":2}`, " m.a"},
		{"and beside them", `"v":1,"m":{"a":1}`, `"v":2,"m":{"a":2}`, "v m.a"},
		{"deeper", `"m":{"a":{"x":1,"y":null}}`, `"m":{"a":{"x":2,"y":0}}`, " m.a.x,m.a.y"},
		{"a topic within is a value", `"m":{"topic":1}`, `"m":{"topic":2}`, " m.topic"},
		{"arrays are not compared", `"m":{"a":[1]}`, `"m":{"a":[2]}`, ""},
		{"nor what stands in them", `"m":[{"a":1}]`, `"m":[{"a":2}]`, ""},
		{"a value and an object", `"m":{"a":1}`, `"m":{"a":{"b":1}}`, ""},
		{"a dot in a key is not a step", `"m":{"a.b":1}`, `"m":{"a":{"b":2}}`, ""},
		{"and is escaped", `"m":{"a.b":1}`, `"m":{"a.b":2}`, ` m.a\.b`},
		{"the last of a key counts", `"m":{"a":1,"a":2}`, `"m":{"a":2}`, ""},
		{"down to the last level", nested(31, "1"), nested(31, "2"), " " + strings.Repeat("m.", 31) + "m"},
	} {
		w := newWorld(t, gradedMode)
		w.write("kelp", `{"topic":"reef",`+c.a+`}`, intent20)
		w.write("kelp", `{"topic":"reef",`+c.b+`}`, intent20)
		want := ""
		if c.want != "" {
			want = "e2 e1 " + c.want + "\n"
		}
		equal(t, c.fact, paired(w.reckon(`{"agent":"mara","deep":true}`).Conflicts), want)
		shallow := w.reckon(`{"agent":"mara"}`).Conflicts
		for _, p := range shallow {
			if p.Paths != nil {
				t.Errorf("%s: paths %v without deep", c.fact, p.Paths)
			}
		}
	}
}

func TestReckon_ConflictsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	for i := range 150 { // 11,175 pairs
		w.write("kelp", fmt.Sprintf(`{"topic":"reef","depth":%d}`, i), intent20)
	}
	r := w.reckon(`{"agent":"mara","max_units":142}`) // 10,011
	if len(r.Conflicts)+r.Cut != field.MaxConflicts || r.Cut == 0 || len(r.Entries) != 142 || !r.MoreConflicts {
		t.Errorf("%d conflicts, %d cut, %d entries, more is %t", len(r.Conflicts), r.Cut, len(r.Entries), r.MoreConflicts)
	}
	r = w.reckon(`{"agent":"mara"}`)
	if len(r.Conflicts) != 100*99/2 || r.Cut != 0 || r.MoreConflicts {
		t.Errorf("%d conflicts, more is %t", len(r.Conflicts), r.MoreConflicts)
	}
}

// Who asks for more than the daemon gives is told that there is more.
func TestReckon_EntriesAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	for range field.MaxReckoned {
		w.write("kelp", `{"topic":"reef"}`, intent20)
	}
	ask := func(units int) string {
		r := w.reckon(`{"agent":"mara","max_units":%d}`, units)
		return fmt.Sprintf("%d %t", len(r.Entries), r.More)
	}
	equal(t, "all that there is", ask(5000), "1000 false")
	w.write("kelp", `{"topic":"reef"}`, intent20)
	equal(t, "one more than is given", ask(5000), "1000 true")
	equal(t, "as many as are given were asked for", ask(1000), "1000 false")
	a, ok := w.do(field.OpAttune, `{"agent":"mara","max_units":5000}`).(field.Attuned)
	if !ok || len(a.Entries) != 1001 || a.More {
		t.Errorf("attune gives %d, more is %t", len(a.Entries), a.More)
	}
}

func TestConflictsOf(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	reef := func(agent string, depth int) string {
		return w.write(agent, fmt.Sprintf(`{"topic":"reef","depth":%d}`, depth), intent20)
	}
	reef("kelp", 1)
	reef("gull", 2)
	w.write("gull", `{"topic":"bay","depth":9}`, intent20)
	gone := reef("gull", 3)
	w.do(field.OpRetract, `{"id":%q,"agent":"gull","intent":%q}`, gone, intent20)
	last := reef("kelp", 2)
	draft := w.draft("kelp", `{"topic":"reef","depth":4}`)
	equal(t, "of the last", paired(w.state.ConflictsOf(last, 0)), "e5 e1 depth\n")
	equal(t, "of the first", paired(w.state.ConflictsOf("e1", 0)), lines("e1 e5 depth", "e1 e2 depth"))
	equal(t, "of the first, one compared", paired(w.state.ConflictsOf("e1", 1)), lines("e1 e5 depth"))
	equal(t, "of what is retracted", paired(w.state.ConflictsOf(gone, 0)), "")
	equal(t, "of a draft", paired(w.state.ConflictsOf(draft, 0)), "")

	for _, c := range []struct {
		op           field.Op
		params, want string
	}{
		{field.OpWrite, `{"entry":{"topic":"reef","depth":1},"intent":"0123456789"}`, lines("e7 e5 depth", "e7 e2 depth")},
		{field.OpWrite, `{"entry":{"topic":"cove","depth":1},"intent":"0123456789"}`, ""},
		{field.OpWrite, `{"entry":{"depth":1},"intent":"0123456789"}`, ""},
		{field.OpDraft, `{"entry":{"topic":"reef","depth":1},"intent":"0123456789"}`, ""},
		{field.OpCommit, `{"draft_id":"e6"}`, lines("e6 e5 depth", "e6 e2 depth", "e6 e1 depth")},
		{field.OpSupersede, `{"superseding_id":"e2","agent":"kelp","entry":{"topic":"reef","depth":1},"intent":"0123456789"}`, "e7 e5 depth\n"},
		{field.OpRetract, `{"id":"e1","agent":"kelp","intent":"0123456789"}`, ""},
	} {
		d, err := w.state.Decide(c.op, json.RawMessage(c.params), gradedMode, field.Draw{Now: 5000, ID: "e7"})
		if err != nil {
			t.Fatal(err)
		}
		with, compared := w.state.ConflictsWith(d.Change, 0)
		if compared < len(with) || compared > w.state.Len() {
			t.Errorf("%s: compared with %d, of %d", c.params, compared, w.state.Len())
		}
		before := paired(with)
		equal(t, c.params, before, c.want)
		if id := d.Change.Commits(); id != "" {
			after := w.clone()
			if err := after.Apply(d.Change); err != nil {
				t.Fatal(err)
			}
			equal(t, "applied, "+c.params, paired(after.ConflictsOf(id, 0)), before)
		}
	}
}

// clone folds the log anew.
func (w *world) clone() *field.State {
	w.t.Helper()
	s := field.NewState()
	for _, c := range w.log {
		if err := s.Apply(c); err != nil {
			w.t.Fatal(err)
		}
	}
	return s
}

func TestValueAt(t *testing.T) {
	t.Parallel()
	entry := json.RawMessage(`{"size":{"depth":12,"a.b":{"c\\d":[1, 2]}},"n":1,"n":null}`)
	for path, want := range map[string]string{
		"size.depth": "12", `size.a\.b.c\\d`: "[1, 2]", "n": "null", "size.none": "", "n.x": "", `end\`: "",
	} {
		equal(t, path, string(field.ValueAt(entry, field.SplitPath(path)...)), want)
	}
	equal(t, "no path", string(field.ValueAt(entry)), string(entry))
}
