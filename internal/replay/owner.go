package replay

import "attend/internal/engine"

// call is a judge call that runs: the answer comes at an instant, or after the
// timeout, which is as good as never.
type call struct {
	at     engine.Time
	answer Answer
}

// shedTrace is how many dropped events are told in a step of their own; fewer
// wait for the scope's next step.
const shedTrace = 1000

// wakeAt is when the owner must look at the scope again though nothing comes.
func (w *World) wakeAt(s *scope) (engine.Time, bool) {
	at, ok := w.windowsAt(s)
	if lane, has := s.lanesAt(); has && (!ok || lane < at) {
		return lane, true
	}
	return at, ok
}

func (w *World) windowsAt(s *scope) (engine.Time, bool) {
	at, ok := s.state.WindowsAt()
	if s.dropped() >= shedTrace {
		return s.state.Time, true
	}
	slot := s.state.Slot
	switch {
	case len(s.state.Pending) > 0 || slot == nil:
		return at, ok
	case slot.Phase != engine.PhaseCalling:
		return max(at, w.opt.Script.startAt(s.name)), ok
	case s.call == nil:
		return s.state.Time, true // lost: that is recorded at once
	case s.call.answer.exact:
		return s.call.at, true
	default:
		return min(at, s.call.at), ok
	}
}

// act does all that the scope wants at this instant.
func (w *World) act(s *scope) {
	for {
		steps, closed := w.next(s)
		if len(steps) == 0 {
			steps = w.deliver(s)
		}
		if len(steps) == 0 && s.dropped() < shedTrace {
			break
		}
		w.steps(s, steps, closed)
		w.startCall(s)
		w.startDeliveries(s, steps)
	}
	w.arm(s)
}

// next decides what is appended for the scope in one entry, and which windows
// it concerns.
func (w *World) next(s *scope) ([]engine.Step, []engine.Pending) {
	w.fill(s, nil)
	if p := s.state.Propose(w.rules, w.now); len(p.Steps) > 0 {
		return p.Steps, p.Closed
	}
	slot := s.state.Slot
	if slot == nil {
		return nil, nil
	}
	closed := []engine.Pending{{Settled: slot.Settled, Members: slot.Members}}
	switch {
	case slot.Phase == engine.PhaseCalling:
		return w.outcome(s, slot), closed
	case slot.Phase == engine.PhaseDead:
		return []engine.Step{s.state.DeadLetter(w.now, slot.Failed)}, closed
	case s.state.CallDue(w.now) && w.opt.Script.startAt(s.name) <= w.now:
		return []engine.Step{s.state.StartCall(w.rules, w.rules.Latest().Judge)}, nil
	}
	return nil, nil
}

// outcome is what has become of the running call by now: an answer strictly
// before the timeout, else the timeout.
func (w *World) outcome(s *scope, slot *engine.Slot) []engine.Step {
	timeout := slot.Since + engine.Time(slot.TimeoutMs)
	c := s.call
	switch {
	case c == nil:
		return s.state.Fail(w.rules, w.now, engine.Failed{Why: "lost", Message: "the daemon ended while the judge was being called"})
	case c.at <= w.now && (c.answer.exact || c.at < timeout):
		s.call = nil
		if f := c.answer.failure(); f != nil {
			return s.state.Fail(w.rules, w.now, *f)
		}
		return s.state.Answer(w.rules, w.now, c.answer.reply(), engine.JudgeName{Name: w.rules.Numbered(slot.Policy).Judge, Model: c.answer.Model})
	case timeout <= w.now && !c.answer.exact:
		s.call = nil
		return s.state.Fail(w.rules, w.now, engine.Failed{Why: "timeout", Message: "the judge did not answer in time", TookMs: slot.TimeoutMs})
	}
	return nil
}

// startCall asks the judge when the start of a call has just been appended.
func (w *World) startCall(s *scope) {
	slot := s.state.Slot
	if slot == nil || slot.Phase != engine.PhaseCalling || s.call != nil {
		return
	}
	window, _, policy := s.state.Window(w.rules)
	s.call = &call{at: w.now}
	judge := policy.PureJudge()
	if judge == nil {
		if a, ok := w.opt.Script.next(s.name); ok {
			s.call.answer = a
			s.call.at = w.now + engine.Time(a.AfterMs)
			return
		}
		judge = engine.RuleJudge
	}
	window.Now = w.now
	window.Fill(s.find(window.Events))
	s.call.answer = answerOf(judge(window))
}

// steps appends an entry of the owner's: its steps, then what was dropped
// since the last one.
func (w *World) steps(s *scope, steps []engine.Step, closed []engine.Pending) {
	steps = append(steps, s.takeShed()...)
	for i := range steps {
		w.compose(s, &steps[i], closed)
		w.keepOutgoing(&steps[i])
		rec := w.append(s.name, engine.Record{Step: &steps[i]})
		if l := w.letters[steps[i].ID]; l != nil {
			l.position = rec.Position
		}
		w.apply(s, rec)
	}
}

// keepOutgoing keeps decisions for as long as a sink may want them.
func (w *World) keepOutgoing(st *engine.Step) {
	switch st.Kind { //nolint:exhaustive // the others carry and end nothing
	case engine.StepDecision:
		if len(w.rules.At(w.now).Sinks) > 0 {
			w.outgoing[st.Window] = st.Decision
		}
	case engine.StepDelivered:
		if st.Delivery.Lane == engine.LaneOutbox {
			delete(w.outgoing, st.Window)
		}
	case engine.StepDeadLetter:
		delete(w.outgoing, st.Window)
	}
}

// compose fills a decision or dead letter with what people read.
func (w *World) compose(s *scope, st *engine.Step, closed []engine.Pending) {
	if st.Kind != engine.StepDecision && st.Kind != engine.StepDeadLetter {
		return
	}
	if d := st.DeadLetter; d != nil && d.Stage == engine.StageSink {
		engine.ComposeUndelivered(d, w.outgoing[st.Window])
		w.letters[st.ID] = &letter{scope: s, body: d}
		return
	}
	// The last: a held window that is judged alone keeps its id, and closes twice.
	i := len(closed) - 1
	for i >= 0 && closed[i].Settled.Window != st.Window {
		i--
	}
	if i < 0 {
		return
	}
	bodies := s.find(closed[i].Members)
	if st.Kind == engine.StepDecision {
		st.Decision = engine.ComposeDecision(s.name, &closed[i].Settled, closed[i].Members, st.Verdict, bodies)
		return
	}
	engine.ComposeDeadLetter(st.DeadLetter, bodies)
	w.letters[st.ID] = &letter{scope: s, body: st.DeadLetter, events: bodies}
}

func (s *scope) noteShed(out *engine.Outcome) {
	for i, run := range []engine.ShedRun{out.Overflow, out.Age} {
		if run.Count == 0 {
			continue
		}
		t := &s.shed[i]
		if t.Count == 0 || run.First < t.First {
			t.First = run.First
		}
		t.Last = max(t.Last, run.Last)
		t.Count += run.Count
	}
}

// dropped is how many events were dropped that no step has told yet.
func (s *scope) dropped() int { return s.shed[0].Count + s.shed[1].Count }

func (s *scope) takeShed() []engine.Step {
	var steps []engine.Step
	for i, why := range []string{"overflow", "age"} {
		if t := s.shed[i]; t.Count > 0 {
			t.Why = why
			steps = append(steps, engine.Step{Kind: engine.StepShed, Shed: &t})
		}
		s.shed[i] = engine.Shed{}
	}
	return steps
}
