package storetest

import (
	"errors"

	"attend/internal/engine"
	"attend/internal/store"
)

func ownerCases() []testCase {
	return []testCase{
		{"OwningFencesEarlierOwners", owningFencesEarlierOwners},
		{"NobodysFenceIsRefused", func(e *env) {
			for _, f := range []store.Fence{{Shard: -1}, {Shard: -1, Token: 1}, {Shard: 3, Token: 1}} {
				r := e.append(store.Entry{Steps: []engine.Step{settled("w")}, Scope: "a", Fence: f})[0]
				if !errors.Is(r.Err, store.ErrFenced) {
					e.Errorf("fence %+v before anyone owns: %v", f, r.Err)
				}
			}
			mine := e.own()
			mine.Shard++
			r := e.append(store.Entry{Steps: []engine.Step{settled("w")}, Scope: "a", Fence: mine})[0]
			if !errors.Is(r.Err, store.ErrFenced) {
				e.Errorf("fence of another shard: %v", r.Err)
			}
		}},
		{"AnEntryFollowsTheScopesLastNumberedStep", anEntryFollowsTheLastNumberedStep},
		{"OfTwoEntriesThatFollowOneStepTheFirstWins", func(e *env) {
			f := e.own()
			first := store.Entry{Steps: []engine.Step{settled("w1")}, Scope: "a", Fence: f}
			second := store.Entry{Steps: []engine.Step{settled("w2")}, Scope: "a", Fence: f}
			rs := e.append(first, second)
			if rs[0].Err != nil || !errors.Is(rs[1].Err, store.ErrConflict) {
				e.Errorf("receipts %+v", rs)
			}
		}},
		{"NothingIsWrittenBeforeItsTime", func(e *env) {
			f := e.own()
			en := store.Entry{Steps: []engine.Step{settled("w")}, Scope: "a", Fence: f, Due: start + 100}
			e.clock.Set(start + 99)
			if r := e.append(en)[0]; !errors.Is(r.Err, store.ErrBehind) {
				e.Errorf("a millisecond early: %v, want behind", r.Err)
			}
			e.clock.Set(start + 100)
			e.write(en)
		}},
		{"TheLogsStampCountsNotTheClock", func(e *env) {
			f := e.own()
			e.clock.Set(start + 200)
			p := e.write(entry("b"))[0].Last
			e.clock.Set(start) // fell back; the log's stamp did not
			e.write(store.Entry{Steps: []engine.Step{settled("w")}, Scope: "a", Fence: f, Due: start + 150, Applied: p})
		}},
		{"WhatTheOwnerHasNotAppliedForbidsASettle", whatTheOwnerHasNotAppliedForbidsASettle},
		{"RecordsOfEveryScopeForbidASettle", func(e *env) {
			f := e.own()
			e.write(store.Entry{Steps: []engine.Step{{Kind: engine.StepSilence, Silence: &engine.Silence{ID: "s"}}}})
			e.clock.Set(start + 100)
			en := store.Entry{Steps: []engine.Step{settled("w")}, Scope: "a", Fence: f, Due: start + 100}
			if r := e.append(en)[0]; !errors.Is(r.Err, store.ErrBehind) {
				e.Errorf("over an unapplied silence: %v, want behind", r.Err)
			}
			en.Applied = 1
			e.write(en)
		}},
		{"ARefusalNamesWhatIsInTheWay", func(e *env) {
			f := e.own()
			r := e.append(store.Entry{Steps: []engine.Step{settled("w")}, Scope: "room:7", Fence: f, After: 12})[0]
			if r.Err == nil || r.First != 0 || r.Last != 0 {
				e.Fatalf("receipt %+v", r)
			}
			if msg := r.Err.Error(); !containsAll(msg, `"room:7"`, "12") {
				e.Errorf("the refusal %q names neither scope nor position", msg)
			}
		}},
	}
}

func owningFencesEarlierOwners(e *env) {
	first := e.own()
	en := store.Entry{Steps: []engine.Step{settled("w1")}, Scope: "a", Fence: first}
	last := e.write(en)[0].Last
	second := e.own()
	if second.Shard != -1 || second.Token <= first.Token {
		e.Errorf("fences %+v, then %+v", first, second)
	}
	en.After = last
	if r := e.append(en)[0]; !errors.Is(r.Err, store.ErrFenced) {
		e.Errorf("an append of the first owner: %v, want fenced", r.Err)
	}
	if err := e.s.SaveStates(e.Context(), first, nil, 1); !errors.Is(err, store.ErrFenced) {
		e.Errorf("states of the first owner: %v, want fenced", err)
	}
	if err := e.s.SaveStates(e.Context(), store.Fence{}, nil, 1); !errors.Is(err, store.ErrFenced) {
		e.Errorf("states of nobody: %v, want fenced", err)
	}
	en.Fence = second
	e.write(en)
	e.write(entry("a")) // producers need no fence
}

func anEntryFollowsTheLastNumberedStep(e *env) {
	f := e.own()
	owned := func(scope string, after engine.Position, steps ...engine.Step) store.Entry {
		return store.Entry{Steps: steps, Scope: scope, Fence: f, After: after}
	}
	refused := func(en store.Entry) {
		e.Helper()
		if r := e.append(en)[0]; !errors.Is(r.Err, store.ErrConflict) {
			e.Errorf("scope %q after %d: %v, want a conflict", en.Scope, en.After, r.Err)
		}
	}
	refused(owned("a", 1, settled("w1")))
	r := e.write(owned("a", 0, settled("w1"), decided("w1")))[0]
	refused(owned("a", 0, settled("w2")))
	refused(owned("a", r.First, settled("w2")))
	refused(owned("a", r.Last+1, settled("w2")))

	// Another scope has numbers of its own.
	e.write(owned("b", 0, settled("w3")))
	// What anyone may append does not count, whoever appends it.
	e.write(store.Entry{Steps: []engine.Step{flush()}, Scope: "a"}, entry("a"))
	e.write(owned("a", r.Last, flush()))
	r = e.write(owned("a", r.Last, settled("w4"), flush()))[0]
	refused(owned("a", r.Last, settled("w5")))
	e.write(owned("a", r.First, settled("w5")))
}

func whatTheOwnerHasNotAppliedForbidsASettle(e *env) {
	f := e.own()
	e.write(entry("a"))                       // 1
	e.clock.Set(start + 50)                   //
	e.write(entry("b"), entry("a"))           // 2, 3
	e.clock.Set(start + 100)                  //
	e.write(entry("a"), entry("b", "c", "a")) // 4, 5, 6, 7
	steps := []engine.Step{settled("w")}
	for _, c := range []struct {
		scope   string
		applied engine.Position
		due     engine.Time
		behind  bool
		because string
	}{
		{"a", 0, start + 100, true, "1 and 3 are not applied"},
		{"a", 1, start + 100, true, "3 is not applied"},
		{"a", 2, start + 51, true, "3 is not applied"},
		{"b", 1, start + 60, true, "2 is not applied"},
		{"a", 1, start + 50, false, "3 was stamped at the due, not before it"},
		{"b", 2, start + 100, false, "5 was stamped at the due"},
		{"c", 0, start + 100, false, "nothing of the scope was stamped before"},
		{"d", 0, start + 100, false, "the scope has no records"},
	} {
		r := e.append(store.Entry{Steps: steps, Scope: c.scope, Fence: f, Applied: c.applied, Due: c.due})[0]
		if errors.Is(r.Err, store.ErrBehind) != c.behind || (!c.behind && r.Err != nil) {
			e.Errorf("scope %s, applied %d, due %d: %v, want behind to be %t: %s", c.scope, c.applied, c.due-start, r.Err, c.behind, c.because)
		}
	}
	// A flush call is a record like any other, and so are the owner's own steps.
	e.write(store.Entry{Steps: []engine.Step{flush()}, Scope: "e"})
	at := e.head().Position
	e.clock.Set(start + 200)
	en := store.Entry{Steps: steps, Scope: "e", Fence: f, Applied: at - 1, Due: start + 200}
	if r := e.append(en)[0]; !errors.Is(r.Err, store.ErrBehind) {
		e.Errorf("over an unapplied flush call: %v, want behind", r.Err)
	}
	en.Applied = at
	e.write(en)
}
