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
	s.adopt(r, st, out)
	out.Diverged = "the log settles window " + st.Window + " (" + string(st.Reason) + "), the rules of this version do not"
}

func same(a, b *Settled) bool {
	return a.Window == b.Window && a.Reason == b.Reason && a.Trigger == b.Trigger && a.Held == b.Held && a.Due == b.Due &&
		a.Silence == b.Silence && slices.Equal(a.Events, b.Events)
}

// confirm marks the oldest pending close as written, and takes over what the
// record says of it. With a verdict known it stays until the verdict is written
// too.
func (s *State) confirm(st *Settled) {
	p := s.Pending[0]
	p.Settled = *st
	if p.Verdict != nil || p.Dead != "" {
		p.Recorded = true
		s.Pending = append([]Pending{p}, s.Pending[1:]...)
		return
	}
	s.Pending = s.Pending[1:]
	if s.Slot != nil && s.Slot.Settled.Window == p.Settled.Window {
		slot := *s.Slot
		slot.Recorded, slot.Settled, slot.NoWait = true, *st, !st.MayWait
		s.Slot = &slot
	}
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
	if f == nil || f.Attempt == 0 || !s.waitsFor(rec.Step.Window, f.Attempt) {
		out.Ignored = true
		return
	}
	slot := *s.Slot
	slot.Failed = *f
	slot.Failed.Calls = nil // they stand in the log, and a row is small
	switch {
	case f.Uncounted: // an extra attempt that does not count is still to be made
		slot.Phase = PhaseClosed
		if f.RetryAt > 0 {
			slot.Phase = PhaseBackoff
		}
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
	switch {
	case v == nil:
		out.Ignored = true
	case s.unanswered(v.Window):
		known := s.Pending[0].Verdict
		if known == nil || known.Route != v.Route || known.HeldUntil != v.HeldUntil {
			s.overrule(r, v, out)
			out.Diverged = "the log routes window " + v.Window + " to " + v.Route.String() + ", the judge of this version does not"
			return
		}
		s.Pending = s.Pending[1:]
	case s.waitsFor(v.Window, v.Attempt):
		slot := s.Slot
		s.Slot, s.FreedAt = nil, rec.Stamp
		s.conclude(&slot.Settled, slot.Members, v, r.Numbered(v.Policy).For(s.Scope).RecentCount)
		if s.Held != nil && slot.Flushed && v.Route == Wait {
			s.Held.Flushed, s.Held.FlushedAt = true, rec.Stamp
		}
	case v.Route != Wait && s.waiting(v.Window) >= 0:
		s.outOfLine(v.Window)
	default:
		out.Ignored = true
	}
}

// outOfLine drops a window that waits to be judged again: the log has its
// outcome.
func (s *State) outOfLine(window string) {
	i := s.waiting(window)
	s.Requeued = slices.Delete(slices.Clone(s.Requeued), i, i+1)
}

// unanswered reports that the fold has decided the window itself, and that the
// log tells its settle but not yet its verdict.
func (s *State) unanswered(window string) bool {
	return len(s.Pending) > 0 && s.Pending[0].Recorded && s.Pending[0].Settled.Window == window
}

// waitsFor reports that the window in the slot waits for the outcome of an
// attempt. Attempt 0 is a verdict without a call, a pure judge's in the version
// that wrote it.
func (s *State) waitsFor(window string, attempt int) bool {
	if s.Slot == nil || s.Slot.Settled.Window != window {
		return false
	}
	return attempt == 0 || s.Slot.Phase == PhaseCalling && s.Slot.Attempt == attempt
}

func (s *State) deadLettered(r *Rules, rec *Record, out *Outcome) {
	d := rec.Step.DeadLetter
	switch {
	case d == nil || d.Stage != StageJudge:
		// Those of other stages do not concern the slot.
	case s.unanswered(d.WindowID):
		if s.Pending[0].Verdict != nil {
			s.overrule(r, nil, out)
			out.Diverged = "the log has window " + d.WindowID + " as a dead letter, the judge of this version answers it"
			return
		}
		s.Pending = s.Pending[1:]
	case s.Slot != nil && s.Slot.Settled.Window == d.WindowID:
		s.Slot, s.FreedAt = nil, rec.Stamp
	case s.waiting(d.WindowID) >= 0:
		s.outOfLine(d.WindowID)
	default:
		out.Ignored = true
	}
}
