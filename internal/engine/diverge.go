package engine

import (
	"cmp"
	"slices"
)

// Where the log says otherwise than these rules, the log is right: it was
// written by an older or newer version, and nothing rewrites history. What the
// fold has closed by itself since is then taken back, and folded again behind
// what the record says. No act is lost on the way: what the record names no
// place for is open again.

// taken is what was taken back from closes that the log does not tell.
type taken struct {
	events  Members
	marks   []Time // flush calls on an open window
	dropped int
	gap     bool
}

// takeBack undoes the pending closes that the log does not tell, and empties
// the open window.
func (s *State) takeBack() taken {
	var b taken
	var kept []Pending
	undone := false
	for i := range s.Pending {
		p := &s.Pending[i]
		if p.Recorded {
			kept = append(kept, *p)
			continue
		}
		if !undone {
			s.Held, undone = p.heldBefore, true
		}
		b.take(p)
		s.disremember(p.Verdict)
	}
	s.Pending = kept
	if s.Slot != nil && !s.Slot.Recorded {
		s.Slot = nil
	}
	b.events = append(b.events, s.Open.Events...)
	b.dropped += s.Open.Dropped
	b.gap = b.gap || s.Open.Gap
	if s.Open.deadlines.has(deadlineForced) {
		b.marks = append(b.marks, s.Open.deadlines.at[deadlineForced])
	}
	s.Open = Open{}
	return b
}

// take gathers what a close had taken from the open window.
func (b *taken) take(p *Pending) {
	b.events = append(b.events, p.Members[len(p.Members)-p.Own:]...)
	b.dropped += p.Settled.Dropped
	b.gap = b.gap || p.Settled.Gap
	if p.heldBefore != nil {
		b.dropped -= p.heldBefore.Settled.Dropped
	}
	if p.Settled.Deadline.Reason == ReasonForced {
		b.marks = append(b.marks, p.Settled.Deadline.At)
	}
}

// disremember takes a verdict off the recent ones.
func (s *State) disremember(v *Verdict) {
	if v == nil || v.JudgedRoute == 0 || len(s.Recent) == 0 {
		return
	}
	for i := len(s.Recent) - 1; i >= 0; i-- {
		if s.Recent[i].Window == v.Window && s.Recent[i].At == v.At {
			s.Recent = slices.Delete(slices.Clone(s.Recent), i, i+1)
			return
		}
	}
}

// again folds events that were taken back, each at its own time.
func (s *State) again(r *Rules, b taken, out *Outcome) {
	s.Open.Dropped += b.dropped
	s.Open.Gap = s.Open.Gap || b.gap
	for i := range b.events {
		m := b.events[i]
		for len(b.marks) > 0 && b.marks[0] < m.SeenAt {
			s.markAgain(r, b.marks[0], out)
			b.marks = b.marks[1:]
		}
		s.fire(r, m.SeenAt, out)
		s.take(r, m, out)
		s.fire(r, m.SeenAt, out)
	}
	for _, at := range b.marks {
		s.markAgain(r, at, out)
	}
}

func (s *State) markAgain(r *Rules, at Time, out *Outcome) {
	s.fire(r, at, out)
	if len(s.Open.Events) > 0 && !s.Open.deadlines.has(deadlineForced) {
		s.Open.deadlines.set(deadlineForced, at, 0)
	}
	s.fire(r, at, out)
}

// adopt closes a window as its record says. A window whose settle stands in
// the log is not taken back; one that stood in the slot is judged after this.
func (s *State) adopt(r *Rules, st *Settled, out *Outcome) {
	b := s.takeBack()
	if s.Slot != nil {
		s.Requeued = append(slices.Clip(s.Requeued), Requeue{Settled: s.Slot.Settled, Members: s.Slot.Members, Number: s.Slot.Letters})
	}
	members, took := s.claim(st, &b)
	b.dropped = max(0, b.dropped-(st.Dropped-took.dropped))
	b.gap = b.gap && !st.Gap
	s.Slot = &Slot{Settled: *st, Members: members, Recorded: true, NoWait: !st.MayWait, Phase: PhaseClosed}
	s.again(r, b, out)
}

// hold makes a window the held one. Where the log has two at a time, which
// these rules do not know, both are held as one.
func (s *State) hold(h *Held) {
	if old := s.Held; old != nil {
		h.Members = slices.Concat(old.Members, h.Members)
		h.Settled.Dropped += old.Settled.Dropped
		h.Settled.Gap = h.Settled.Gap || old.Settled.Gap
	}
	s.Held = h
}

// claim takes the events that a record names, from wherever they are, and
// leaves in b those that stay without a window: what came after the record's
// last position, and acts that it does not name. Of other events that it does
// not name it says that they were shed.
func (s *State) claim(st *Settled, b *taken) (members Members, took taken) {
	pool := make(map[Position]Member, len(st.Events))
	for _, p := range st.Events {
		pool[p] = Member{}
	}
	claimed := func(m *Member) bool {
		_, ok := pool[m.Position]
		if ok {
			pool[m.Position] = *m
		}
		return ok
	}
	var rest Members
	if h := s.Held; h != nil {
		var left Members
		for i := range h.Members {
			if !claimed(&h.Members[i]) {
				left = append(left, h.Members[i])
			}
		}
		switch {
		case h.Settled.Window == st.Held || len(left) == 0:
			took.dropped = h.Settled.Dropped
			rest = slices.DeleteFunc(left, func(m Member) bool { return m.Kind.Sheddable() })
			s.Held = nil
		case len(left) < len(h.Members):
			held := *h
			held.Members = left
			s.Held = &held
		}
	}
	for i := range b.events {
		m := &b.events[i]
		if !claimed(m) && (m.Position > st.Covered || !m.Kind.Sheddable()) {
			rest = append(rest, *m)
		}
	}
	slices.SortStableFunc(rest, func(a, b Member) int { return cmp.Compare(a.Position, b.Position) })
	b.events = rest
	members = make(Members, len(st.Events))
	for i, p := range st.Events {
		if members[i] = pool[p]; members[i].Position == 0 { // shed by these rules, kept by those that wrote the record
			members[i] = Member{Position: p, SeenAt: st.FirstSeen, Kind: Consequence}
		}
	}
	return members, took
}

// overrule replaces the verdict that the fold has given to the oldest pending
// close by the record's: nil is a dead letter. What was closed since is folded
// again.
func (s *State) overrule(r *Rules, v *Verdict, out *Outcome) {
	p := s.Pending[0]
	s.Pending = s.Pending[1:]
	var b taken
	since := slices.ContainsFunc(s.Pending, func(p Pending) bool { return !p.Recorded })
	if since {
		b = s.takeBack()
	}
	s.disremember(p.Verdict)
	if p.Settled.Trigger != TriggerRequeue {
		s.Held = nil // the window took in what was held before it
	}
	if v != nil {
		s.conclude(&p.Settled, p.Members, v, r.Numbered(v.Policy).For(s.Scope).RecentCount)
	}
	if since {
		s.again(r, b, out)
	}
}
