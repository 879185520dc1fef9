package engine

// The owner of a scope reads what it must do from the state and appends steps;
// the state moves only when they come back from the log. Append first, act
// after.

// Proposal is what the owner appends in one entry.
type Proposal struct {
	Steps []Step
	// Due is the latest instant at which a window of the proposal closed: the
	// entry may be written at that stamp or later, and only by an owner that
	// has applied every record of the scope stamped before it.
	Due Time
	// Closed are the windows that the steps settle, for composing decisions.
	Closed []Pending
}

// Propose returns the closes that the log does not tell yet: those that the
// fold has made, else those that the clock alone makes at now. It changes
// nothing. An empty proposal means that there is nothing to write. What is
// Missing must be filled before.
func (s *State) Propose(r *Rules, now Time) Proposal {
	pending := s.Pending
	if len(pending) == 0 {
		if at, ok := s.fireAt(); !ok || at > now {
			return Proposal{}
		}
		peek := *s
		peek.fire(r, now, new(Outcome))
		pending = peek.Pending
	}
	var p Proposal
	for i := range pending {
		c := pending[i]
		p.Due = max(p.Due, c.Settled.Due)
		if !c.Recorded {
			c.Settled.SettledAt = max(now, s.Time)
			st := c.Settled
			p.Steps = append(p.Steps, Step{Kind: StepSettled, Window: st.Window, ID: st.Silence, Settled: &st})
		}
		switch {
		case c.Verdict != nil:
			p.Steps = append(p.Steps, verdictStep(c.Verdict))
		case c.Dead != "":
			p.Steps = append(p.Steps, deadLetterStep(s.Scope, &c.Settled, c.Members, c.Letters+1, c.Dead, true, 0, c.At))
		}
		p.Closed = append(p.Closed, c)
	}
	return p
}

// fireAt is the earliest instant at which the clock alone closes a window.
func (s *State) fireAt() (at Time, ok bool) {
	if s.Slot != nil {
		return 0, false
	}
	if len(s.Requeued) > 0 {
		return s.Time, true
	}
	if d, has := s.Open.earliest(); has {
		at, ok = d.At, true
	}
	if h := s.Held; h != nil {
		until := h.Until
		if h.Flushed {
			until = h.FlushedAt
		}
		if !ok || until < at {
			at, ok = until, true
		}
	}
	return at, ok
}

// WakeAt is the instant at which the owner must look at the scope again though
// no record came; ok is false when only a record can bring something new.
func (s *State) WakeAt() (at Time, ok bool) {
	at, ok = s.WindowsAt()
	for _, name := range LaneNames() {
		if lane, has := s.LaneAt(name); has && (!ok || lane < at) {
			at, ok = lane, true
		}
	}
	return at, ok
}

// WindowsAt is WakeAt for windows alone: what is open, held, judged or
// unwritten.
func (s *State) WindowsAt() (at Time, ok bool) {
	if len(s.Pending) > 0 {
		return s.Time, true
	}
	if s.Slot == nil {
		return s.fireAt()
	}
	switch s.Slot.Phase {
	case PhaseCalling:
		return s.Slot.Since + Time(s.Slot.TimeoutMs), true
	case PhaseBackoff:
		return s.Slot.Failed.RetryAt, true
	case PhaseClosed, PhaseDead:
	}
	return s.Time, true
}

// CallDue reports whether the window in the slot wants a judge call now: its
// settle is in the log and no call runs.
func (s *State) CallDue(now Time) bool {
	if s.Slot == nil || !s.Slot.Recorded {
		return false
	}
	return s.Slot.Phase == PhaseClosed || s.Slot.Phase == PhaseBackoff && s.Slot.Failed.RetryAt <= now
}

// Window returns the window in the slot as a judge sees it, with the settings
// and policy in force now, or for the call that runs; nil when the slot is free. Now and the bodies of its
// events are the caller's to fill in.
func (s *State) Window(r *Rules) (w *Window, set *Settings, policy *Policy) {
	if s.Slot == nil {
		return nil, nil, nil
	}
	if policy = r.Latest(); s.Slot.Phase == PhaseCalling {
		policy = r.Numbered(s.Slot.Policy)
	}
	set = policy.For(s.Scope)
	w = s.window(&s.Slot.Settled, s.Slot.Members, s.Slot.Offered, set)
	if s.Slot.Phase != PhaseCalling {
		w.Offered = Offer(!s.Slot.NoWait && !s.Slot.Flushed && s.Slot.Settled.Waits < set.MaxWaits)
	}
	return w, set, policy
}

// StartCall is the step to append just before the judge is called.
func (s *State) StartCall(r *Rules, judge string) Step {
	w, set, policy := s.Window(r)
	attempt := s.Slot.Attempt
	if !s.Slot.Extra {
		attempt++
	}
	return Step{Kind: StepCall, Window: w.ID, Call: &Call{
		Attempt: attempt, Extra: s.Slot.Extra, Policy: policy.Number,
		Offered: w.Offered, Judge: judge, TimeoutMs: set.JudgeTimeoutMs,
	}}
}

// Answer returns the steps to append for an answer to the running call: the
// verdict, or a failure when the answer cannot be taken. What is Missing must be
// filled before, since an override may look at it.
func (s *State) Answer(r *Rules, now Time, a Answer, judge JudgeName) []Step {
	if s.Slot == nil || s.Slot.Phase != PhaseCalling {
		return nil
	}
	slot := s.Slot
	policy := r.Numbered(slot.Policy)
	set := policy.For(s.Scope)
	w := s.window(&slot.Settled, slot.Members, slot.Offered, set)
	w.Now, w.bodies = now, s.bodies
	v, err := Decide(policy.judging.Override, set, w, a)
	if err != nil {
		return s.Fail(r, now, Failed{Why: "malformed", Message: err.Error()})
	}
	v.Attempt, v.At, v.Policy, v.Judge = slot.Attempt, now, policy.Number, &judge
	if v.Route == Wait {
		v.HeldUntil = now + Time(set.WaitHorizonMs)
	}
	return []Step{verdictStep(v)}
}

// Fail returns the steps to append when the running call brought no answer:
// the failure, with the time of the next try, and the dead letter when there
// is none. f gives Why, Message, Permanent, Uncounted, RetryAfterMs (or, of a
// log that is played, NotBefore), TookMs and Calls; the rest is filled in here.
func (s *State) Fail(r *Rules, now Time, f Failed) []Step {
	if s.Slot == nil || s.Slot.Phase != PhaseCalling {
		return nil
	}
	slot := s.Slot
	set := r.Numbered(slot.Policy).For(s.Scope)
	f.Attempt = slot.Attempt
	f.wait(set, slot.Settled.Window, now)
	rungs := len(set.RetryBackoffMs)
	last := f.Permanent || !slot.Extra && slot.Attempt > rungs
	step := Step{Kind: StepFailed, Window: slot.Settled.Window, Failed: &f}
	switch {
	case f.Why == WhyHeld:
		f.Uncounted = true
		f.RetryAt = max(now+lengthen(set, slot.Settled.Window, slot.Attempt, leastHeldMs), f.NotBefore)
	case f.Uncounted:
		return []Step{step}
	case last:
		return []Step{step, s.DeadLetter(now, f)}
	case f.Why == "lost" && !slot.Extra:
		f.RetryAt = max(now, f.NotBefore, 1) // 0 stands for no next attempt
	default:
		f.RetryAt = max(now+backoff(set, slot.Settled.Window, slot.Attempt), f.NotBefore, 1)
	}
	return []Step{step}
}

// backoff is the rung after an attempt, lengthened by a jitter derived from
// the window and the attempt.
func backoff(set *Settings, window string, attempt int) Time {
	if len(set.RetryBackoffMs) == 0 {
		return 0
	}
	return lengthen(set, window, attempt, set.RetryBackoffMs[min(max(attempt, 1), len(set.RetryBackoffMs))-1])
}

const (
	// maxRetryAfterMs is the longest time for which a window waits because it was
	// asked to.
	maxRetryAfterMs = 3600_000
	// leastHeldMs is after how long it is looked again whether a judge can be
	// asked. Such attempts do not count, so they must not come one on the other.
	leastHeldMs = 1000
)

// wait sets NotBefore by what was asked for. The time is lengthened, so that
// many who were told the same do not come back together.
func (f *Failed) wait(set *Settings, id string, now Time) {
	if f.RetryAfterMs > 0 {
		f.RetryAfterMs = min(f.RetryAfterMs, maxRetryAfterMs)
		f.NotBefore = now + lengthen(set, id, f.Attempt, f.RetryAfterMs)
	}
}

// lengthen adds the jitter that follows from an id and an attempt.
func lengthen(set *Settings, id string, attempt int, ms int64) Time {
	return Time(ms + int64(float64(ms)*set.RetryJitter*Jitter(id, attempt)))
}

// DeadLetter is the step that ends the window in the slot without a decision.
func (s *State) DeadLetter(now Time, f Failed) Step {
	slot := s.Slot
	return deadLetterStep(s.Scope, &slot.Settled, slot.Members, slot.Letters+1, f.Message, f.Permanent, slot.Attempt, now)
}

func verdictStep(v *Verdict) Step {
	if v.Route == Wait {
		return Step{Kind: StepWait, Window: v.Window, Route: v.Route, Verdict: v}
	}
	return Step{Kind: StepDecision, Window: v.Window, ID: v.Window, Route: v.Route, Verdict: v}
}

func deadLetterStep(scope string, st *Settled, members Members, number int, message string, permanent bool, attempts int, at Time) Step {
	id := DeadLetterID(st.Window, StageJudge, number)
	return Step{Kind: StepDeadLetter, Window: st.Window, ID: id, DeadLetter: &DeadLetter{
		ID: id, Kind: "deadLetter", Stage: StageJudge, Scope: scope, WindowID: st.Window,
		Message: message, Permanent: permanent, Attempts: attempts, At: at, Number: number,
		Settled: st, Members: members,
	}}
}
