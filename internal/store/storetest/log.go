package storetest

import (
	"errors"
	"regexp"

	"attend/internal/engine"
	"attend/internal/store"
)

func logCases() []testCase {
	return []testCase{
		{"AnEmptyLogHasAHead", func(e *env) {
			h := e.head()
			if h.Position != 0 || h.Stamp != 0 {
				e.Errorf("head of an empty log: %+v", h)
			}
			if !regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString(h.Epoch) {
				e.Errorf("epoch %q cannot stand in a URL", h.Epoch)
			}
			e.same("log", e.log(0, 10), nil)
		}},
		{"EveryStoreHasItsOwnEpoch", func(e *env) {
			if a, b := e.head().Epoch, e.head().Epoch; a != b {
				e.Errorf("the epoch changed from %q to %q", a, b)
			}
		}},
		{"ReceiptsTellThePositions", receiptsTellThePositions},
		{"EventsComeBeforeTheStepsOfTheirEntry", func(e *env) {
			en := entry("a", "b")
			en.Steps, en.Scope = []engine.Step{flush()}, "c"
			e.write(en)
			rs := e.log(0, 10)
			if len(rs) != 3 {
				e.Fatalf("%d records, want 3", len(rs))
			}
			if rs[0].Scope != "a" || rs[1].Scope != "b" || rs[2].Scope != "c" || rs[2].Step == nil || rs[2].Event != nil {
				e.Errorf("records in the wrong order: %+v", rs)
			}
		}},
		{"TheStampIsTheClocks", func(e *env) {
			e.clock.Set(start + 1234)
			rs := e.write(entry("a"))
			if rs[0].Stamp != start+1234 {
				e.Errorf("stamp %d, the clock shows %d", rs[0].Stamp, start+1234)
			}
			if got := e.log(0, 1)[0].Stamp; got != start+1234 {
				e.Errorf("the record's stamp is %d", got)
			}
		}},
		{"StampsNeverFallWhenTheClockDoes", func(e *env) {
			var last engine.Time
			for _, at := range []engine.Time{start, start + 50, start - 1000, start + 20, start + 60} {
				e.clock.Set(at)
				r := e.write(entry("a"))[0]
				if r.Stamp < last || r.Stamp < at {
					e.Errorf("at %d: stamp %d after %d", at, r.Stamp, last)
				}
				last = r.Stamp
			}
			e.same("stamp of the head", e.head().Stamp, last)
		}},
		{"AnEntryIsWrittenWholeOrNotAtAll", anEntryIsWrittenWholeOrNotAtAll},
		{"ABrokenEntryIsRefusedAlone", aBrokenEntryIsRefusedAlone},
		{"EmptyCallsAndEntriesDoNothing", func(e *env) {
			e.same("receipts", e.append(), nil)
			r := e.write(store.Entry{})[0]
			if r.First != 0 || r.Last != 0 {
				e.Errorf("an empty entry has positions: %+v", r)
			}
			e.same("head", e.head().Position, engine.Position(0))
		}},
		{"ReadGivesPages", func(e *env) {
			for i := range 7 {
				en := store.Entry{Events: events("a", i%3+1), Scope: "a"}
				if i%2 == 0 {
					en.Steps = []engine.Step{flush()}
				}
				e.write(en)
			}
			whole := e.log(0, 1000)
			for i := range whole {
				if whole[i].Position != engine.Position(i+1) {
					e.Fatalf("a gap: record %d stands at %d", i, whole[i].Position)
				}
			}
			e.same("last record", whole[len(whole)-1].Position, e.head().Position)
			for _, page := range []int{1, 2, 3, 5, len(whole) - 1, len(whole)} {
				e.same("log by pages", e.log(0, page), whole)
			}
			for after := range whole {
				e.same("log after", e.log(engine.Position(after), 4), whole[after:])
			}
			e.same("log behind the head", e.log(e.head().Position+5, 4), nil)
		}},
		{"WhatWasReadStaysAsItIs", func(e *env) {
			e.write(entry("a", "b"))
			before := e.log(0, 1)
			kept := before[0]
			before = append(before, engine.Record{Position: 99}) // the caller's own slice, not the store's
			e.write(entry("c"))
			e.same("first record", before[0], kept)
			e.same("second record", e.log(1, 1)[0].Scope, "b")
		}},
	}
}

func receiptsTellThePositions(e *env) {
	three := store.Entry{Events: events("a", 2), Steps: []engine.Step{flush()}, Scope: "a"}
	rows := store.Entry{Puts: []store.Put{{Space: "x", Key: "k", Value: []byte("v")}}}
	rs := e.write(entry("a"), three, rows, entry("b", "c"))
	for i, want := range []store.Receipt{{First: 1, Last: 1}, {First: 2, Last: 4}, {}, {First: 5, Last: 6}} {
		want.Stamp = start
		if rs[i] != want {
			e.Errorf("receipt %d: %+v, want %+v", i, rs[i], want)
		}
	}
	h := e.head()
	if h.Position != 6 || h.Stamp != start {
		e.Errorf("head %+v", h)
	}
	more := e.write(entry("d"))[0]
	if more.First != 7 || more.Last != 7 {
		e.Errorf("the next call's receipt: %+v", more)
	}
}

func anEntryIsWrittenWholeOrNotAtAll(e *env) {
	fence := e.own()
	bad := store.Entry{
		Events: events("a", 3), Steps: []engine.Step{settled("w")}, Scope: "a",
		Puts:  []store.Put{{Space: "x", Key: "k", Value: []byte("v")}},
		Fence: fence, After: 17,
	}
	rs := e.append(entry("b"), bad, entry("c"))
	if rs[0].Err != nil || rs[2].Err != nil {
		e.Fatalf("good entries were refused: %v, %v", rs[0].Err, rs[2].Err)
	}
	if !errors.Is(rs[1].Err, store.ErrConflict) {
		e.Fatalf("the bad entry: %v, want a conflict", rs[1].Err)
	}
	if rs[0].Last != 1 || rs[2].First != 2 {
		e.Errorf("a refused entry took positions: %+v", rs)
	}
	var scopes []string
	for _, r := range e.log(0, 10) {
		scopes = append(scopes, r.Scope)
	}
	e.same("scopes in the log", scopes, []string{"b", "c"})
	if _, err := e.s.Row(e.Context(), "x", "k"); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("the row of a refused entry: %v, want not found", err)
	}
	e.same("steps", e.steps(store.StepQuery{Window: "w"}), nil)
}

func aBrokenEntryIsRefusedAlone(e *env) {
	nan := 0.0
	nan /= nan
	broken := []store.Entry{
		{Events: []store.NewEvent{event("a", "1"), event("", "2")}},
		{Steps: []engine.Step{settled("w")}, Scope: "a"},
		{Steps: []engine.Step{{}}, Scope: "a"},
		{Puts: []store.Put{{Key: "k", Value: []byte("v")}}},
		{Steps: []engine.Step{{Kind: engine.StepPolicy, Policy: &engine.Policy{Default: engine.Settings{RetryJitter: nan}}}}},
	}
	for i := range broken {
		rs := e.append(broken[i], entry("fine"))
		if !errors.Is(rs[0].Err, store.ErrInvalid) {
			e.Errorf("entry %d: %v, want it refused as invalid", i, rs[0].Err)
		}
		if rs[1].Err != nil || rs[1].First != engine.Position(i+1) {
			e.Errorf("the entry beside entry %d: %+v", i, rs[1])
		}
	}
}
