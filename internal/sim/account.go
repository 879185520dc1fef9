package sim

import (
	"slices"

	"attend/internal/engine"
)

// folded is one scope's log and its fold, by somebody who has seen nothing
// else.
type folded struct {
	state    *engine.State
	records  []engine.Record
	accepted []engine.Position
	copies   map[string]engine.Position // event id → the copy that was accepted last
	shed     int
	told     int             // dropped events that its windows tell of
	raced    bool            // a call was started without the records right before it
	written  engine.Position // the last position that an owner is known to have written
}

// apply folds a record: it must be what the rules make of those before.
func (l *ledger) apply(s *folded, r *engine.Record) {
	if st := r.Step; st != nil && st.Call != nil && s.state.Slot != nil {
		w, _, _ := s.state.Window(l.rules)
		s.raced = s.raced || !slices.Equal(w.Offered, st.Call.Offered) || st.Call.Policy != l.rules.Latest().Number
	}
	l.fill(s.state, r)
	out := s.state.Apply(l.rules, r)
	switch {
	case out.Diverged != "":
		l.add("diverged", "position %d, scope %q: %s", r.Position, r.Scope, out.Diverged)
	case r.Step != nil && r.Step.Kind == engine.StepRequeue:
		id := r.Step.Requeue.DeadLetter
		if out.Ignored != l.requeued[id] {
			l.add("requeue", "position %d: dead letter %s was requeued before: %v, and the fold ignores it: %v", r.Position, id, l.requeued[id], out.Ignored)
		}
		l.requeued[id] = true
	case out.Ignored:
		l.add("diverged", "position %d, scope %q: a %s step that nothing waits for", r.Position, r.Scope, r.Step.Kind)
	case out.Duplicate:
		l.totals.Duplicates++
	case r.Event != nil:
		if first, again := s.copies[r.Event.ID]; again && l.plan.Dedup {
			l.add("twice", "event %q of scope %q was accepted at position %d and at %d", r.Event.ID, r.Scope, first, r.Position)
		}
		s.copies[r.Event.ID] = r.Position
		s.accepted = append(s.accepted, r.Position)
	}
	s.shed += out.Overflow.Count + out.Age.Count
	l.totals.Shed += out.Overflow.Count + out.Age.Count
}

// fill gives a state what the rules look at, from the log.
func (l *ledger) fill(s *engine.State, next *engine.Record) {
	missing := s.Missing(l.rules, next)
	found := make([]engine.Record, len(missing))
	for i, p := range missing {
		found[i] = l.records[p-1]
	}
	s.Fill(missing, found)
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
	for i := range s.state.Requeued {
		note(s.state.Requeued[i].Members)
	}
	return live
}

// account says where each accepted event is: in a window with its outcome, or
// in one that has none yet, or shed and counted.
func (l *ledger) account(s *folded) {
	name, live, gone := s.state.Scope, s.live(), 0
	for _, p := range s.accepted {
		e, w := l.records[p-1].Event, l.owner[p]
		switch final := w != nil && w.final != nil; {
		case final && live[p]:
			l.add("twice", "event %q of scope %q, at position %d, has its outcome, and is in a window that has none", e.ID, name, p)
		case !final && !live[p] && e.Kind.Sheddable():
			gone++
		case !final && !live[p]:
			l.add("dropped", "the %s event %q of scope %q, at position %d, is in no window: acts are never shed", e.Kind, e.ID, name, p)
		}
	}
	if gone != s.shed {
		l.add("dropped", "scope %q: %d events are in no window, and the rules shed %d", name, gone, s.shed)
	}
	if told := l.toldSoFar(s); told != s.shed {
		l.add("dropped", "scope %q: its windows tell of %d dropped events, and the rules shed %d", name, told, s.shed)
	}
	for i := len(s.records) - 1; i >= 0 && s.records[i].Position > s.written; i-- {
		if st := s.records[i].Step; st != nil && !st.Kind.Outside() {
			l.add("fence", "position %d, a %s step, was written by nobody with the right to", s.records[i].Position, st.Kind)
		}
	}
}

// toldSoFar is how many dropped events the scope's windows tell of, those that
// the log does not tell of yet too. A window that took in a held one tells of
// that one's.
func (l *ledger) toldSoFar(s *folded) int {
	n, unwritten := s.told+s.state.Open.Dropped, make(map[string]int)
	for i := range s.state.Pending {
		p := &s.state.Pending[i]
		if p.Recorded {
			continue
		}
		n += p.Settled.Dropped
		if before, ok := unwritten[p.Settled.Held]; ok {
			n -= before
		} else if held := l.windows[p.Settled.Held]; held != nil {
			n -= held.settled.Dropped
		}
		unwritten[p.Settled.Window] = p.Settled.Dropped
	}
	return n
}

// idle reports whether nothing is left that can lead to a decision: what is
// open, if anything, waits for an act.
func (l *ledger) idle() bool {
	for _, name := range l.names {
		st := l.scopes[name].state
		if st.Held != nil || st.Slot != nil || len(st.Requeued) > 0 || len(st.Pending) > 0 || len(st.Open.Deadlines()) > 0 ||
			st.Outbox != nil || st.Letters != nil {
			return false
		}
	}
	return true
}
