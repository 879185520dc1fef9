package storetest

import (
	"errors"

	"attend/internal/engine"
	"attend/internal/store"
)

func reopenCases() []testCase {
	return []testCase{
		{"TheLogIsAsItWas", func(e *env) {
			f := e.own()
			for _, s := range strange() {
				ev := event(s, s)
				ev.Name, ev.Text, ev.Data = s, s, []byte(s)
				e.write(store.Entry{Events: []store.NewEvent{ev}})
			}
			e.write(store.Entry{Events: []store.NewEvent{{Scope: "a", Event: engine.Event{ID: "i", Name: "n"}}}})
			e.write(store.Entry{Steps: stepsOfEveryKind(), Scope: "a", Fence: f}, store.Entry{Events: events("b", 700)})
			want, head := e.log(0, 100), e.head()
			query := store.StepQuery{Kinds: []engine.StepKind{engine.StepDecision, engine.StepFlush}, Scope: "a"}
			steps := e.steps(query)
			e.reopen()
			e.same("log", e.log(0, 100), want)
			e.same("log in one page", e.log(0, 10_000), want)
			e.same("log one by one", e.log(head.Position-30, 1), want[head.Position-30:])
			e.same("head", e.head(), head)
			e.same("steps", e.steps(query), steps)
			rs, err := e.s.Events(e.Context(), []engine.Position{3, 1})
			if err != nil {
				e.Fatal(err)
			}
			e.same("events", rs, []engine.Record{want[2], want[0]})
			r := e.write(entry("a"))[0]
			e.same("next position", r.First, head.Position+1)
		}},
		{"StampsDoNotFall", func(e *env) {
			for name, write := range map[string]store.Entry{
				"events": entry("a"),
				"steps":  {Steps: []engine.Step{flush()}, Scope: "a"},
			} {
				e.clock.Set(start + 5000)
				last := e.write(write)[0].Stamp
				e.clock.Set(start)
				e.reopen()
				if r := e.write(entry("a"))[0]; r.Stamp < last {
					e.Errorf("after %s: stamp %d, it was %d", name, r.Stamp, last)
				}
			}
		}},
		{"WhatStandsBesideTheLogIsAsItWas", func(e *env) {
			f := e.own()
			secret, err := e.s.Secret(e.Context())
			if err != nil {
				e.Fatal(err)
			}
			row := state("a", 1, "body", block(1, "x"), block(2, "y"))
			row.Live, row.WakeAt = true, start+9
			e.write(store.Entry{Events: events("a", 3), Puts: []store.Put{{Space: "x", Key: "k", Value: []byte("v")}}})
			e.save(f, 2, row)
			e.reopen()
			e.same("state", e.state("a"), row)
			e.same("checkpoint", e.checkpoint(f), engine.Position(2))
			again, err := e.s.Secret(e.Context())
			if err != nil || string(again) != string(secret) {
				e.Errorf("the secret changed: %v", err)
			}
			v, err := e.s.Row(e.Context(), "x", "k")
			if err != nil || string(v) != "v" {
				e.Errorf("row: %q, %v", v, err)
			}
		}},
		{"FieldsAreAsTheyWere", fieldsAreAsTheyWere},
		{"TheOwnersComparisonsStillHold", func(e *env) {
			f := e.own()
			settle := store.Entry{Steps: []engine.Step{settled("w1"), decided("w1")}, Scope: "a", Fence: f}
			last := e.write(settle)[0].Last
			e.write(store.Entry{Steps: []engine.Step{flush()}, Scope: "a"}, entry("a"), entry("b"))
			e.clock.Set(start + 100)
			e.write(entry("a"))
			e.reopen()
			next := e.own()
			if next.Token <= f.Token {
				e.Errorf("token %d after %d", next.Token, f.Token)
			}
			settle.After = last
			if r := e.append(settle)[0]; !errors.Is(r.Err, store.ErrFenced) {
				e.Errorf("the owner before: %v, want fenced", r.Err)
			}
			settle.Fence, settle.After = next, 0
			if r := e.append(settle)[0]; !errors.Is(r.Err, store.ErrConflict) {
				e.Errorf("an owner that knows no steps: %v, want a conflict", r.Err)
			}
			settle.After, settle.Due, settle.Applied = last, start+100, last+1
			if r := e.append(settle)[0]; !errors.Is(r.Err, store.ErrBehind) {
				e.Errorf("over an event that is not applied: %v, want behind", r.Err)
			}
			settle.Applied = last + 2
			e.write(settle)
		}},
		{"ARestartedReaderGoesOnWhereItWas", func(e *env) {
			e.write(entry("a", "b", "c"))
			first := e.log(0, 2)[:2]
			e.reopen()
			e.write(entry("d"))
			rest := e.log(first[1].Position, 1)
			e.same("scopes of the rest", []string{rest[0].Scope, rest[1].Scope}, []string{"c", "d"})
		}},
	}
}
