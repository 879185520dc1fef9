package field_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/field"
)

// What is found by blocks and bounds is what a full sort gives, and so are the
// conflicts in it.
func TestLaw_AttuneIsTheFullSort(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := liveOn(t, drawSettings(t), 120)
		plain := l.naive(t)
		for range 4 {
			q := drawAsk(t)
			same(t, l, plain, q)
		}
	})
}

// The same in a Field of many blocks, where bounds have something to pass over.
func TestLaw_AttuneIsTheFullSortOfMany(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := drawSettings(t)
		l := &life{world: newWorld(nil, set), roles: make(map[string]string)}
		seed := rapid.Uint64().Draw(t, "seed")
		next := func(n int) int { // a plain generator: rapid draws too slowly for this many
			seed = seed*6364136223846793005 + 1442695040888963407
			return int(seed>>33) % n
		}
		rare := rapid.IntRange(1, 400).Draw(t, "rare")
		for i := range 700 {
			agent, intent := "kelp", 20+next(rapid.SampledFrom([]int{1, 1, 40}).Draw(t, "intents"))
			if next(rare) == 0 {
				agent = names[1+next(4)]
			}
			topic := []string{"reef", "bay", "cove"}[min(next(6), 2)]
			c := &field.Change{
				Kind: field.KindWritten, At: int64(i), Epoch: int64(i), ID: fmt.Sprint("e", i), Agent: agent,
				Intent: strings.Repeat("i", intent), Entry: json.RawMessage(fmt.Sprintf(`{"topic":%q,"a":%d}`, topic, next(3))),
			}
			if err := l.state.Apply(c); err != nil {
				t.Fatal(err)
			}
			l.all = append(l.all, c.ID)
		}
		l.made = 700
		for range rapid.IntRange(0, 40).Draw(t, "ops") {
			l.step(t)
		}
		plain := l.naive(t)
		for range 3 {
			same(t, l, plain, drawAsk(t))
		}
	})
}

func same(t *rapid.T, l *life, plain *naive, q ask) {
	parsed, err := field.ParseQuery(field.OpReckon, json.RawMessage(encoded(q)), l.set)
	if err != nil {
		t.Fatal(err)
	}
	got, conflicts, more := l.state.Reckon(parsed, l.set)
	if attuned := l.state.Attune(parsed, l.set); !reflect.DeepEqual(got, attuned) {
		t.Fatalf("%s: attune is not what reckon gives:\n%s", encoded(q), cmp.Diff(got, attuned))
	}
	for i := range got {
		check(t, l.set, q, &got[i])
		got[i].Reason.Summary = ""
	}
	want := plain.attune(q)
	if !reflect.DeepEqual(want, got) { // cmp takes its time to find nothing
		t.Fatalf("%s %s (-full sort +got):\n%s", l.set.Mode, encoded(q), cmp.Diff(want, got))
	}
	pairs := make([]conflict, len(conflicts))
	for i, c := range conflicts {
		pairs[i] = conflict{c.A.ID, c.B.ID, c.Keys}
	}
	if plainly := plain.conflicts(want); !reflect.DeepEqual(plainly, pairs) || more {
		t.Fatalf("%s: conflicts (-plain +got):\n%s", encoded(q), cmp.Diff(plainly, pairs))
	}
}

// check holds one entry of a result against what may be in it at all.
func check(t *rapid.T, set field.Settings, q ask, e *field.Scored) {
	c := e.Reason.Components
	switch {
	case e.Status == field.StatusDraft && e.Agent != q.Agent:
		t.Fatalf("%s is given a draft of %s", q.Agent, e.Agent)
	case e.Status == field.StatusCommitted && e.Agent == q.Agent:
		t.Fatalf("%s is given its own entry", q.Agent)
	case e.Status == field.StatusRetracted || e.Status == field.StatusSuperseded:
		t.Fatalf("%s is given what is %s", q.Agent, e.Status)
	case e.Score < 0 || e.Score > 1 || e.Score != min(((c.Topic+c.Role)+c.Recency)+c.Intent, 1):
		t.Fatalf("score %v of %+v", e.Score, c)
	case c.Topic != 0 && c.Topic != 0.6, c.Role < 0, c.Role > 0.2, c.Recency < 0, c.Recency > 0.15, c.Intent < 0, c.Intent > 0.05:
		t.Fatalf("components %+v", c)
	case e.Reason.Summary == "" || set.Mode == field.Reference != strings.Contains(e.Reason.Summary, "(") && !strings.HasPrefix(e.Reason.Summary, "no "):
		t.Fatalf("%s: summary %q", set.Mode, e.Reason.Summary)
	}
}
