package engine_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
)

// whatever draws a scenario with everything that can happen in it.
func whatever(t *rapid.T) *scenario {
	s := draw(t, 0)
	if s.judge == "rule" && rapid.Bool().Draw(t, "reads") {
		s.judge = "reads"
	}
	if rapid.Bool().Draw(t, "trouble") {
		s.trouble(t)
	}
	return s
}

// Every log keeps the laws (recorder), and once nothing more comes every
// window has its outcome: what is left open holds no act.
func TestLaw_NothingIsLostAndEverythingEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := whatever(t)
		told := tell(t, s.text(rapid.Bool().Draw(t, "together")))
		told.rec.checkRefold(t)
		if !told.idle {
			t.Fatalf("something still waits\n%s", told.trace())
		}
		settled, closed := 0, 0
		for i := range told.rec.log {
			closed += told.rec.outs[i].Closed
			if st := told.rec.log[i].Step; st != nil && st.Settled != nil {
				settled++
			}
		}
		if settled != closed {
			t.Fatalf("%d windows closed, and %d settles written\n%s", closed, settled, told.trace())
		}
		folded := told.rec.fold(t)
		for _, name := range told.world.Scopes() {
			st := told.world.State(name)
			if a, b := encode(t, st), encode(t, folded[name]); !bytes.Equal(a, b) {
				t.Fatalf("folding the log of %s gives another state\nlive   %s\nfolded %s", name, a, b)
			}
			if st.Held != nil || st.Slot != nil || len(st.Pending) > 0 || len(st.Requeued) > 0 {
				t.Fatalf("%s has a window without an outcome\n%s", name, told.trace())
			}
			if st.Outbox != nil || st.Letters != nil {
				t.Fatalf("%s has something undelivered\n%s", name, told.trace())
			}
			for i := range st.Open.Events {
				if st.Open.Events[i].Kind.Act() {
					t.Fatalf("an act is left open in %s\n%s", name, told.trace())
				}
			}
		}
	})
}

// The same inputs give the same log, byte for byte.
func TestLaw_Deterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		input := whatever(t).text(false)
		a, b := tell(t, input), tell(t, input)
		for i := range a.rec.log {
			x, y := encodeRecord(t, &a.rec.log[i]), encodeRecord(t, &b.rec.log[i])
			if !bytes.Equal(x, y) {
				t.Fatalf("record %d differs\n%s\n%s", i+1, x, y)
			}
		}
		if x, y := a.trace(), b.trace(); !bytes.Equal(x, y) {
			t.Fatalf("traces differ\n%s\n%s", x, y)
		}
	})
}

func encodeRecord(t tester, rec *engine.Record) []byte {
	t.Helper()
	if rec.Step == nil {
		return fmt.Appendf(nil, "%d %d %s %+v", rec.Position, rec.Stamp, rec.Scope, rec.Event)
	}
	b, err := engine.EncodeStep(rec.Step)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return fmt.Appendf(nil, "%d %d %s %s", rec.Position, rec.Stamp, rec.Scope, b)
}

// How a body is cut into groups of the same stamp changes nothing: here each
// input comes alone, with the owner's moves in between, or all of one instant
// come in one body. A judge takes at least a millisecond.
func TestLaw_HowABodyIsCutChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t, 1)
		alone, together := s.text(false), s.text(true)
		a, b := fates(t, tell(t, alone)), fates(t, tell(t, together))
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("-alone +together:\n%s\n%s", diff, together)
		}
	})
}

// fates are the lines of a trace that tell what became of windows.
func fates(t tester, told *teller) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(string(told.trace())) {
		words := strings.Fields(line)
		switch words[1] {
		case "settled", "decision", "wait", "deadLetter", "call", "failed", "end":
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// With a judge without IO windows and decisions follow from the events and
// their stamps alone: how much the owner lags changes nothing but when they are
// written.
func TestLaw_LagChangesNothingWithAPureJudge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t, 0)
		s.judge, s.answers = oneOf(t, "pure", "waits", "rule", "notes", "reads"), nil
		prompt := decided(tell(t, s.text(false)))
		away := false
		var ops []op
		for _, o := range s.ops {
			if rapid.IntRange(0, 3).Draw(t, "turn") == 0 {
				verb := "pause"
				if away {
					verb = "start"
				}
				away = !away
				ops = append(ops, op{at: o.at, verb: verb})
			}
			ops = append(ops, o)
		}
		if away {
			ops = append(ops, op{at: s.ops[len(s.ops)-1].at + 1, verb: "start"})
		}
		s.ops = ops
		lagging := decided(tell(t, s.text(rapid.Bool().Draw(t, "together"))))
		if diff := cmp.Diff(prompt, lagging); diff != "" {
			t.Fatalf("-prompt +lagging:\n%s\n%s", diff, s.text(false))
		}
	})
}

// decided lists what a log decides, without when it was written.
func decided(told *teller) []string {
	var lines []string
	ids := make(map[engine.Position]string)
	for i := range told.rec.log {
		rec := &told.rec.log[i]
		switch {
		case rec.Event != nil:
			ids[rec.Position] = rec.Event.ID
		case rec.Step.Settled != nil:
			s := rec.Step.Settled
			names := make([]string, len(s.Events))
			for i, p := range s.Events {
				names[i] = ids[p]
			}
			lines = append(lines, fmt.Sprintf("%s %s %s %v due %d waits %d dropped %d gap %v held %s",
				s.Window, s.Reason, s.Trigger, names, s.Due, s.Waits, s.Dropped, s.Gap, s.Held))
		case rec.Step.Verdict != nil:
			v := rec.Step.Verdict
			lines = append(lines, fmt.Sprintf("%s %s at %d until %d", v.Window, v.Route, v.At, v.HeldUntil))
		}
	}
	return lines
}

// A window never settles before a rule allows it, and never later than its
// first act and maxWindowMs, unless the slot was taken or it waited on purpose.
func TestLaw_NeverTooEarlyNorTooLate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := draw(t, 0)
		told := tell(t, s.text(false))
		byPosition := make(map[engine.Position]*engine.Record)
		freed := engine.Time(-1)
		for i := range told.rec.log {
			rec := &told.rec.log[i]
			if rec.Event != nil {
				byPosition[rec.Position] = rec
				continue
			}
			switch st := rec.Step; {
			case st.Kind == engine.StepDecision || st.Kind == engine.StepWait || st.Kind == engine.StepDeadLetter:
				freed = rec.Stamp
			case st.Settled != nil && st.Settled.Trigger == engine.TriggerDeadline:
				checkDue(t, s, st.Settled, byPosition, freed)
			}
		}
	})
}

func checkDue(t *rapid.T, s *scenario, st *engine.Settled, events map[engine.Position]*engine.Record, freed engine.Time) {
	t.Helper()
	earliest, latest := engine.Time(1<<62), engine.Time(1<<62)
	acts := 0
	for _, p := range st.Events {
		rec := events[p]
		if !rec.Event.Kind.Act() {
			continue
		}
		acts++
		age := rec.Stamp + engine.Time(s.settings.MaxWindowMs)
		allowed := rec.Stamp // a flush
		switch rec.Event.Kind {
		case engine.Closing:
			allowed += engine.Time(s.settings.ClosingGraceMs)
		case engine.Continuous:
			allowed += engine.Time(s.settings.StreamGapMs)
		case engine.Passive:
			allowed += engine.Time(s.settings.PassiveQuietMs)
		}
		earliest = min(earliest, allowed, age)
		if st.Held == "" {
			latest = min(latest, age)
		}
	}
	switch {
	case acts == 0:
		t.Fatalf("a window without an act has met a deadline: %+v", st)
	case st.Reason != engine.ReasonOverflow && st.Due < earliest:
		t.Fatalf("settled at %d, and no rule allows it before %d: %+v", st.Due, earliest, st)
	case st.Due > latest && st.Due != freed:
		t.Fatalf("settled at %d, which is later than %d though the slot was free: %+v", st.Due, latest, st)
	}
}
