package engine_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
)

// collected folds events of the kinds given, one a second from 1,000 on, at the
// positions 1, 2 and so on.
func collected(t *testing.T, judge string, kinds ...engine.Kind) (*engine.State, *engine.Rules) {
	t.Helper()
	r := engine.NewRules(compile(pureJudges()))
	set := engine.Defaults()
	set.DedupMs = 5000
	if err := r.Apply(engine.Record{Step: &engine.Step{Kind: engine.StepPolicy, Policy: &engine.Policy{Number: 1, Default: set, Judge: judge}}}); err != nil {
		t.Fatal(err)
	}
	s := engine.NewState("a")
	for i, k := range kinds {
		p := engine.Position(i + 1)
		s.Apply(r, &engine.Record{Position: p, Stamp: engine.Time(p) * 1000, Scope: "a", Event: &engine.Event{ID: k.String() + string(rune('a'+i)), Name: "n", Kind: k, Policy: 1}})
	}
	return s, r
}

func TestState_NamesWhatMayBeRead(t *testing.T) {
	const long = 1_000_000
	for _, c := range []struct {
		name  string
		judge string
		kinds []engine.Kind
		upto  engine.Position
		at    engine.Time
		want  []engine.Position
	}{
		{"nothing", "rule", nil, 9, long, nil},
		{"an act, however old", "rule", []engine.Kind{engine.Consequence, engine.Passive, engine.Context}, 9, long, []engine.Position{1, 2, 3}},
		{"up to a position", "rule", []engine.Kind{engine.Consequence, engine.Passive, engine.Context}, 2, long, []engine.Position{1, 2}},
		{"what only collects, while it is young", "rule", []engine.Kind{engine.Consequence, engine.Context}, 9, 31_000, []engine.Position{1, 2}},
		{"and some of it old", "rule", []engine.Kind{engine.Consequence, engine.Context}, 9, 31_001, []engine.Position{2}},
		{"and all", "rule", []engine.Kind{engine.Consequence, engine.Context}, 9, 32_001, nil},
		{"what a pure judge decided, until it is written", "rule", []engine.Kind{engine.Flush}, 9, long, []engine.Position{1}},
		{"what is judged, and what waits behind it", "model", []engine.Kind{engine.Flush, engine.Context}, 9, long, []engine.Position{1, 2}},
		{"what only collects behind a window that cannot be held", "written", []engine.Kind{engine.Flush, engine.Context}, 9, long, []engine.Position{1}},
	} {
		s, r := collected(t, c.judge, c.kinds...)
		if c.judge == "written" {
			settle(s, r, 3000)
		}
		before, err := engine.EncodeState(s)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, s.Named(r, c.upto, c.at)); d != "" {
			t.Errorf("%s: %s", c.name, d)
		}
		if after, err := engine.EncodeState(s); err != nil || string(after) != string(before) {
			t.Errorf("%s: it changed the state (%v)", c.name, err)
		}
	}
}

// settle writes down what the fold has decided.
func settle(s *engine.State, r *engine.Rules, at engine.Time) {
	for _, step := range s.Propose(r, at).Steps {
		s.Apply(r, &engine.Record{Position: s.Position + 1, Stamp: at, Scope: "a", Step: &step})
	}
}

func TestState_IsForgottenWhenNothingOfItMatters(t *testing.T) {
	s, r := collected(t, "rule", engine.Context, engine.Flush) // ids until 6,000 and 7,000
	if s.Forgettable(100_000) {
		t.Error("a window that is not written down was forgotten")
	}
	settle(s, r, 3000)
	for at, want := range map[engine.Time]bool{3000: false, 6999: false, 7000: true, 100_000: true} {
		if got := s.Forgettable(at); got != want {
			t.Errorf("at %d: %t", at, got)
		}
	}
	s.Open.Gap = true
	if s.Forgettable(100_000) {
		t.Error("a loss that was not told was forgotten")
	}
	if s, _ := collected(t, "rule", engine.Context); s.Forgettable(100_000) {
		t.Error("an open window was forgotten")
	}
}

// A row that is written after a record says nothing of blocks whose ids that
// record outlived: they may be gone with the row of before.
func TestState_LetsGoOfIDsAtAnyRecord(t *testing.T) {
	kinds := make([]engine.Kind, 70)
	for i := range kinds {
		kinds[i] = engine.Flush
	}
	s, r := collected(t, "rule", kinds...)
	settle(s, r, 70_000)
	if s.Seen.Len() == 0 {
		t.Fatal("nothing is remembered")
	}
	s.Apply(r, &engine.Record{Position: s.Position + 1, Stamp: 100_000, Scope: "a", Step: &engine.Step{Kind: engine.StepFlush}})
	if n := s.Seen.Len(); n != 0 {
		t.Errorf("%d ids are left", n)
	}
	body, err := engine.EncodeState(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.DecodeState(r, body, engine.Format, nil); err != nil {
		t.Errorf("the row needs blocks: %v", err)
	}
}
