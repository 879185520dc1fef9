package field_test

import (
	"fmt"
	"strings"
	"testing"

	"attend/internal/field"
)

// What the reference implementation of the protocol answers, to the last
// digit. The asker is mara; entries are e1, e2, ... as they were written.
func TestReference_Scores(t *testing.T) {
	t.Parallel()
	const tide = `{"topic":"tide"}`
	times := func(n int, payload string, last ...string) func(*world) {
		return func(w *world) {
			for range n {
				w.write("kelp", payload, append(last, intent20)[0])
			}
		}
	}
	pilotWrites := func(intent string) func(*world) {
		return func(w *world) {
			w.register("kelp", "pilot")
			w.write("kelp", tide, intent)
		}
	}
	oldestOfTwo := func(intent string) func(*world) {
		return func(w *world) {
			w.write("kelp", `{}`, intent)
			w.write("kelp", `{}`, intent20)
		}
	}
	for _, c := range []struct {
		fact  string
		given func(*world)
		ask   string
		want  []string
	}{
		{
			"one entry is the newest", times(1, tide), `{"agent":"mara"}`,
			[]string{"e1 0.15 = 0+0+0.15+0: recent (0.15)"},
		},
		{
			"a topic that is asked for counts", times(1, tide), `{"agent":"mara","topic":"tide"}`,
			[]string{"e1 0.75 = 0.6+0+0.15+0: topic match (0.60); recent (0.15)"},
		},
		{
			"doubles add up in the order topic, role, recency, intent", pilotWrites(intent20),
			`{"agent":"mara","topic":"tide","role":"pilot"}`,
			[]string{"e1 0.9500000000000001 = 0.6+0.2+0.15+0: topic match (0.60); role match (0.20); recent (0.15)"},
		},
		{
			"no score is above 1", pilotWrites(intent60), `{"agent":"mara","topic":"tide","role":"pilot"}`,
			[]string{"e1 1 = 0.6+0.2+0.15+0.05: topic match (0.60); role match (0.20); recent (0.15); intent substantive (0.05)"},
		},
		{
			"the oldest of several has no recency", times(2, `{}`), `{"agent":"mara"}`,
			[]string{"e2 0.15 = 0+0+0.15+0: recent (0.15)", "e1 0 = 0+0+0+0: no relevance signals matched"},
		},
		{
			"0.075 is a little less, and is printed so", times(3, `{}`), `{"agent":"mara"}`,
			[]string{
				"e3 0.15 = 0+0+0.15+0: recent (0.15)", "e2 0.075 = 0+0+0.075+0: recent (0.07)",
				"e1 0 = 0+0+0+0: no relevance signals matched",
			},
		},
		{
			"scores are not rounded", times(3, tide), `{"agent":"mara","topic":"tide"}`,
			[]string{
				"e3 0.75 = 0.6+0+0.15+0: topic match (0.60); recent (0.15)",
				"e2 0.6749999999999999 = 0.6+0+0.075+0: topic match (0.60); recent (0.07)",
				"e1 0.6 = 0.6+0+0+0: topic match (0.60)",
			},
		},
		{
			"recency is linear in the epoch", times(4, `{}`), `{"agent":"mara"}`,
			[]string{
				"e4 0.15 = 0+0+0.15+0: recent (0.15)", "e3 0.1 = 0+0+0.1+0: recent (0.10)",
				"e2 0.05 = 0+0+0.05+0: recent (0.05)", "e1 0 = 0+0+0+0: no relevance signals matched",
			},
		},
		{
			"fifty units of intent count", oldestOfTwo(strings.Repeat("i", 50)), `{"agent":"mara"}`,
			[]string{"e2 0.15 = 0+0+0.15+0: recent (0.15)", "e1 0.05 = 0+0+0+0.05: intent substantive (0.05)"},
		},
		{
			"forty-nine do not", oldestOfTwo(strings.Repeat("i", 49)), `{"agent":"mara"}`,
			[]string{"e2 0.15 = 0+0+0.15+0: recent (0.15)", "e1 0 = 0+0+0+0: no relevance signals matched"},
		},
		{
			"a character beyond U+FFFF is two units", oldestOfTwo(strings.Repeat("🌊", 25)), `{"agent":"mara"}`,
			[]string{"e2 0.15 = 0+0+0.15+0: recent (0.15)", "e1 0.05 = 0+0+0+0.05: intent substantive (0.05)"},
		},
		{
			"space at the end of an intent counts", oldestOfTwo(strings.Repeat("i", 40) + strings.Repeat(" ", 10)), `{"agent":"mara"}`,
			[]string{"e2 0.15 = 0+0+0.15+0: recent (0.15)", "e1 0.05 = 0+0+0+0.05: intent substantive (0.05)"},
		},
		{
			"of equal scores the later epoch comes first", func(w *world) {
				w.write("kelp", tide, intent60)
				times(3, tide)(w)
			}, `{"agent":"mara","topic":"tide"}`,
			[]string{
				"e4 0.75 = 0.6+0+0.15+0: topic match (0.60); recent (0.15)",
				"e3 0.7 = 0.6+0+0.1+0: topic match (0.60); recent (0.10)",
				"e2 0.65 = 0.6+0+0.05+0: topic match (0.60); recent (0.05)",
				"e1 0.65 = 0.6+0+0+0.05: topic match (0.60); intent substantive (0.05)",
			},
		},
		{
			"recency is measured before the cut", times(5, tide), `{"agent":"mara","topic":"tide","max_units":2}`,
			[]string{
				"e5 0.75 = 0.6+0+0.15+0: topic match (0.60); recent (0.15)",
				"e4 0.7124999999999999 = 0.6+0+0.11249999999999999+0: topic match (0.60); recent (0.11)",
			},
		},
		{
			"an exact tie of decimals goes up", times(7, `{}`), `{"agent":"mara","max_units":2}`,
			[]string{"e7 0.15 = 0+0+0.15+0: recent (0.15)", "e6 0.125 = 0+0+0.125+0: recent (0.13)"},
		},
		{
			"one may ask for nothing", times(5, tide), `{"agent":"mara","topic":"tide","max_units":0}`, nil,
		},
		{
			"a topic is a filter", func(w *world) {
				w.write("kelp", tide, intent20)
				w.write("kelp", `{"topic":"bay"}`, intent20)
				w.write("kelp", `{}`, intent20)
			}, `{"agent":"mara","topic":"tide"}`,
			[]string{"e1 0.75 = 0.6+0+0.15+0: topic match (0.60); recent (0.15)"},
		},
		{
			"the asker sees its own drafts, and neither its own entries nor the drafts of others", func(w *world) {
				w.write("mara", tide, intent20)
				w.draft("mara", tide)
				w.draft("kelp", tide)
			}, `{"agent":"mara"}`,
			[]string{"e2 0.15 = 0+0+0.15+0: recent (0.15)"},
		},
		{
			"what nobody wrote is for everybody", func(w *world) {
				w.do(field.OpWrite, `{"entry":{},"intent":%q}`, intent20)
			}, `{"agent":"mara"}`,
			[]string{"e1 0.15 = 0+0+0.15+0: recent (0.15)"},
		},
		{
			"who drafts has the role of who asks", func(w *world) {
				w.register("mara", "pilot")
				w.draft("mara", `{}`)
			}, `{"agent":"mara"}`,
			[]string{"e1 0.35 = 0+0.2+0.15+0: role match (0.20); recent (0.15)"},
		},
	} {
		w := newWorld(t, referenceMode)
		c.given(w)
		equal(t, c.fact, told(w.attune("%s", c.ask)), lines(c.want...))
	}
}

func TestReference_RecencyOfManyNeverVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, referenceMode)
	for range 100 {
		w.write("kelp", `{}`, intent20)
	}
	got := w.attune(`{"agent":"mara"}`)
	equal(t, "the two oldest", told(got[98:]), lines(
		"e2 0.0015151515151515082 = 0+0+0.0015151515151515082+0: recent (0.00)",
		"e1 0 = 0+0+0+0: no relevance signals matched"))
	for range 5 {
		w.write("kelp", `{}`, intent20)
	}
	got = w.attune(`{"agent":"mara"}`)
	if len(got) != 100 || got[99].Epoch != 5 {
		t.Errorf("%d entries, the last of epoch %d: want 100, down to epoch 5", len(got), got[len(got)-1].Epoch)
	}
}

// Gaps count, wherever they come from; where the epochs begin does not.
func TestReference_RecencyIsRelative(t *testing.T) {
	t.Parallel()
	for _, before := range []int{0, 1000} {
		w := newWorld(t, referenceMode)
		own := func(n int) {
			for range n {
				w.write("mara", `{}`, intent20)
			}
		}
		own(before)
		for i := range 3 {
			if i > 0 {
				own(4)
			}
			w.write("kelp", `{}`, intent20)
		}
		var got []string
		for _, e := range w.attune(`{"agent":"mara"}`) {
			got = append(got, fmt.Sprintf("%d:%s", e.Epoch-int64(before), number(e.Reason.Components.Recency)))
		}
		equal(t, fmt.Sprintf("after %d", before), strings.Join(got, " "), "10:0.15 5:0.075 0:0")
	}
}

func TestReference_Roles(t *testing.T) {
	t.Parallel()
	const mara = `{"agent":"mara"}`
	for _, c := range []struct {
		fact  string
		given func(*world)
		ask   string
		want  string
	}{
		{"other roles do not match", func(w *world) { w.register("kelp", "pilot"); w.register("mara", "cook") }, mara, "0"},
		{"a role that is given wins over the registered one", func(w *world) { w.register("kelp", "pilot"); w.register("mara", "cook") }, `{"agent":"mara","role":"pilot"}`, "0.2"},
		{"a role of null is not given", func(w *world) { w.register("kelp", "pilot"); w.register("mara", "pilot") }, `{"agent":"mara","role":null}`, "0.2"},
		{"an empty role is given, and matches nothing", func(w *world) { w.register("kelp", "pilot"); w.register("mara", "pilot") }, `{"agent":"mara","role":""}`, "0"},
		{"equal roles match", func(w *world) { w.register("kelp", "pilot"); w.register("mara", "pilot") }, mara, "0.2"},
		{"who is deregistered has no role", func(w *world) {
			w.register("kelp", "pilot")
			w.register("mara", "pilot")
			w.do(field.OpDeregister, `{"id":"kelp"}`)
		}, mara, "0"},
		{"who registers again has one", func(w *world) {
			w.register("kelp", "pilot")
			w.register("mara", "pilot")
			w.do(field.OpDeregister, `{"id":"kelp"}`)
			w.register("kelp", "pilot")
		}, mara, "0.2"},
		{"a second registration changes nothing", func(w *world) {
			w.register("kelp", "pilot")
			w.register("kelp", "cook")
			w.register("mara", "pilot")
		}, mara, "0.2"},
		{"case counts", func(w *world) { w.register("kelp", "Pilot"); w.register("mara", "pilot") }, mara, "0"},
		{"space counts", func(w *world) { w.register("kelp", "pilot "); w.register("mara", "pilot") }, mara, "0"},
		{"nobody registered", func(*world) {}, mara, "0"},
		{"only the reader registered", func(w *world) { w.register("mara", "pilot") }, mara, "0"},
		{"only the writer registered", func(w *world) { w.register("kelp", "pilot") }, mara, "0"},
	} {
		w := newWorld(t, referenceMode)
		w.write("kelp", `{}`, intent20)
		c.given(w)
		equal(t, c.fact, number(w.attune("%s", c.ask)[0].Reason.Components.Role), c.want)
	}
}
