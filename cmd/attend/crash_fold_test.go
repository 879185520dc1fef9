package main_test

import (
	"maps"
	"slices"

	"attend/internal/engine"
	"attend/internal/judge"
)

// folded is one scope's log, folded from its first record by somebody who has
// seen nothing else.
type folded struct {
	state    *engine.State
	accepted []engine.Position
	copies   int // events that the fold refused as duplicates
	shed     int // events that the rules dropped
}

// checkFold folds the log anew and compares: the records are what the rules
// make of the events, and every accepted event is in a final window, is still
// open or held, or was shed by the rules and counted.
func checkFold(f *findings, log []engine.Record, w *windows, seen *evidence, sum *totals) {
	rules := engine.NewRules(judge.Compile)
	scopes := make(map[string]*folded)
	for i := range log {
		r := &log[i]
		if r.Scope == "" {
			if err := rules.Apply(*r); err != nil {
				f.add("fold", "position %d: %v", r.Position, err)
			}
			continue
		}
		s := scopes[r.Scope]
		if s == nil {
			s = &folded{state: engine.NewState(r.Scope)}
			scopes[r.Scope] = s
		}
		s.apply(f, rules, r)
	}
	for _, name := range slices.Sorted(maps.Keys(scopes)) {
		s := scopes[name]
		s.account(f, w)
		if seen.drained {
			s.checkIdle(f)
		}
		sum.refused += s.copies
		sum.shed += s.shed
	}
}

func (s *folded) apply(f *findings, rules *engine.Rules, r *engine.Record) {
	out := s.state.Apply(rules, r)
	switch {
	case out.Diverged != "":
		f.add("diverged", "position %d, scope %q: %s", r.Position, r.Scope, out.Diverged)
	case out.Ignored:
		f.add("diverged", "position %d, scope %q: a %s step that nothing waits for", r.Position, r.Scope, r.Step.Kind)
	case r.Event != nil && out.Duplicate:
		s.copies++
	case r.Event != nil:
		s.accepted = append(s.accepted, r.Position)
	}
	s.shed += out.Overflow.Count + out.Age.Count
}

// live are the events of the windows that have no outcome yet.
func (s *folded) live() map[engine.Position]bool {
	live := make(map[engine.Position]bool)
	note := func(members engine.Members) {
		for i := range members {
			live[members[i].Position] = true
		}
	}
	note(s.state.Open.Events)
	if s.state.Held != nil {
		note(s.state.Held.Members)
	}
	if s.state.Slot != nil {
		note(s.state.Slot.Members)
	}
	for i := range s.state.Pending {
		note(s.state.Pending[i].Members)
	}
	return live
}

// account says where each accepted event is.
func (s *folded) account(f *findings, w *windows) {
	name, live := s.state.Scope, s.live()
	gone, placed := 0, make(map[string]engine.Position, len(s.accepted))
	for _, p := range s.accepted {
		e := w.events[p].Event
		if first, again := placed[e.ID]; again {
			f.add("twice", "event %q of scope %q was accepted at position %d and at %d", e.ID, name, first, p)
		}
		placed[e.ID] = p
		switch inWindow, isLive := w.owner[p] != nil, live[p]; {
		case inWindow && isLive:
			f.add("twice", "event %q of scope %q has its outcome, and is in a window that has none", e.ID, name)
		case !inWindow && !isLive && e.Kind.Sheddable():
			gone++
		case !inWindow && !isLive:
			f.add("dropped", "the %s event %q of scope %q, at position %d, is in no window: acts are never shed", e.Kind, e.ID, name, p)
		}
	}
	if gone != s.shed {
		f.add("dropped", "scope %q: %d events are in no window, and the rules shed %d", name, gone, s.shed)
	}
	if told := s.told(w); told != s.shed {
		f.add("dropped", "scope %q: its windows tell of %d dropped events, and the rules shed %d", name, told, s.shed)
	}
}

// told is how many dropped events the scope's windows tell of, those too that
// have closed and are not written down yet.
func (s *folded) told(w *windows) int {
	n := s.state.Open.Dropped
	for i := range s.state.Pending {
		n += s.state.Pending[i].Settled.Dropped
	}
	for _, win := range w.inOrder {
		if win.scope == s.state.Scope && win.taken == "" {
			n += win.settled.Dropped
		}
	}
	return n
}

// checkIdle: after the last flush nothing is left that could lead to a
// decision.
func (s *folded) checkIdle(f *findings) {
	st := s.state
	switch {
	case len(st.Open.Deadlines()) > 0:
		f.add("stuck", "scope %q has an open window of %d events, due %v", st.Scope, len(st.Open.Events), st.Open.Deadlines())
	case len(st.Open.Events) > 0:
		f.add("stuck", "scope %q has %d open events after its flush", st.Scope, len(st.Open.Events))
	case st.Held != nil:
		f.add("stuck", "scope %q holds window %s", st.Scope, st.Held.Settled.Window)
	case st.Slot != nil:
		f.add("stuck", "scope %q judges window %s", st.Scope, st.Slot.Settled.Window)
	case !st.Idle():
		f.add("stuck", "scope %q has %d closed windows that no step tells of", st.Scope, len(st.Pending))
	}
}
