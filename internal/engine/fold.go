package engine

import "slices"

// Apply folds one record of the scope into its state: the deadlines at or
// before its stamp fire first, without it; then it takes effect; then the
// deadlines at or before its stamp fire, its own and those that waited for the
// slot (design, section 5, 2). Records must come in log order, and what is Missing
// must be filled before.
func (s *State) Apply(r *Rules, rec *Record) Outcome {
	var out Outcome
	s.fire(r, rec.Stamp, &out)
	switch {
	case rec.Event != nil:
		s.event(r, rec, &out)
	case rec.Step != nil:
		s.step(r, rec, &out)
		if !rec.Step.Kind.Outside() {
			s.LastStep = rec.Position
		}
	}
	s.Position, s.Time = rec.Position, rec.Stamp
	s.fire(r, rec.Stamp, &out)
	s.letGo()
	return out
}

func (s *State) event(r *Rules, rec *Record, out *Outcome) {
	e := rec.Event
	now := rec.Stamp
	set := s.settings(r, e.Policy)
	digest := DigestOf(e.ID)
	if known, remembered := s.Seen.remembers(digest, now, set.DedupIDs); remembered || known && s.live(digest) {
		out.Duplicate = true
		return
	}
	out.Forgotten = s.Seen.forget(now, set.DedupIDs, s.oldestLive())
	s.Seen.add(digest, rec.Position, now+Time(set.DedupMs))
	s.keep(r, rec)

	s.take(r, Member{
		Position: rec.Position, SeenAt: now, Policy: e.Policy, Size: int32(min(e.Size(), 1<<30)), //nolint:gosec // bounded
		Kind: e.Kind, Name: e.Name, Digest: digest,
	}, out)
	if e.Kind == Flush {
		s.cutBackoff(now)
	}
}

// take puts an accepted event into the open window. What is too old by then
// has gone before, so that a window which that empties passes no mark on.
func (s *State) take(r *Rules, m Member, out *Outcome) {
	set := s.settings(r, m.Policy)
	if s.Held == nil {
		s.Open.shedAge(m.SeenAt, s.settingsOf(r), &out.Age)
	}
	s.Open.add(m, set)
	s.Open.shedOverflow(&m, set, &out.Overflow)
}

func (s *State) step(r *Rules, rec *Record, out *Outcome) {
	st := rec.Step
	switch st.Kind {
	case StepFlush:
		s.flushCall(r, rec.Stamp, out)
	case StepGap:
		s.Open.Gap = true
	case StepRequeue:
		if st.Requeue != nil && st.Requeue.Stage == StageSink {
			s.deliverAgain(r, rec, out)
			break
		}
		s.requeue(st.Requeue, out)
	case StepSettled:
		s.settled(r, st.Settled, out)
	case StepCall:
		s.called(rec, out)
	case StepFailed:
		s.failed(rec, out)
	case StepWait, StepDecision:
		s.answered(r, rec, out)
		if st.Kind == StepDecision && !out.Ignored {
			s.decided(r, rec)
		}
	case StepDeadLetter:
		s.deadLettered(r, rec, out)
		if st.DeadLetter != nil && !out.Ignored {
			s.lettered(r, rec, out)
		}
	case StepDelivery:
		s.sent(rec, out)
	case StepDelivered:
		s.arrived(rec, out)
	case StepUndelivered:
		s.returned(rec, out)
	case StepAck, StepPolicy, StepSilence, StepReload, StepShed, StepTrace:
	}
}

// flushCall marks what the scope has at this moment (design, section 5, 10).
func (s *State) flushCall(r *Rules, now Time, out *Outcome) {
	if s.Held == nil {
		s.Open.shedAge(now, s.settingsOf(r), &out.Age)
	}
	if len(s.Open.Events) > 0 {
		out.Marked = append(out.Marked, "open")
		if !s.Open.deadlines.has(deadlineForced) {
			s.Open.deadlines.set(deadlineForced, now, 0)
		}
	}
	if s.Held != nil {
		out.Marked = append(out.Marked, "held")
		if !s.Held.Flushed {
			held := *s.Held
			held.Flushed, held.FlushedAt = true, now
			s.Held = &held
		}
	}
	if s.Slot != nil {
		out.Marked = append(out.Marked, "judging")
		if !s.Slot.Flushed {
			slot := *s.Slot
			slot.Flushed, slot.FlushedAt = true, now
			s.Slot = &slot
		}
		s.cutBackoff(now)
	}
}

// keptAsked is how many requeues a scope remembers. Two people who ask for the
// same do so within moments.
const keptAsked = 64

// requeue puts a dead letter's window in line for the slot. One that is in
// line or in the slot already is not judged twice, nor is a dead letter that was
// asked for before: whoever looks first whether it was may look too early, and
// by now the window may have its decision.
func (s *State) requeue(q *Requeue, out *Outcome) {
	if q == nil || len(q.Members) == 0 || s.waiting(q.Settled.Window) >= 0 || slices.Contains(s.Asked, q.DeadLetter) ||
		s.Slot != nil && s.Slot.Settled.Window == q.Settled.Window {
		out.Ignored = true
		return
	}
	s.Requeued = append(s.Requeued[:len(s.Requeued):len(s.Requeued)], *q)
	s.asked(q.DeadLetter)
}

func (s *State) asked(deadLetter string) {
	asked := append(slices.Clip(s.Asked), deadLetter)
	s.Asked = asked[max(0, len(asked)-keptAsked):]
}

// waiting is the place of a window among the requeued, -1 for none.
func (s *State) waiting(window string) int {
	return slices.IndexFunc(s.Requeued, func(q Requeue) bool { return q.Settled.Window == window })
}

// cutBackoff ends the wait for the next attempt once for a window, without
// taking a rung; what the judge asked for still holds.
func (s *State) cutBackoff(now Time) {
	if s.Slot == nil || s.Slot.Phase != PhaseBackoff || s.Slot.Cut {
		return
	}
	at := max(now, s.Slot.Failed.NotBefore)
	if at >= s.Slot.Failed.RetryAt {
		return // nothing to cut short
	}
	slot := *s.Slot
	slot.Cut, slot.Failed.RetryAt = true, at
	if !slot.Failed.Uncounted { // else no rung is waited for: the next attempt is the ladder's own
		slot.Extra = true
	}
	s.Slot = &slot
}

// fire closes what is due at or before t, earliest first. At one instant a
// requeued window goes first, then the horizon, then the deadlines in the
// table's order.
func (s *State) fire(r *Rules, t Time, out *Outcome) {
	for s.Slot == nil && s.fireOne(r, t, out) {
	}
}

func (s *State) fireOne(r *Rules, t Time, out *Outcome) bool {
	if len(s.Requeued) > 0 {
		s.takeRequeued(r, t)
		return true
	}
	first, due := s.Open.earliest()
	due = due && first.At <= t
	// What had passed when the slot was freed had to wait for it.
	waited := due && first.At <= s.FreedAt
	deadline := first
	if waited {
		deadline = s.Open.waited()
	}
	switch h := s.Held; {
	case h != nil && h.Flushed:
		s.closeFlushed(r, deadline, waited, out)
	case h != nil && h.Until <= t && (!due || h.Until <= max(first.At, s.FreedAt)):
		s.closeHorizon(r, deadline, due, waited, out)
	case due && deadline.Reason == ReasonForced:
		s.closeOpen(r, TriggerFlush, deadline, out)
	case due:
		s.closeOpen(r, TriggerDeadline, deadline, out)
	default:
		return false
	}
	return true
}

// closeFlushed judges a held window that a flush call has marked, with all
// that is open. A flush that waits there gives the reason.
func (s *State) closeFlushed(r *Rules, open Deadline, waited bool, out *Outcome) {
	trigger, d := TriggerFlush, Deadline{Reason: ReasonForced, At: s.Held.FlushedAt}
	if waited && open.Reason == ReasonFlush {
		trigger, d = TriggerDeadline, open
	}
	s.close(r, trigger, d, max(d.At, s.FreedAt), out)
}

// closeHorizon judges the held window with all that is open. The reason is
// that of an open deadline at or before the horizon, or of a flush that waits;
// else the held window's.
func (s *State) closeHorizon(r *Rules, open Deadline, due, waited bool, out *Outcome) {
	h := s.Held
	d := Deadline{Reason: h.Settled.Reason, At: h.Until}
	marked := waited && (open.Reason == ReasonFlush || open.Reason == ReasonForced)
	if due && (marked || open.At <= h.Until) {
		d.Reason, d.Event = open.Reason, open.Event
	}
	s.close(r, TriggerHorizon, d, max(d.At, s.FreedAt), out)
}

// closeOpen closes the open window, with the held one in front if there is
// one. A window emptied by shedding never settles; its counts go on to the
// next.
func (s *State) closeOpen(r *Rules, trigger Trigger, d Deadline, out *Outcome) {
	due := max(d.At, s.FreedAt)
	if s.Held == nil {
		s.Open.shedAge(due, s.settingsOf(r), &out.Age)
		if len(s.Open.Events) == 0 {
			return
		}
	}
	s.close(r, trigger, d, due, out)
}

// close makes the settlement and hands it on: to a silence, to a pure judge,
// or to the slot.
func (s *State) close(r *Rules, trigger Trigger, d Deadline, due Time, out *Outcome) {
	p := s.settle(trigger, d, due)
	policy := r.At(due)
	out.Closed++
	if id, ok := r.silencedBy(s.Scope, p.Members, due); ok {
		p.Settled.Silence = id
		p.Verdict = &Verdict{Window: p.Settled.Window, Route: Skip, Changed: []Change{ChangedBySilence}, At: due, Policy: policy.Number}
		s.pend(p)
		return
	}
	if judge := policy.judging.Judge; judge != nil {
		s.judgePure(p, judge, policy, due)
		return
	}
	s.pend(p)
	s.Slot = &Slot{Settled: p.Settled, Members: p.Members, Phase: PhaseClosed}
}

// settle takes the open window and the held one out of the state.
func (s *State) settle(trigger Trigger, d Deadline, due Time) Pending {
	p := Pending{Members: s.Open.Events, Own: len(s.Open.Events), heldBefore: s.Held}
	st := Settled{
		Reason: d.Reason, Trigger: trigger, Deadline: d, Due: due, Covered: s.Position,
		Dropped: s.Open.Dropped, Gap: s.Open.Gap,
	}
	if h := s.Held; h != nil {
		p.Members = make(Members, 0, len(h.Members)+len(s.Open.Events))
		p.Members = append(append(p.Members, h.Members...), s.Open.Events...)
		st.Held, st.Waits = h.Settled.Window, h.Waits
		st.Dropped += h.Settled.Dropped
		st.Gap = st.Gap || h.Settled.Gap
	}
	st.Window = WindowID(s.Scope, p.Members)
	st.Events = make([]Position, len(p.Members))
	for i := range p.Members {
		st.Events[i] = p.Members[i].Position
	}
	if len(p.Members) > 0 {
		st.FirstSeen = p.Members[0].SeenAt
	}
	st.MayWait = trigger == TriggerDeadline && d.Reason != ReasonFlush && d.Reason != ReasonForced
	p.Settled = st
	s.Open, s.Held = Open{}, nil
	return p
}

func (s *State) pend(p Pending) {
	s.Pending = append(s.Pending[:len(s.Pending):len(s.Pending)], p)
}

// takeRequeued gives the slot to a dead letter's window, alone and under its
// id, with wait withheld; a pure judge answers at once.
func (s *State) takeRequeued(r *Rules, now Time) {
	q := s.Requeued[0]
	s.Requeued = s.Requeued[1:]
	q.Settled.Trigger, q.Settled.MayWait = TriggerRequeue, false
	policy := r.At(now)
	if judge := policy.judging.Judge; judge != nil {
		s.judgePure(Pending{Settled: q.Settled, Members: q.Members, Recorded: true, Letters: q.Number}, judge, policy, now)
		return
	}
	s.Slot = &Slot{
		Settled: q.Settled, Members: q.Members, Recorded: true, NoWait: true,
		Letters: q.Number, Phase: PhaseClosed,
	}
}

// conclude applies a verdict to a free slot: wait holds the window, anything
// else is the end of it. A silence leaves no trace among the recent verdicts.
func (s *State) conclude(st *Settled, members Members, v *Verdict, recentCount int) {
	if v.JudgedRoute != 0 {
		s.remember(Recent{Window: v.Window, At: v.At, Route: v.Route, JudgedRoute: v.JudgedRoute}, recentCount)
	}
	if v.Route == Wait {
		s.hold(&Held{Settled: *st, Members: members, Until: v.HeldUntil, Waits: st.Waits + 1})
	}
}

func (s *State) remember(v Recent, count int) {
	recent := append(s.Recent[:len(s.Recent):len(s.Recent)], v)
	s.Recent = recent[max(0, len(recent)-count):]
}

func (s *State) settings(r *Rules, policy uint32) *Settings { return r.Numbered(policy).For(s.Scope) }

func (s *State) settingsOf(r *Rules) func(uint32) *Settings {
	return func(policy uint32) *Settings { return s.settings(r, policy) }
}
