package engine

import "slices"

// settled takes the record of a close. Mostly the fold has closed the same
// window already, and the record confirms it. Where it differs, the record
// wins, so that a newer binary never rewrites history.
func (s *State) settled(r *Rules, st *Settled, out *Outcome) {
	if st == nil {
		return
	}
	if len(s.Pending) > 0 && !s.Pending[0].Recorded && same(&s.Pending[0].Settled, st) {
		s.confirm(st)
		return
	}
	out.Diverged = "the log settles window " + st.Window + " (" + string(st.Reason) + "), the rules of this version do not"
	s.adopt(r, st)
}

func same(a, b *Settled) bool {
	return a.Window == b.Window && a.Reason == b.Reason && a.Trigger == b.Trigger && a.Held == b.Held && a.Due == b.Due
}

// confirm marks the oldest pending close as written. With a verdict known it
// stays until the verdict is written too.
func (s *State) confirm(st *Settled) {
	p := s.Pending[0]
	p.Settled.SettledAt = st.SettledAt
	if p.Verdict != nil || p.Dead != "" {
		p.Recorded = true
		s.Pending = append([]Pending{p}, s.Pending[1:]...)
		return
	}
	s.Pending = s.Pending[1:]
	if s.Slot != nil && s.Slot.Settled.Window == p.Settled.Window {
		slot := *s.Slot
		slot.Recorded, slot.Settled.SettledAt = true, st.SettledAt
		s.Slot = &slot
	}
}

// adopt undoes what the fold closed by itself and closes the window as the
// record says.
func (s *State) adopt(r *Rules, st *Settled) {
	events := s.undo()
	from := make(map[Position]Member, len(st.Events))
	if s.Held != nil && s.Held.Settled.Window == st.Held {
		for _, m := range s.Held.Members {
			from[m.Position] = m
		}
		s.Held = nil
	}
	var rest Members
	for _, m := range events {
		if m.Position > st.Covered {
			rest = append(rest, m)
			continue
		}
		from[m.Position] = m
	}
	members := make(Members, len(st.Events))
	for i, p := range st.Events {
		m, ok := from[p]
		if !ok { // shed by these rules, kept by those that wrote the record
			m = Member{Position: p, SeenAt: st.FirstSeen, Kind: Consequence}
		}
		members[i] = m
	}
	s.Open = Open{}
	for _, m := range rest {
		s.Open.add(m, s.settings(r, m.Policy))
	}
	s.Slot = &Slot{Settled: *st, Members: members, Recorded: true, NoWait: !st.MayWait, Phase: PhaseClosed}
}

// undo takes back every close that the log does not tell, and returns the
// events that are then in no window, in order.
func (s *State) undo() Members {
	var events Members
	for i := range s.Pending {
		p := &s.Pending[i]
		events = append(events, p.Members[len(p.Members)-p.Own:]...)
		if i == 0 {
			s.Held = p.heldBefore
		}
		s.Recent = slices.DeleteFunc(slices.Clone(s.Recent), func(v Recent) bool { return v.Window == p.Settled.Window })
	}
	s.Pending = nil
	if s.Slot != nil && !s.Slot.Recorded {
		s.Slot = nil
	}
	return append(events, s.Open.Events...)
}

func (s *State) called(rec *Record, out *Outcome) {
	c := rec.Step.Call
	if c == nil || s.Slot == nil || s.Slot.Settled.Window != rec.Step.Window || s.Slot.Phase == PhaseCalling {
		out.Ignored = true
		return
	}
	slot := *s.Slot
	slot.Phase, slot.Attempt, slot.Extra = PhaseCalling, c.Attempt, c.Extra
	slot.Since, slot.TimeoutMs, slot.Policy, slot.Offered = rec.Stamp, c.TimeoutMs, c.Policy, c.Offered
	s.Slot = &slot
}

func (s *State) failed(rec *Record, out *Outcome) {
	f := rec.Step.Failed
	if f == nil || !s.waitsFor(rec.Step.Window, f.Attempt) || s.Slot.Phase != PhaseCalling {
		out.Ignored = true
		return
	}
	slot := *s.Slot
	slot.Failed = *f
	switch {
	case f.Uncounted:
		slot.Phase = PhaseClosed
		if !slot.Extra {
			slot.Attempt--
		}
	case f.RetryAt == 0:
		slot.Phase = PhaseDead
	default:
		slot.Phase = PhaseBackoff
		slot.Extra = false
	}
	s.Slot = &slot
}

// answered takes a verdict: the one that the fold knows already, or the
// running call's.
func (s *State) answered(r *Rules, rec *Record, out *Outcome) {
	v := rec.Step.Verdict
	if v == nil {
		out.Ignored = true
		return
	}
	if len(s.Pending) > 0 && s.Pending[0].Recorded && s.Pending[0].Settled.Window == v.Window {
		if known := s.Pending[0].Verdict; known == nil || known.Route != v.Route {
			out.Diverged = "the log routes window " + v.Window + " to " + v.Route.String() + ", the judge of this version does not"
		}
		s.Pending = s.Pending[1:]
		return
	}
	if !s.waitsFor(v.Window, v.Attempt) {
		out.Ignored = true
		return
	}
	slot := s.Slot
	s.Slot, s.FreedAt = nil, rec.Stamp
	s.conclude(&slot.Settled, slot.Members, v, r.Numbered(v.Policy).For(s.Scope).RecentCount)
	if s.Held != nil && slot.Flushed && v.Route == Wait {
		s.Held.Flushed, s.Held.FlushedAt = true, rec.Stamp
	}
}

func (s *State) waitsFor(window string, attempt int) bool {
	return s.Slot != nil && s.Slot.Settled.Window == window && s.Slot.Attempt == attempt
}

func (s *State) deadLettered(rec *Record, out *Outcome) {
	d := rec.Step.DeadLetter
	switch {
	case d == nil || d.Stage != StageJudge:
		// A delivery's dead letter does not concern the slot.
	case len(s.Pending) > 0 && s.Pending[0].Recorded && s.Pending[0].Settled.Window == d.WindowID:
		s.Pending = s.Pending[1:]
	case s.Slot != nil && s.Slot.Settled.Window == d.WindowID:
		s.Slot, s.FreedAt = nil, rec.Stamp
	default:
		out.Ignored = true
	}
}
