package runner

import "attend/internal/engine"

// shedding counts dropped events by cause, in the order of shedCauses.
type shedding [2]engine.Shed

// dropped is how many dropped events no step tells yet.
func (s *scope) dropped() int {
	if s.shed == nil {
		return 0
	}
	return s.shed[0].Count + s.shed[1].Count
}

func (s *scope) noteShed(out *engine.Outcome) {
	for i, run := range []engine.ShedRun{out.Overflow, out.Age} {
		if run.Count == 0 {
			continue
		}
		if s.shed == nil {
			s.shed = new(shedding)
		}
		t := &s.shed[i]
		if t.Count == 0 || run.First < t.First {
			t.First = run.First
		}
		t.Last = max(t.Last, run.Last)
		t.Count += run.Count
	}
}

// shedCauses are the causes of scope.shed, in its order.
func shedCauses() [2]string { return [...]string{"overflow", "age"} }

// untold makes the steps that tell dropped events. They are told once the
// steps come back from the log.
func (s *scope) untold() []engine.Step {
	if s.shed == nil {
		s.tell = false
		return nil
	}
	var steps []engine.Step
	for i, why := range shedCauses() {
		if t := s.shed[i]; t.Count > 0 {
			t.Why = why
			steps = append(steps, engine.Step{Kind: engine.StepShed, Shed: &t})
		}
	}
	s.tell = s.tell && len(steps) > 0
	return steps
}

// told takes off what a step tells, whichever replica wrote it.
func (s *scope) told(shed *engine.Shed) {
	s.tell = false
	if s.shed == nil {
		return
	}
	for i, why := range shedCauses() {
		switch t := &s.shed[i]; {
		case why != shed.Why || shed.Last < t.First:
		case shed.Last >= t.Last:
			*t = engine.Shed{}
		default: // dropped between the step's making and its place in the log
			t.Count, t.First = max(t.Count-shed.Count, 1), shed.Last+1
		}
	}
	if s.dropped() == 0 {
		s.shed = nil
	}
}
