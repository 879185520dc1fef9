package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"attend/internal/engine"
)

// tester is what the laws need of *testing.T and *rapid.T.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
}

// recorder keeps a log as it is made, and holds the laws of the fold against
// it.
type recorder struct {
	pure map[string]engine.PureJudge
	log  []engine.Record
	outs []engine.Outcome
}

func (r *recorder) emit(rec *engine.Record, out *engine.Outcome) {
	r.log = append(r.log, *rec)
	r.outs = append(r.outs, *out)
}

// check holds what must be true of any log; checkRefold holds the rest, and
// takes its time.
func (r *recorder) check(t tester) {
	t.Helper()
	r.checkOrder(t)
	r.checkOutcomes(t)
	r.checkLanes(t)
}

// checkOrder: positions have no gaps, stamps never fall, a settle is never
// written before it is due.
func (r *recorder) checkOrder(t tester) {
	t.Helper()
	for i := range r.log {
		rec := &r.log[i]
		if rec.Position != engine.Position(i+1) || i > 0 && rec.Stamp < r.log[i-1].Stamp {
			t.Fatalf("record %d has position %d and stamp %d", i, rec.Position, rec.Stamp)
		}
		if st := rec.Step; st != nil && st.Settled != nil && (st.Settled.SettledAt < st.Settled.Due || rec.Stamp < st.Settled.Due) {
			t.Fatalf("position %d settles at %d, and is due at %d", rec.Position, st.Settled.SettledAt, st.Settled.Due)
		}
		if d := r.outs[i].Diverged; d != "" {
			t.Fatalf("position %d: the live fold differs from its own log: %s", rec.Position, d)
		}
		if r.outs[i].Ignored && !rec.Step.Kind.Outside() {
			t.Fatalf("position %d: an owner's step is ignored: %+v", rec.Position, rec.Step)
		}
	}
}

// fate is what has become of the events of one scope.
type fate struct {
	accepted map[engine.Position]engine.Kind
	final    map[engine.Position]string // window that decided or dead-lettered it
	dropped  int
}

// checkOutcomes: an accepted event is in exactly one window with a final
// outcome, or open, held or judged, or was shed and counted; an act is never
// shed; a decision carries its window.
func (r *recorder) checkOutcomes(t tester) {
	t.Helper()
	live := r.fold(t)
	fates := make(map[string]*fate)
	settled := make(map[string]*engine.Settled)
	for i := range r.log {
		rec := &r.log[i]
		f := fates[rec.Scope]
		if f == nil {
			f = &fate{accepted: map[engine.Position]engine.Kind{}, final: map[engine.Position]string{}}
			fates[rec.Scope] = f
		}
		switch {
		case rec.Event != nil && !r.outs[i].Duplicate:
			f.accepted[rec.Position] = rec.Event.Kind
		case rec.Step != nil && rec.Step.Settled != nil:
			settled[rec.Step.Window] = rec.Step.Settled
			if s := rec.Step.Settled; s.Held == "" {
				f.dropped += s.Dropped
			}
		case rec.Step != nil && (rec.Step.Kind == engine.StepDecision || rec.Step.Kind == engine.StepDeadLetter):
			s := settled[rec.Step.Window]
			if s != nil && !slices.IsSorted(s.Events) {
				t.Fatalf("position %d: events out of order: %v", rec.Position, s.Events)
			}
			if s == nil {
				t.Fatalf("position %d: an outcome of a window that never settled", rec.Position)
			}
			for _, p := range s.Events {
				if w, twice := f.final[p]; twice && w != rec.Step.Window {
					t.Fatalf("event %d is in windows %s and %s", p, w, rec.Step.Window)
				}
				f.final[p] = rec.Step.Window
			}
			if d := rec.Step.Decision; d != nil && (d.ID != s.Window || len(d.Events)+d.Cut != len(s.Events) || d.SettledAt != s.SettledAt) {
				t.Fatalf("position %d: decision %+v is not of window %+v", rec.Position, d, s)
			}
		}
	}
	for scope, f := range fates {
		if s := live[scope]; s != nil {
			f.account(t, s)
		}
	}
}

// account compares the fates of the log with the fold.
func (f *fate) account(t tester, s *engine.State) {
	t.Helper()
	waiting := make(map[engine.Position]bool)
	for _, m := range windowsOf(s) {
		for i := range m {
			if waiting[m[i].Position] {
				t.Fatalf("event %d stands twice in the state of %s", m[i].Position, s.Scope)
			}
			waiting[m[i].Position] = true
		}
	}
	for p, kind := range f.accepted {
		_, done := f.final[p]
		switch {
		case done && waiting[p] && !requeued(s, p):
			t.Fatalf("event %d has an outcome and waits for one", p)
		case !done && !waiting[p] && kind.Act():
			t.Fatalf("act %d is lost", p)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(f.final)) {
		if _, ok := f.accepted[p]; !ok {
			t.Fatalf("event %d was never accepted, and has an outcome", p)
		}
	}
}

func requeued(s *engine.State, p engine.Position) bool {
	in := func(m engine.Members) bool {
		return slices.ContainsFunc(m, func(e engine.Member) bool { return e.Position == p })
	}
	for i := range s.Requeued {
		if in(s.Requeued[i].Members) {
			return true
		}
	}
	for i := range s.Pending {
		if s.Pending[i].Settled.Trigger == engine.TriggerRequeue && in(s.Pending[i].Members) {
			return true
		}
	}
	return s.Slot != nil && s.Slot.Settled.Trigger == engine.TriggerRequeue && in(s.Slot.Members)
}

// windowsOf lists the members of every window that waits for an outcome, each
// event once.
func windowsOf(s *engine.State) []engine.Members {
	all := []engine.Members{s.Open.Events}
	if s.Held != nil {
		all = append(all, s.Held.Members)
	}
	if s.Slot != nil {
		all = append(all, s.Slot.Members)
	}
	for i := range s.Requeued {
		all = append(all, s.Requeued[i].Members)
	}
	for i := range s.Pending {
		p := &s.Pending[i]
		if p.Dead != "" || p.Verdict != nil && p.Verdict.Route != engine.Wait {
			all = append(all, p.Members)
		}
	}
	return all
}

// fold applies the whole log to empty states.
func (r *recorder) fold(t tester) map[string]*engine.State {
	t.Helper()
	states, _ := r.foldWith(t, nil)
	return states
}

// foldWith applies the whole log; each, where given, may replace a state after
// each of its records. Policies and silences are known from the start, as
// after a restart.
func (r *recorder) foldWith(t tester, each func(rules *engine.Rules, s *engine.State) *engine.State) (map[string]*engine.State, *engine.Rules) {
	t.Helper()
	rules := engine.NewRules(compile(r.pure))
	for i := range r.log {
		if r.log[i].Scope == "" {
			if err := rules.Apply(r.log[i]); err != nil {
				t.Fatalf("position %d: %v", r.log[i].Position, err)
			}
		}
	}
	states := make(map[string]*engine.State)
	for i := range r.log {
		rec := &r.log[i]
		if rec.Scope == "" {
			continue
		}
		s := states[rec.Scope]
		if s == nil {
			s = engine.NewState(rec.Scope)
		}
		r.fill(rules, s, rec)
		out := s.Apply(rules, rec)
		if want, got := r.outs[i], out; fmt.Sprint(want) != fmt.Sprint(got) {
			t.Fatalf("position %d: folding the log gives %+v, live it gave %+v", rec.Position, got, want)
		}
		if each != nil {
			s = each(rules, s)
		}
		states[rec.Scope] = s
	}
	return states, rules
}

// fill gives a state the bodies that the rules look at.
func (r *recorder) fill(rules *engine.Rules, s *engine.State, next *engine.Record) {
	missing := s.Missing(rules, next)
	var found []engine.Record
	for _, p := range missing {
		if rec := r.log[p-1]; rec.Event != nil {
			found = append(found, rec)
		}
	}
	s.Fill(missing, found)
}

// checkRefold: the fold of the whole log is the live state; encoding and
// decoding a state at any moment changes nothing afterwards; asking what is
// due, at any clock, changes nothing.
func (r *recorder) checkRefold(t tester) {
	t.Helper()
	plain := r.fold(t)
	blocks := make(map[string]map[int64][]byte)
	again, _ := r.foldWith(t, func(rules *engine.Rules, s *engine.State) *engine.State {
		before := encode(t, s)
		r.fill(rules, s, nil)
		for _, at := range []engine.Time{0, s.Time - 1, s.Time, s.Time + 1, s.Time + 5000, s.Time + 100000} {
			s.Propose(rules, at)
			s.CallDue(at)
			s.WakeAt()
		}
		if after := encode(t, s); !bytes.Equal(before, after) {
			t.Fatalf("position %d: Propose changed the state\nbefore %s\nafter  %s", s.Position, before, after)
		}
		return store(t, rules, s, blocks)
	})
	for _, scope := range slices.Sorted(maps.Keys(plain)) {
		if a, b := encode(t, plain[scope]), encode(t, again[scope]); !bytes.Equal(withoutTail(t, a), withoutTail(t, b)) {
			t.Fatalf("%s: storing the state at every record changes it\nplain  %s\nstored %s", scope, a, b)
		}
	}
}

// store writes a state as a runner does and reads it back.
func store(t tester, rules *engine.Rules, s *engine.State, blocks map[string]map[int64][]byte) *engine.State {
	t.Helper()
	kept := blocks[s.Scope]
	if kept == nil {
		kept = make(map[int64][]byte)
		blocks[s.Scope] = kept
	}
	row := encode(t, s)
	s.Seen.Blocks(func(seq int64, body []byte) {
		if _, twice := kept[seq]; twice {
			t.Fatalf("dedup block %d of %s is written twice", seq, s.Scope)
		}
		kept[seq] = body
	})
	s.Seen.MarkStored(s.Seen.SealedTo())
	for seq := range kept {
		if seq < s.Seen.DropBlocksBefore() {
			delete(kept, seq)
		}
	}
	back, err := engine.DecodeState(rules, row, engine.Format, func(yield func(int64, []byte) error) error {
		for _, seq := range slices.Sorted(maps.Keys(kept)) {
			if err := yield(seq, kept[seq]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("position %d: %v\n%s", s.Position, err, row)
	}
	if again := encode(t, back); !bytes.Equal(row, again) {
		t.Fatalf("position %d: a state is not what was stored\nstored %s\nread   %s", s.Position, row, again)
	}
	return back
}

func encode(t tester, s *engine.State) []byte {
	t.Helper()
	b, err := engine.EncodeState(s)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

// withoutTail leaves out where the remembered ids stand: in the row, or in
// blocks beside it.
func withoutTail(t tester, row []byte) []byte {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(row, &m); err != nil {
		t.Fatalf("%v", err)
	}
	delete(m, "tail")
	delete(m, "seenTo")
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

var _ tester = (*testing.T)(nil)
