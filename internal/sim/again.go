package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"attend/internal/engine"
	"attend/internal/replay"
)

// again plays what came from outside once more, by the owner of package replay:
// it must come to the same windows and verdicts. Answers of judges come when
// they came.
func (l *ledger) again() {
	var exported bytes.Buffer
	for i := range l.records {
		r := &l.records[i]
		if r.Step == nil {
			continue
		}
		line, err := json.Marshal(struct {
			Position engine.Position `json:"position"`
			Stamp    engine.Time     `json:"stamp"`
			Scope    string          `json:"scope"`
			Step     *engine.Step    `json:"step"`
		}{r.Position, r.Stamp, r.Scope, r.Step})
		if err != nil {
			l.add("again", "%v", err)
			return
		}
		exported.Write(append(line, '\n'))
	}
	script, err := replay.ReadScript("log", &exported)
	if err != nil {
		l.add("again", "%v", err)
		return
	}
	var found []engine.Record
	world := replay.New(replay.Options{Compile: compile, Script: script, Emit: func(rec *engine.Record, _ *engine.Outcome) {
		found = append(found, *rec)
	}})
	for i := range l.records {
		r := &l.records[i]
		if r.Step != nil && !r.Step.Kind.Outside() {
			continue
		}
		if err := world.Take(r.Stamp, replay.Input{Scope: r.Scope, Event: r.Event, Step: r.Step}); err != nil {
			l.add("again", "position %d: %v", r.Position, err)
			return
		}
	}
	world.Drain(1 << 60)
	for _, name := range l.names {
		if l.within(name) {
			l.sameStory(name, story(l.records, name), story(found, name))
		}
	}
}

// sameStory compares what became of a scope's windows.
func (l *ledger) sameStory(scope string, log, again []string) {
	l.totals.Replayed += len(log)
	if slices.Equal(log, again) {
		return
	}
	i := 0
	for i < len(log) && i < len(again) && log[i] == again[i] {
		i++
	}
	at := func(s []string) string {
		if i < len(s) {
			return s[i]
		}
		return "nothing"
	}
	l.add("again", "scope %q: the log has %s, a replay %s (step %d)", scope, at(log), at(again), i)
}

// story is what became of a scope's windows, positions left out.
func story(log []engine.Record, scope string) []string {
	ids := make(map[engine.Position]string)
	var out []string
	for i := range log {
		r := &log[i]
		if r.Scope != scope {
			continue
		}
		if r.Event != nil {
			ids[r.Position] = r.Event.ID
			continue
		}
		if aboutLane(r.Step) {
			continue
		}
		switch st := r.Step; st.Kind { //nolint:exhaustive // the rest tells how it came about
		case engine.StepSettled:
			s := st.Settled
			events := make([]string, len(s.Events))
			for i, p := range s.Events {
				events[i] = ids[p]
			}
			out = append(out, fmt.Sprintf("settled %s %s %s due %d %v waits %d dropped %d gap %v held %q", s.Window, s.Reason, s.Trigger, s.Due, events, s.Waits, s.Dropped, s.Gap, s.Held))
		case engine.StepWait, engine.StepDecision:
			out = append(out, fmt.Sprintf("%s %s %s (judged %s)", st.Kind, st.Window, st.Route, st.Verdict.JudgedRoute))
		case engine.StepDeadLetter:
			out = append(out, fmt.Sprintf("dead letter %s %d", st.Window, st.DeadLetter.Number))
		}
	}
	return out
}

// within reports whether the scope's log says all that a replay needs. It does
// not where
//   - an outcome of a call has the stamp of something from outside that stands
//     before it: what comes in at an instant is played after what is due at it;
//   - a judge's wait, or a backoff, was counted from an earlier instant than its
//     record's;
//   - a flush call or a policy came while the start of a call was on its way into
//     the log, which then offers, or obeys, what stood before that;
//   - a flush came while an attempt waited for its next try, and whoever should
//     have cut the wait short was away until it was over;
//   - a window that an earlier judge left in the slot was judged by a call of a
//     pure one: a replay has it answer at once, and the call may have failed.
func (l *ledger) within(scope string) bool {
	input, policy, extra := engine.Time(-1), l.rules.Latest(), false
	var waits cutWait
	for i := range l.records {
		r := &l.records[i]
		if r.Scope != scope && r.Scope != "" {
			continue
		}
		if r.Step == nil || r.Step.Kind.Outside() {
			input = r.Stamp
			waits.flushed(r)
			continue
		}
		if waits.missed(r.Step) {
			return false
		}
		if c := r.Step.Call; c != nil {
			extra = c.Extra
			policy = l.rules.Numbered(c.Policy)
			if l.scopes[scope].raced || pureJudges()[c.Judge] != nil {
				return false
			}
		}
		if f := r.Step.Failed; f != nil && f.RetryAt > 0 && (f.Why != "lost" || extra) && f.RetryAt != retryAt(r, policy.For(scope)) {
			return false
		}
		asked := r.Step.Kind == engine.StepCall || r.Step.Failed != nil || r.Step.Verdict != nil && r.Step.Verdict.Attempt > 0
		if asked && r.Stamp == input || r.Step.Kind == engine.StepWait && r.Step.Verdict.Attempt > 0 && r.Step.Verdict.At != r.Stamp {
			return false
		}
	}
	return true
}

// cutWait follows a scope's backoffs: a flush cuts one short, once a window.
type cutWait struct {
	until engine.Time // when the next try is due; 0 while none waits
	used  bool        // for the window that is being judged
	cut   bool        // a flush came while a try waited
}

func (c *cutWait) flushed(r *engine.Record) {
	flush := r.Event != nil && r.Event.Kind == engine.Flush || r.Step != nil && r.Step.Kind == engine.StepFlush
	c.cut = c.cut || flush && !c.used && r.Stamp < c.until
}

// missed reports a try that was made as if no flush had come.
func (c *cutWait) missed(step *engine.Step) bool {
	switch {
	case step.Failed != nil:
		c.until = step.Failed.RetryAt
	case step.Call != nil:
		if c.cut && !step.Call.Extra {
			return true
		}
		c.used = step.Call.Extra || c.used && step.Call.Attempt > 1
		c.until, c.cut = 0, false
	}
	return false
}

// retryAt is when the next attempt starts, counted from the record.
func retryAt(r *engine.Record, set *engine.Settings) engine.Time {
	f := r.Step.Failed
	backoff := int64(0)
	if f.Why == engine.WhyHeld {
		backoff = 1000 + int64(1000*set.RetryJitter*engine.Jitter(r.Step.Window, f.Attempt))
	} else if n := len(set.RetryBackoffMs); n > 0 {
		rung := set.RetryBackoffMs[min(max(f.Attempt, 1), n)-1]
		backoff = rung + int64(float64(rung)*set.RetryJitter*engine.Jitter(r.Step.Window, f.Attempt))
	}
	return max(r.Stamp+engine.Time(backoff), f.NotBefore, 1)
}
