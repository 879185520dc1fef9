package storetest

import (
	"fmt"
	"strings"

	"attend/internal/engine"
	"attend/internal/store"
)

func containsAll(s string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(s, p) {
			return false
		}
	}
	return true
}

func queryCases() []testCase {
	return []testCase{
		{"EventsComeInTheOrderAskedFor", func(e *env) {
			e.write(entry("a", "b"), store.Entry{Steps: []engine.Step{flush()}, Scope: "a"}, entry("c"))
			for _, c := range []struct{ ask, want []engine.Position }{
				{[]engine.Position{4, 1, 2}, []engine.Position{4, 1, 2}},
				{[]engine.Position{2, 3, 2}, []engine.Position{2, 2}}, // 3 is a step
				{[]engine.Position{0, -1, 5, 1 << 60, 1}, []engine.Position{1}},
				{nil, nil},
			} {
				rs, err := e.s.Events(e.Context(), c.ask)
				if err != nil {
					e.Fatalf("events %v: %v", c.ask, err)
				}
				e.same(fmt.Sprintf("events %v", c.ask), positions(rs), c.want)
			}
			rs, err := e.s.Events(e.Context(), []engine.Position{2})
			if err != nil {
				e.Fatal(err)
			}
			e.same("event as in the log", rs, e.log(1, 1)[:1])
		}},
		{"ManyEventsAtOnce", func(e *env) {
			e.write(store.Entry{Events: events("a", 3000)})
			var ask []engine.Position
			for p := engine.Position(3000); p > 0; p-- {
				ask = append(ask, p)
			}
			rs, err := e.s.Events(e.Context(), ask)
			if err != nil {
				e.Fatal(err)
			}
			e.same("positions", positions(rs), ask)
		}},
		{"StepsAreSelected", stepsAreSelected},
		{"StepsWithoutALimitAreAThousand", func(e *env) {
			en := store.Entry{Scope: "a"}
			for range store.DefaultStepLimit + 5 {
				en.Steps = append(en.Steps, flush())
			}
			e.write(en)
			first := e.steps(store.StepQuery{})
			e.same("steps of the first page", len(first), store.DefaultStepLimit)
			rest := e.steps(store.StepQuery{After: first[len(first)-1].Position})
			e.same("steps of the second page", len(rest), 5)
		}},
	}
}

func stepsAreSelected(e *env) {
	f := e.own()
	owned := func(scope string, after engine.Position, steps ...engine.Step) engine.Position {
		e.Helper()
		return e.write(store.Entry{Events: events(scope, 2), Steps: steps, Scope: scope, Fence: f, After: after})[0].Last
	}
	call := engine.Step{Kind: engine.StepCall, Window: "w1", Call: &engine.Call{Attempt: 1, Judge: "rule"}}
	last := owned("a", 0, settled("w1"), call, decided("w1"))
	e.write(store.Entry{Steps: []engine.Step{flush()}, Scope: "a"})
	e.write(store.Entry{Steps: []engine.Step{flush()}, Scope: "b"})
	e.write(store.Entry{Steps: []engine.Step{{Kind: engine.StepSilence, Silence: &engine.Silence{ID: "s"}}}})
	owned("a", last, settled("w2"), letter("w2", "l1"))
	owned("b", 0, settled("w3"), decided("w3"))
	e.write(store.Entry{Steps: []engine.Step{flush(), flush()}, Scope: "a"})

	all := e.log(0, 1000)
	kinds := func(k ...engine.StepKind) []engine.StepKind { return k }
	for _, q := range []store.StepQuery{
		{},
		{Limit: 1},
		{Limit: 3, After: 4},
		{After: 1000},
		{After: -1},
		{Scope: "a"},
		{Scope: "a", Limit: 2},
		{Scope: "a", After: 6, Limit: 3},
		{Scope: "nobody"},
		{Kinds: kinds(engine.StepDecision)},
		{Kinds: kinds(engine.StepDecision, engine.StepDeadLetter)},
		{Kinds: kinds(engine.StepDeadLetter, engine.StepDecision, engine.StepDecision), Limit: 2},
		{Kinds: kinds(engine.StepDecision, engine.StepDeadLetter), After: 5, Limit: 1},
		{Kinds: kinds(engine.StepFlush, engine.StepSettled), Scope: "a"},
		{Kinds: kinds("no such kind")},
		{Window: "w1"},
		{Window: "w1", Kinds: kinds(engine.StepDecision)},
		{Window: "w1", After: 4, Limit: 1},
		{Window: "w1", Scope: "b"},
		{Window: "none"},
		{ID: "w1"},
		{ID: "l1"},
		{ID: "l1", Kinds: kinds(engine.StepDeadLetter), Scope: "a", Window: "w2"},
		{ID: "w2"},
	} {
		var want []engine.Record
		for i := range all {
			if q.Matches(&all[i]) && len(want) < q.Count() {
				want = append(want, all[i])
			}
		}
		e.same(fmt.Sprintf("steps %+v", q), e.steps(q), want)
	}
	e.same("decisions", len(e.steps(store.StepQuery{Kinds: kinds(engine.StepDecision)})), 2)
	e.same("steps of a", len(e.steps(store.StepQuery{Scope: "a"})), 8)
}
