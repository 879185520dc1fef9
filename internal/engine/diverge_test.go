package engine_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/replay"
)

// A recorded step wins over the fold, whatever it says: here settles and
// verdicts of a log are changed as another version might have written them, and
// judges have come to be pure, or no more.
// Nothing panics, the record stands, and no act is lost: the owner that goes
// on from there brings each to an end.
func TestLaw_RecordedStepsWin(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t, 0)
		told := tell(t, s.text(false))
		log := told.rec.log[:rapid.IntRange(len(told.rec.log)/2, len(told.rec.log)).Draw(t, "cut")]
		log = mutate(t, log)

		rec := recorder{pure: told.rec.pure}
		switch oneOf(t, "judges", "as they were", "as they were", "pure", "none pure") {
		case "pure": // what asked a judge then is decided by the fold now
			rec.pure = map[string]engine.PureJudge{"script": pureJudges()["reads"], "rule": engine.RuleJudge, "waits": engine.RuleJudge, "notes": engine.RuleJudge}
		case "none pure":
			rec.pure = nil
		}
		var w *replay.World
		w = replay.New(replay.Options{Compile: compile(rec.pure), Emit: func(r *engine.Record, out *engine.Outcome) {
			rec.emit(r, out)
			if st := r.Step; st != nil && st.Settled != nil {
				stands(t, w.State(r.Scope), st.Settled)
			}
		}})
		if err := w.Restore(log); err != nil {
			t.Fatalf("%v", err)
		}
		w.Start(w.Now())
		if !w.Drain(1 << 40) {
			t.Fatalf("something still waits")
		}
		rec.checkRefold(t)
		noActIsLost(t, &rec, w, s)
	})
}

// stands checks that a settle is in the state as its record says.
func stands(t *rapid.T, s *engine.State, st *engine.Settled) {
	t.Helper()
	var got engine.Members
	switch {
	case s.Slot != nil && s.Slot.Settled.Window == st.Window && s.Slot.Recorded:
		got = s.Slot.Members
	case len(s.Pending) > 0 && s.Pending[0].Recorded && s.Pending[0].Settled.Window == st.Window:
		got = s.Pending[0].Members
	default:
		t.Fatalf("the settle of %s left no trace", st.Window)
	}
	for i := range st.Events {
		if len(got) != len(st.Events) || got[i].Position != st.Events[i] {
			t.Fatalf("window %s holds %v, and its record says %v", st.Window, got, st.Events)
		}
	}
}

func noActIsLost(t *rapid.T, rec *recorder, w *replay.World, s *scenario) {
	t.Helper()
	settled := make(map[string]*engine.Settled)
	done := make(map[engine.Position]bool)
	for i := range rec.log {
		st := rec.log[i].Step
		switch {
		case st == nil:
		case st.Settled != nil:
			settled[st.Window] = st.Settled
		case st.Kind == engine.StepDecision || st.Kind == engine.StepDeadLetter:
			if c := settled[st.Window]; c != nil {
				for _, p := range c.Events {
					done[p] = true
				}
			}
		}
	}
	for i := range rec.log {
		r := &rec.log[i]
		if r.Event == nil || rec.outs[i].Duplicate || !r.Event.Kind.Act() || done[r.Position] {
			continue
		}
		t.Fatalf("act %d (%s) is lost\n%s\n%s", r.Position, r.Event.ID, s.text(false), render(rec))
	}
	for _, name := range w.Scopes() {
		st := w.State(name)
		if st.Held != nil || st.Slot != nil || len(st.Pending) > 0 || len(st.Requeued) > 0 {
			t.Fatalf("a window is left without an outcome\n%s\n%s", s.text(false), render(rec))
		}
	}
}

func render(rec *recorder) string {
	var b []byte
	h := &replay.History{Out: writerFunc(func(p []byte) (int, error) { b = append(b, p...); return len(p), nil }), Events: true, Home: "s"}
	for i := range rec.log {
		h.Record(&rec.log[i], &rec.outs[i])
	}
	return string(b)
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// mutate returns a copy of a log in which some settles and verdicts differ.
func mutate(t *rapid.T, log []engine.Record) []engine.Record {
	out := slices.Clone(log)
	renamed := make(map[string]string) // windows of other members have other ids
	for i := range out {
		st := out[i].Step
		if st == nil {
			continue
		}
		if renamed[st.Window] != "" && st.Settled == nil {
			out[i].Step = rename(st, renamed[st.Window])
			continue
		}
		delete(renamed, st.Window)
		if !rapid.Bool().Draw(t, "mutate") {
			continue
		}
		step := *st
		switch {
		case st.Settled != nil:
			step.Settled = mutateSettled(t, out[:i], *st.Settled)
			if !slices.Equal(step.Settled.Events, st.Settled.Events) {
				step.Settled.Window = "other-" + st.Window
				step.Window = step.Settled.Window
				renamed[st.Window] = step.Window
			}
		case st.Kind == engine.StepDecision && st.Verdict.JudgedRoute != 0:
			v := *st.Verdict
			v.Route = oneOf(t, "route", engine.Wait, engine.Skip)
			step.Verdict, step.Route, step.Decision = &v, v.Route, nil
			if v.Route == engine.Wait {
				step.Kind, step.ID = engine.StepWait, ""
				v.HeldUntil = v.At + oneOf(t, "held", engine.Time(0), 10, 1000)
			}
		case st.Kind == engine.StepWait:
			v := *st.Verdict
			v.HeldUntil += oneOf(t, "later", engine.Time(0), 7)
			if rapid.Bool().Draw(t, "decide") {
				v.Route, v.HeldUntil = engine.Note, 0
				step.Kind, step.ID = engine.StepDecision, v.Window
			}
			step.Verdict, step.Route = &v, v.Route
		}
		out[i].Step = &step
	}
	return out
}

func rename(st *engine.Step, window string) *engine.Step {
	step := *st
	step.Window = window
	if st.Verdict != nil {
		v := *st.Verdict
		v.Window = window
		step.Verdict = &v
	}
	if st.DeadLetter != nil {
		d := *st.DeadLetter
		d.WindowID = window
		step.DeadLetter = &d
	}
	return &step
}

func mutateSettled(t *rapid.T, before []engine.Record, s engine.Settled) *engine.Settled {
	s.Events = slices.Clone(s.Events)
	switch oneOf(t, "what", "reason", "due", "less", "more", "split", "held", "counts") {
	case "reason":
		s.Reason = oneOf(t, "reason", engine.ReasonClosing, engine.ReasonFlush, engine.ReasonForced)
		s.Trigger = oneOf(t, "trigger", engine.TriggerDeadline, engine.TriggerHorizon)
	case "due":
		s.Due = max(0, s.Due-oneOf(t, "earlier", engine.Time(1), 10, -1))
		s.SettledAt = max(s.SettledAt, s.Due)
	case "less": // an event was shed, or a rule left an act out
		if n := len(s.Events); n > 1 {
			i := rapid.IntRange(0, n-1).Draw(t, "which")
			s.Events = slices.Delete(s.Events, i, i+1)
		}
	case "more": // another event of the scope, wherever it is now
		for _, rec := range slices.Backward(before) {
			if rec.Event != nil && !slices.Contains(s.Events, rec.Position) && rapid.Bool().Draw(t, "this") {
				s.Events = append(s.Events, rec.Position)
				s.Covered = max(s.Covered, rec.Position)
				slices.Sort(s.Events)
				break
			}
		}
	case "split": // it was closed earlier
		if n := len(s.Events); n > 1 {
			s.Events = s.Events[:n/2]
			s.Covered = s.Events[len(s.Events)-1]
		}
	case "held":
		s.Held = oneOf(t, "held", "", "nobody")
	case "counts":
		s.Dropped, s.Gap, s.MayWait = s.Dropped+3, !s.Gap, !s.MayWait
	}
	return &s
}

// A record that differs from what the fold made says so: each of these alone.
func TestApply_TellsWhereARecordDiffers(t *testing.T) {
	const input = "judge pure waits\npolicy waitHorizonMs=50000\n0 event closing a e1\n5000 event consequence a c1\n5000 event closing a e2\n90000 event closing a e3\n"
	differs := map[string]func(*engine.Step){
		"":              func(*engine.Step) {},
		"window":        func(st *engine.Step) { st.Settled.Window = "other" },
		"reason":        func(st *engine.Step) { st.Settled.Reason = engine.ReasonAge },
		"trigger":       func(st *engine.Step) { st.Settled.Trigger = engine.TriggerFlush },
		"held":          func(st *engine.Step) { st.Settled.Held = "other" },
		"due":           func(st *engine.Step) { st.Settled.Due-- },
		"silence":       func(st *engine.Step) { st.Settled.Silence = "other" },
		"events":        func(st *engine.Step) { st.Settled.Events = st.Settled.Events[1:] },
		"route":         func(st *engine.Step) { st.Verdict.Route, st.Verdict.HeldUntil = engine.Note, 0 },
		"how long":      func(st *engine.Step) { st.Verdict.HeldUntil++ },
		"a dead letter": nil,
	}
	for name, change := range differs {
		t.Run(name, func(t *testing.T) {
			told := tell(t, input)
			settle, verdict := lastMerge(t, told.rec.log)
			s := engine.NewState("s")
			var out engine.Outcome
			for i, rec := range told.rec.log[:verdict+1] {
				if rec.Scope == "" {
					continue
				}
				if i == settle || i == verdict {
					rec.Step = copyStep(t, rec.Step)
				}
				switch {
				case change == nil && i == verdict:
					rec.Step = &engine.Step{Kind: engine.StepDeadLetter, DeadLetter: &engine.DeadLetter{Stage: engine.StageJudge, WindowID: rec.Step.Window}}
				case change != nil && (i == settle && !about(name) || i == verdict && about(name)):
					change(rec.Step)
				}
				if out = s.Apply(told.world.Rules(), &rec); out.Diverged != "" {
					break
				}
			}
			if (out.Diverged != "") != (name != "") {
				t.Errorf("diverged: %q", out.Diverged)
			}
		})
	}
}

// about reports whether a change is one of the verdict.
func about(change string) bool { return change == "route" || change == "how long" }

// lastMerge finds the settle that took in a held window and was answered wait,
// and that answer.
func lastMerge(t *testing.T, log []engine.Record) (settle, verdict int) {
	t.Helper()
	for i := len(log) - 2; i > 0; i-- {
		if st := log[i].Step; st != nil && st.Settled != nil && st.Settled.Held != "" && log[i+1].Step.Kind == engine.StepWait {
			return i, i + 1
		}
	}
	t.Fatal("no window was merged and held again")
	return 0, 0
}

func copyStep(t *testing.T, st *engine.Step) *engine.Step {
	t.Helper()
	b, err := engine.EncodeStep(st)
	if err != nil {
		t.Fatal(err)
	}
	out, err := engine.DecodeStep(b, engine.Format)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
