package field_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/field"
)

// The protocol's own example: topic match; same role as writer; written
// recently; specific intent.
func TestGraded_Example(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	w.register("strategist", "market strategy analyst")
	w.register("lead", "lead market strategy analyst") // 3 of 4 words
	w.write("other", `{}`, intent20)
	for range 7 {
		w.write("strategist", `{}`, intent20)
	}
	w.write("lead", `{"topic":"market-size"}`, intent20) // 8 of 15 epochs up
	for range 6 {
		w.write("strategist", `{}`, intent20)
	}
	w.write("other", `{}`, intent20)
	got := w.attune(`{"agent":"strategist","topic":"market-size"}`)
	best := got[0]
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"score", best.Score, 0.85},
		{"topic", best.Reason.Components.Topic, 0.60},
		{"role", best.Reason.Components.Role, 0.15},
		{"recency", best.Reason.Components.Recency, 0.08},
		{"intent", best.Reason.Components.Intent, 0.02},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s is %s, want %s", c.name, number(c.got), number(c.want))
		}
	}
	equal(t, "summary", best.Reason.Summary, "topic match; same role as writer; written recently; specific intent")
	equal(t, "entries of other topics stay", ids(got), "e9 e16 e1")
}

// The protocol's other example: two prices.
func TestGraded_ReckonExample(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	w.write("gull", `{"topic":"competitor-pricing","price":"$39/mo"}`, intent20)
	w.write("kelp", `{"topic":"competitor-pricing","price":"$49/mo"}`, intent20)
	r := w.reckon(`{"agent":"writer","topic":"competitor-pricing"}`)
	if len(r.Conflicts) != 1 {
		t.Fatalf("%d conflicts, want 1", len(r.Conflicts))
	}
	c := r.Conflicts[0]
	if diff := cmp.Diff([]string{"price"}, c.Keys); diff != "" {
		t.Errorf("keys (-want +got):\n%s", diff)
	}
	equal(t, "a", string(c.A.Entry.Entry), `{"topic":"competitor-pricing","price":"$49/mo"}`)
	equal(t, "b", string(c.B.Entry.Entry), `{"topic":"competitor-pricing","price":"$39/mo"}`)
}

func TestGraded_Topics(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	for _, payload := range []string{`{"topic":"reef"}`, `{"topic":"bay"}`, `{}`, `{"topic":["reef"]}`, `{"topic":"reef"}`, `{"topic":5}`} {
		w.write("kelp", payload, "0123456789")
	}
	equal(t, "all stay", ids(w.attune(`{"agent":"mara","topic":"reef"}`)), "e5 e1 e6 e4 e3 e2")
	equal(t, "only the topic", ids(w.attune(`{"agent":"mara","topic":"reef","only_topic":true}`)), "e5 e1")
	equal(t, "only no topic", ids(w.attune(`{"agent":"mara","only_topic":true}`)), "e6 e5 e4 e3 e2 e1")
	equal(t, "a topic that is a number", ids(w.attune(`{"agent":"mara","topic":5.0,"only_topic":true}`)), "e6")
	equal(t, "a topic that nothing has", ids(w.attune(`{"agent":"mara","topic":"cove","only_topic":true}`)), "")
	equal(t, "recency of a topic alone", number(w.attune(`{"agent":"mara","topic":"reef","only_topic":true}`)[1].Reason.Components.Recency), "0")
	equal(t, "recency among all", number(w.attune(`{"agent":"mara","topic":"reef"}`)[0].Reason.Components.Recency), "0.12")
}

func TestGraded_Roles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reader, writer string
		want           string
		says           string
	}{
		{"pilot", "pilot", "0.2", "same role as writer"},
		{"senior researcher", "researcher", "0.1", "similar role to writer"},
		{"market strategy analyst", "lead market strategy analyst", "0.15000000000000002", "same role as writer"},
		{"Pilot", "pilot", "0.2", "same role as writer"},
		{"sea-pilot", "pilot (sea)", "0.2", "same role as writer"},
		{"pilot pilot", "pilot", "0.2", "same role as writer"},
		{"ÉTOILE", "étoile", "0.2", "same role as writer"},
		{"a1 b2", "b2 c3", "0.06666666666666667", "similar role to writer"},
		{"pilot", "cook", "0", ""},
		{"pilots", "pilot", "0", ""},
		{"---", "***", "0", ""},
		{"---", "---", "0.2", "same role as writer"},
		{"", "pilot", "0", ""},
	} {
		w := newWorld(t, gradedMode)
		w.register("kelp", c.writer)
		w.write("kelp", `{}`, "0123456789")
		got := w.attune(`{"agent":"mara","role":%q}`, c.reader)[0]
		fact := fmt.Sprintf("%q of %q", c.writer, c.reader)
		equal(t, fact, number(got.Reason.Components.Role), c.want)
		says := "written recently"
		if c.says != "" {
			says = c.says + "; " + says
		}
		equal(t, fact, got.Reason.Summary, says)
	}
}

func TestGraded_Intents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		intent string
		want   string
		says   string
	}{
		{strings.Repeat("i", 10), "0.010000000000000002", "no relevance signals"},
		{strings.Repeat("i", 19), "0.019000000000000003", "no relevance signals"},
		{strings.Repeat("i", 20), "0.020000000000000004", "specific intent"},
		{strings.Repeat("i", 49), "0.049", "specific intent"},
		{strings.Repeat("i", 50), "0.05", "specific intent"},
		{strings.Repeat("i", 500), "0.05", "specific intent"},
		{strings.Repeat("🌊", 25), "0.05", "specific intent"},
		{"\t" + strings.Repeat("i", 25) + strings.Repeat(" ", 50), "0.025", "specific intent"},
		{"\ufeff" + strings.Repeat("i", 25), "0.025", "specific intent"},
		{"\u0085" + strings.Repeat("i", 25), "0.026000000000000002", "specific intent"},
	} {
		w := newWorld(t, gradedMode)
		w.write("kelp", `{}`, c.intent)
		w.write("kelp", `{}`, intent60)
		got := w.attune(`{"agent":"mara"}`)[1]
		equal(t, fmt.Sprintf("%.20q", c.intent), number(got.Reason.Components.Intent), c.want)
		equal(t, fmt.Sprintf("%.20q", c.intent), got.Reason.Summary, c.says)
	}
}

// "written recently" is said down to the middle of what is visible.
func TestGraded_Recently(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	for range 5 {
		w.write("kelp", `{}`, "0123456789")
	}
	var says []string
	for _, e := range w.attune(`{"agent":"mara"}`) {
		says = append(says, e.Reason.Summary)
	}
	want := []string{"written recently", "written recently", "written recently", "no relevance signals", "no relevance signals"}
	if diff := cmp.Diff(want, says); diff != "" {
		t.Errorf("summaries (-want +got):\n%s", diff)
	}
}

func TestRegister_Again(t *testing.T) {
	t.Parallel()
	const again = `{"id":"kelp","role":"cook","capabilities":["stew"]}`
	for _, c := range []struct {
		set     field.Settings
		changes int64
		role    string
		offers  int
	}{
		{gradedMode, 1, "0.2", len(field.Ops())},
		{referenceMode, 0, "0", 0},
	} {
		w := newWorld(t, c.set)
		w.register("kelp", "pilot")
		w.write("kelp", `{}`, intent20)
		before := w.state.Number()
		got := w.do(field.OpRegister, again).(field.Registered)
		if got.Session != "kelp" || got.Version != "0.2" || len(got.Capabilities) != c.offers || got.Capabilities == nil {
			t.Errorf("%s: register answers %+v", c.set.Mode, got)
		}
		if n := w.state.Number() - before; n != c.changes {
			t.Errorf("%s: %d changes, want %d", c.set.Mode, n, c.changes)
		}
		equal(t, c.set.Mode.String(), number(w.attune(`{"agent":"mara","role":"cook"}`)[0].Reason.Components.Role), c.role)
		before = w.state.Number()
		w.do(field.OpRegister, again)
		if w.state.Number() != before {
			t.Errorf("%s: the same registration again is a change", c.set.Mode)
		}
	}
}

func TestParseMode(t *testing.T) {
	t.Parallel()
	for _, m := range []field.Mode{field.Graded, field.Reference} {
		if got, err := field.ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%s: %v, %v", m, got, err)
		}
	}
	if _, err := field.ParseMode("binary"); err == nil || !strings.Contains(err.Error(), "graded or reference") {
		t.Errorf("an unknown mode: %v", err)
	}
}

func TestParsePush(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op       field.Op
		params   string
		only     bool
		conflict bool
	}{
		{field.OpAttune, `{"agent":"mara"}`, false, false},
		{field.OpAttune, `{"agent":"mara","topic":"reef"}`, true, false},
		{field.OpAttune, `{"agent":"mara","topic":null}`, false, false},
		{field.OpAttune, `{"agent":"mara","topic":"reef","only_topic":false}`, false, false},
		{field.OpReckon, `{"agent":"mara","topic":"reef"}`, true, true},
		{field.OpReckon, `{"agent":"mara","conflictsOnly":false}`, false, false},
	} {
		q, err := field.ParsePush(c.op, []byte(c.params), gradedMode)
		if err != nil || q.OnlyTopic != c.only || q.ConflictsOnly != c.conflict {
			t.Errorf("%s %s: %+v, %v", c.op, c.params, q, err)
		}
	}
	if _, err := field.ParsePush(field.OpAttune, []byte(`{}`), gradedMode); err == nil {
		t.Error("nobody may subscribe")
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gradedMode)
	w.write("kelp", `{"topic":"reef","depth":1}`, intent20)
	w.draft("mara", `{"topic":"reef","depth":2}`)
	type pair struct{ entries, conflicts field.Identity }
	look := func() pair {
		r := w.reckon(`{"agent":"mara","topic":"reef","only_topic":true}`)
		return pair{field.IdentityOfEntries(r.Entries), field.IdentityOfConflicts(r.Conflicts)}
	}
	first := look()
	w.write("kelp", `{"topic":"bay","depth":3}`, intent20)
	if look() != first {
		t.Error("an entry of another topic changes the identity")
	}
	w.write("kelp", `{"topic":"reef"}`, intent20)
	second := look()
	if second.entries == first.entries || second.conflicts != first.conflicts {
		t.Error("an entry that contradicts nothing changes the entries' identity, and not the conflicts'")
	}
	w.write("kelp", `{"topic":"reef","depth":2,"width":1}`, intent20)
	if third := look(); third.conflicts == second.conflicts {
		t.Error("a new conflict changes nothing")
	}
	if (look() == pair{}) || field.IdentityOfEntries(nil) == (field.Identity{}) {
		t.Error("an identity is zero")
	}
	entries := w.attune(`{"agent":"mara"}`)
	before := field.IdentityOfEntries(entries)
	entries[0].Status = field.StatusDraft
	if field.IdentityOfEntries(entries) == before {
		t.Error("a status changes nothing")
	}
}
