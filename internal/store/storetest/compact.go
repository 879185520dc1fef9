package storetest

import (
	"errors"
	"slices"
	"sync"

	"attend/internal/engine"
	"attend/internal/store"
)

// compactor is the store, where it can be compacted; a case of its own is
// skipped by Run otherwise.
func (e *env) compactor() store.Compactor { return e.s.(store.Compactor) } //nolint:forcetypeassert // Run asked

// compact calls until it is done, and adds up what was done.
func (e *env) compact(f store.Fence, c store.Compaction) (all store.Compacted) {
	e.Helper()
	for {
		done, err := e.compactor().Compact(e.Context(), f, c)
		if err != nil {
			e.Fatalf("compact: %v", err)
		}
		all.Kept, all.Done = done.Kept, done.Done
		all.Events, all.Steps = all.Events+done.Events, all.Steps+done.Steps
		all.Aside, all.Released = all.Aside+done.Aside, all.Released+done.Released
		if done.Done {
			return all
		}
		c.Release = nil
	}
}

func (e *env) kept() store.Kept {
	e.Helper()
	k, err := e.compactor().Kept(e.Context())
	if err != nil {
		e.Fatalf("kept: %v", err)
	}
	return k
}

func (e *env) aside(after engine.Position, limit int) []engine.Position {
	e.Helper()
	ps, err := e.compactor().Aside(e.Context(), after, limit)
	if err != nil {
		e.Fatalf("aside: %v", err)
	}
	return ps
}

func (e *env) events(ps ...engine.Position) []engine.Record {
	e.Helper()
	rs, err := e.s.Events(e.Context(), ps)
	if err != nil {
		e.Fatalf("events: %v", err)
	}
	return rs
}

// tenEntries writes ten entries of three events and a step, of which the third
// is a policy and the others flush calls: 40 records.
func (e *env) tenEntries() []engine.Record {
	e.Helper()
	for i := range 10 {
		en := store.Entry{Events: events("a", 3), Scope: "a", Steps: []engine.Step{flush()}}
		if i == 2 {
			en.Scope, en.Steps = "", []engine.Step{{Kind: engine.StepPolicy, Policy: &engine.Policy{Number: 1, Default: engine.Defaults(), Judge: "rule"}}}
		}
		e.clock.Set(start + engine.Time(i))
		e.write(en)
	}
	return e.log(0, 100)
}

func compactCases() []testCase {
	return []testCase{
		{"NothingIsGoneAtFirst", func(e *env) {
			e.same("marks", e.kept(), store.Kept{})
			e.same("side table", e.aside(0, 10), nil)
		}},
		{"WhatIsOldIsDeleted", whatIsOldIsDeleted},
		{"WhatIsNamedStaysReadable", whatIsNamedStaysReadable},
		{"WhatIsNamedIsReadableAtEveryInstant", whatIsNamedIsReadableAtEveryInstant},
		{"ACallIsBounded", func(e *env) {
			e.tenEntries()
			f := e.own()
			e.save(f, 40)
			c := store.Compaction{Events: 40, Steps: 39, Limit: 7}
			calls := 0
			for done := false; !done; calls++ {
				before := e.kept()
				r, err := e.compactor().Compact(e.Context(), f, c)
				if err != nil {
					e.Fatal(err)
				}
				if r.Events > 7 || r.Steps > 7 || r.Kept.Events > before.Events+7 || r.Kept.Steps > before.Steps+7 {
					e.Errorf("a call of at most 7 from %+v: %+v", before, r)
				}
				e.same("marks", e.kept(), r.Kept)
				done = r.Done
			}
			if calls != 6 {
				e.Errorf("%d calls, want 6", calls)
			}
		}},
		{"TheHeadStays", theHeadStays},
		{"NothingBehindTheCheckpointIsDeleted", func(e *env) {
			whole := e.tenEntries()
			f := e.own()
			e.save(f, 20)
			for name, c := range map[string]store.Compaction{
				"above the checkpoint":   {Events: 21, Steps: 4, Limit: 10},
				"steps above events":     {Events: 10, Steps: 11, Limit: 10},
				"no limit":               {Events: 10, Steps: 10},
				"below the beginning":    {Events: -1, Steps: -1, Limit: 10},
				"names that do not rise": {Events: 10, Limit: 10, Keep: []engine.Position{5, 2}},
			} {
				if _, err := e.compactor().Compact(e.Context(), f, c); !errors.Is(err, store.ErrInvalid) {
					e.Errorf("%s: %v, want invalid", name, err)
				}
			}
			if _, err := e.compactor().Compact(e.Context(), store.Fence{}, store.Compaction{Events: 1, Limit: 1}); !errors.Is(err, store.ErrFenced) {
				e.Errorf("without a right: %v", err)
			}
			e.own()
			if _, err := e.compactor().Compact(e.Context(), f, store.Compaction{Events: 1, Limit: 1}); !errors.Is(err, store.ErrFenced) {
				e.Errorf("the owner before: %v", err)
			}
			e.same("marks", e.kept(), store.Kept{})
			e.same("log", e.log(0, 100), whole)
		}},
		{"AMarkDoesNotFall", func(e *env) {
			e.tenEntries()
			f := e.own()
			e.save(f, 40)
			e.compact(f, store.Compaction{Events: 20, Steps: 12, Limit: 100})
			got := e.compact(f, store.Compaction{Events: 10, Steps: 4, Limit: 100})
			e.same("a lower compaction", got, store.Compacted{Kept: store.Kept{Events: 20, Steps: 12}, Done: true})
		}},
		{"AnOwnersStepIsComparedWithWhatIsLeft", anOwnersStepIsComparedWithWhatIsLeft},
		{"AForgottenScopeLeavesNothing", aForgottenScopeLeavesNothing},
	}
}

func whatIsOldIsDeleted(e *env) {
	whole := e.tenEntries()
	f := e.own()
	e.save(f, 40)
	got := e.compact(f, store.Compaction{Events: 30, Steps: 17, Limit: 11})
	e.same("done", got, store.Compacted{Kept: store.Kept{Events: 30, Steps: 17}, Events: 23, Steps: 3, Done: true})
	var left []engine.Record
	for _, r := range whole {
		if r.Position > 30 || r.Step != nil && (r.Position > 17 || r.Step.Kind == engine.StepPolicy) {
			left = append(left, r)
		}
	}
	for _, page := range []int{1, 3, 100} {
		e.same("log", e.log(0, page), left)
	}
	for _, after := range []engine.Position{11, 12, 17, 25, 30, 33, 40} {
		from := slices.IndexFunc(left, func(r engine.Record) bool { return r.Position > after })
		if from < 0 {
			from = len(left)
		}
		e.same("log after", e.log(after, 2), left[from:])
	}
	e.same("policies", positions(e.steps(store.StepQuery{Kinds: []engine.StepKind{engine.StepPolicy}})), []engine.Position{12})
	e.same("steps of the scope", positions(e.steps(store.StepQuery{Scope: "a"})), []engine.Position{20, 24, 28, 32, 36, 40})
	e.same("events", positions(e.events(1, 29, 31, 30, 34)), []engine.Position{31, 34})
	r := e.write(entry("a"))[0]
	e.same("next position", r.First, engine.Position(41))
}

func whatIsNamedStaysReadable(e *env) {
	whole := e.tenEntries()
	f := e.own()
	e.save(f, 40)
	got := e.compact(f, store.Compaction{Events: 30, Keep: []engine.Position{2, 9, 27, 31, 39}, Limit: 8})
	if got.Aside != 3 {
		e.Errorf("%d events were kept, want 3: %+v", got.Aside, got)
	}
	e.same("side table", e.aside(0, 10), []engine.Position{2, 9, 27})
	e.same("a page of it", e.aside(2, 1), []engine.Position{9})
	e.same("events", e.events(39, 9, 1, 2, 27), []engine.Record{whole[38], whole[8], whole[1], whole[26]})
	for _, r := range e.log(0, 100) {
		if r.Event != nil && r.Position <= 30 {
			e.Errorf("the event at %d is still a record of the log", r.Position)
		}
	}
	got = e.compact(f, store.Compaction{Events: 34, Keep: []engine.Position{9, 31}, Release: []engine.Position{1, 2, 27}, Limit: 100})
	if got.Released != 2 || got.Aside != 1 {
		e.Errorf("released and kept: %+v", got)
	}
	e.same("side table", e.aside(0, 10), []engine.Position{9, 31})
	e.same("events", positions(e.events(2, 9, 27, 31)), []engine.Position{9, 31})
	got = e.compact(f, store.Compaction{Events: 34, Release: []engine.Position{9, 31}, Limit: 100})
	if got.Released != 2 || !got.Done {
		e.Errorf("released alone: %+v", got)
	}
	e.same("side table", e.aside(0, 10), nil)
}

// theHeadStays: position and stamp go on where they were although nothing is
// left.
func theHeadStays(e *env) {
	e.clock.Set(start + 5000)
	e.write(store.Entry{Events: events("a", 3), Scope: "a", Steps: []engine.Step{flush()}})
	head := e.head()
	f := e.own()
	e.save(f, 4)
	e.compact(f, store.Compaction{Events: 4, Steps: 4, Limit: 3})
	e.same("log", e.log(0, 10), nil)
	e.same("head", e.head(), head)
	e.clock.Set(start)
	if e.suite.reopen != nil {
		e.reopen()
		e.same("head after a restart", e.head(), head)
		e.same("marks after a restart", e.kept(), store.Kept{Events: 4, Steps: 4})
	}
	r := e.write(entry("a"))[0]
	if r.First != 5 || r.Stamp < head.Stamp {
		e.Errorf("the next entry stands at %d, stamp %d; the head was %+v", r.First, r.Stamp, head)
	}
	e.same("log", positions(e.log(0, 10)), []engine.Position{5})
}

func anOwnersStepIsComparedWithWhatIsLeft(e *env) {
	f := e.own()
	settle := func(scope string, after engine.Position) store.Entry {
		return store.Entry{Steps: []engine.Step{settled("w")}, Scope: scope, Fence: f, After: after}
	}
	e.write(settle("a", 0), settle("b", 0), entry("a"))
	e.save(f, 3)
	e.compact(f, store.Compaction{Events: 1, Steps: 1, Limit: 10})
	if r := e.append(settle("b", 1))[0]; !errors.Is(r.Err, store.ErrConflict) {
		e.Errorf("an owner that knows of no step that is left: %v, want a conflict", r.Err)
	}
	e.write(settle("b", 2), settle("a", 1)) // 1 is gone
	if r := e.append(settle("a", 1))[0]; !errors.Is(r.Err, store.ErrConflict) {
		e.Errorf("over a new step: %v, want a conflict", r.Err)
	}
	e.save(f, 5)
	e.compact(f, store.Compaction{Events: 5, Steps: 5, Limit: 10})
	e.write(settle("a", 0)) // a scope that was forgotten begins anew
	e.write(settle("b", 4))
}

func aForgottenScopeLeavesNothing(e *env) {
	f := e.own()
	e.save(f, 1, state("a", 5, "five", block(1, "x")), state("b", 6, "six"), state("c", 7, "seven"))
	drop := func(f store.Fence, rows ...store.StateAt) (int, error) {
		return e.compactor().DropStates(e.Context(), f, rows)
	}
	if n, err := drop(f, store.StateAt{Scope: "a", Position: 5}, store.StateAt{Scope: "b", Position: 5}, store.StateAt{Scope: "none", Position: 1}); n != 1 || err != nil {
		e.Errorf("dropped %d (%v), want the one that stands as it was", n, err)
	}
	if _, err := e.s.LoadState(e.Context(), "a"); !errors.Is(err, store.ErrNotFound) {
		e.Errorf("a dropped state: %v", err)
	}
	names, err := e.s.ScopeNames(e.Context(), "", 10)
	if err != nil {
		e.Fatal(err)
	}
	e.same("names", names, []string{"b", "c"})
	e.save(f, 0, state("a", 9, "again"))
	e.same("the state made again", e.state("a"), state("a", 9, "again"))
	e.own()
	if _, err := drop(f, store.StateAt{Scope: "c", Position: 7}); !errors.Is(err, store.ErrFenced) {
		e.Errorf("the owner before: %v", err)
	}
}

// whatIsNamedIsReadableAtEveryInstant: a reader of an event that stays never
// finds it in neither place, and finds what is missing from the log behind the
// mark.
func whatIsNamedIsReadableAtEveryInstant(e *env) {
	const entries = 300
	named := []engine.Position{3, 77, 78, 400, 899}
	for range entries {
		e.write(store.Entry{Events: events("a", 3)})
	}
	f := e.own()
	e.save(f, 3*entries)
	done := make(chan struct{})
	var reading sync.WaitGroup
	for range 3 {
		reading.Go(func() {
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true
				default:
				}
				if rs, err := e.s.Events(e.Context(), named); err != nil || len(rs) != len(named) {
					e.Errorf("%d of %d events are readable (%v)", len(rs), len(named), err)
					return
				}
				rs, err := e.s.Read(e.Context(), 0, 1)
				if err != nil {
					e.Errorf("read: %v", err)
					return
				}
				kept, err := e.compactor().Kept(e.Context()) // after the read
				if err != nil || len(rs) > 0 && rs[0].Position > kept.Events+1 {
					e.Errorf("the log begins at %d, and the mark is %d (%v)", rs[0].Position, kept.Events, err)
					return
				}
			}
		})
	}
	e.compact(f, store.Compaction{Events: 3*entries - 1, Steps: 3*entries - 1, Keep: named, Limit: 20})
	close(done)
	reading.Wait()
	e.same("side table", e.aside(0, 10), named)
}
