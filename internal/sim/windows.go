package sim

import (
	"slices"

	"attend/internal/engine"
)

// window is one settle and what has come of it, read from the steps alone.
type window struct {
	scope   string
	settled *engine.Settled
	at      engine.Position // of the settled step
	final   *engine.Record  // its decision or dead letter
	held    bool            // its verdict was wait
	taken   string          // id of the window that took it in
	letters int             // dead letters so far

	// Since it came into the slot.
	calling *engine.Call
	calls   int
	attempt int
	cut     bool // a call outside the ladder has started
	failed  *engine.Failed
}

// step holds a step about a window against those before.
func (l *ledger) step(r *engine.Record) {
	st := r.Step
	if st == nil || st.Window == "" {
		return
	}
	if aboutLane(st) {
		l.delivery(r)
		return
	}
	if st.Kind == engine.StepSettled {
		l.settle(r)
		return
	}
	w := l.windows[st.Window]
	if w == nil || w.scope != r.Scope {
		l.add("steps", "position %d: a %s step about window %s, which has not settled", r.Position, st.Kind, st.Window)
		return
	}
	if st.Kind == engine.StepRequeue {
		if l.requeued[st.Requeue.DeadLetter] {
			return // the second word changes nothing: apply checks that
		}
		w.final, w.attempt, w.cut, w.failed = nil, 0, false, nil
		return
	}
	if w.final != nil || w.held {
		l.add("outcomes", "position %d: a %s step about window %s, which has its outcome", r.Position, st.Kind, st.Window)
		return
	}
	switch st.Kind { //nolint:exhaustive // the others concern no window
	case engine.StepCall:
		l.called(w, r)
	case engine.StepFailed:
		l.failed(w, r)
	case engine.StepWait, engine.StepDecision:
		l.answered(w, r)
	case engine.StepDeadLetter:
		d := st.DeadLetter
		w.letters++
		if id := engine.DeadLetterID(w.settled.Window, engine.StageJudge, w.letters); d.ID != id || st.ID != id {
			l.add("identity", "position %d: dead letter %s of window %s, its id is %s", r.Position, st.ID, st.Window, id)
		}
		l.letters = append(l.letters, d)
		l.totals.DeadLetters++
		l.end(w, r)
	}
}

// settle: a window settles once, not before it is due, with events of its scope
// in order, and its id follows from them.
func (l *ledger) settle(r *engine.Record) {
	s := r.Step.Settled
	if s == nil || s.Window != r.Step.Window || len(s.Events) == 0 {
		l.add("settled", "position %d: a settled step without a window or events", r.Position)
		return
	}
	// A held window that is judged alone at its horizon has the same events, and
	// so the same id.
	before := l.windows[s.Window]
	if before != nil && s.Held != s.Window {
		l.add("identity", "window %s settles at position %d and again at %d", s.Window, before.at, r.Position)
		return
	}
	if s.Due > r.Stamp || s.SettledAt > r.Stamp || s.SettledAt < s.Due || s.Deadline.At > s.Due {
		l.add("early", "window %s, position %d, stamp %d: deadline %d, due %d, settled at %d", s.Window, r.Position, r.Stamp, s.Deadline.At, s.Due, s.SettledAt)
	}
	if s.Waits > l.maxWaits {
		l.add("waits", "window %s has waited %d times, at most %d are allowed", s.Window, s.Waits, l.maxWaits)
	}
	members := make(engine.Members, 0, len(s.Events))
	for i, p := range s.Events {
		if p < 1 || p >= r.Position || l.records[p-1].Event == nil || l.records[p-1].Scope != r.Scope {
			l.add("settled", "window %s names position %d, which is no event of scope %q before it", s.Window, p, r.Scope)
			return
		}
		if e := &l.records[p-1]; i > 0 && p <= s.Events[i-1] || p > s.Covered || e.Stamp > s.Due {
			l.add("settled", "window %s, due %d, covers %d: the event at position %d came at %d, or out of order", s.Window, s.Due, s.Covered, p, e.Stamp)
		}
		members = append(members, engine.Member{Position: p, SeenAt: l.records[p-1].Stamp, Digest: engine.DigestOf(l.records[p-1].Event.ID)})
	}
	if id := engine.WindowID(r.Scope, members); id != s.Window {
		l.add("identity", "window %s of scope %q: from its events its id is %s", s.Window, r.Scope, id)
	}
	w := &window{scope: r.Scope, settled: s, at: r.Position}
	if s.Held != "" {
		l.takeIn(w)
	}
	l.scope(r.Scope).told += s.Dropped
	l.windows[s.Window] = w
	l.totals.Windows++
	if before == nil {
		l.inOrder = append(l.inOrder, w)
	} else {
		l.inOrder[slices.Index(l.inOrder, before)] = w
	}
}

// takeIn: a held window is taken in once, in front.
func (l *ledger) takeIn(w *window) {
	held := l.windows[w.settled.Held]
	switch {
	case held == nil || !held.held || held.scope != w.scope || held.taken != "":
		l.add("held", "window %s takes in %s, which is not held, or no more", w.settled.Window, w.settled.Held)
	case !slices.Equal(held.settled.Events, w.settled.Events[:min(len(held.settled.Events), len(w.settled.Events))]):
		l.add("held", "window %s does not begin with the events of %s", w.settled.Window, w.settled.Held)
	case w.settled.Waits != held.settled.Waits+1:
		l.add("waits", "window %s has waited %d times, the one that it takes in %d", w.settled.Window, w.settled.Waits, held.settled.Waits)
	default:
		held.taken = w.settled.Window
		l.scope(w.scope).told -= held.settled.Dropped
	}
}

// called: one call at a time, on the ladder but for one, and not before the
// time that the last failure set.
func (l *ledger) called(w *window, r *engine.Record) {
	c := r.Step.Call
	id := r.Step.Window
	want := w.attempt
	if !c.Extra {
		want++
	}
	switch {
	case w.calling != nil:
		l.add("attempts", "position %d: a call about window %s starts while one runs", r.Position, id)
	case c.Attempt != want || c.Attempt > 1+l.rungs:
		l.add("attempts", "position %d: attempt %d of window %s, want %d of at most %d", r.Position, c.Attempt, id, want, 1+l.rungs)
	case c.Extra && w.cut && (w.failed == nil || !w.failed.Uncounted):
		l.add("attempts", "position %d: a second call about window %s outside the ladder", r.Position, id)
	case w.failed != nil && (r.Stamp < w.failed.NotBefore || !c.Extra && !w.failed.Uncounted && r.Stamp < w.failed.RetryAt):
		l.add("attempts", "position %d: a call about window %s at %d, want at or after %d", r.Position, id, r.Stamp, max(w.failed.RetryAt, w.failed.NotBefore))
	case slices.Contains(c.Offered, engine.Wait) && (!w.settled.MayWait || w.settled.Waits >= l.maxWaits || w.letters > 0):
		l.add("waits", "position %d: wait is on offer for window %s", r.Position, id)
	}
	w.calling, w.attempt, w.cut = c, c.Attempt, w.cut || c.Extra
	w.calls++
}

func (l *ledger) failed(w *window, r *engine.Record) {
	f := r.Step.Failed
	if w.calling == nil || f.Attempt != w.attempt {
		l.add("attempts", "position %d: attempt %d of window %s fails, and is not running", r.Position, f.Attempt, r.Step.Window)
		return
	}
	l.totals.Failures++
	if f.Uncounted && !w.calling.Extra {
		w.attempt--
	}
	w.failed, w.calling = f, nil
}

// answered: a verdict answers the running call with a route that was on offer,
// or needs no call and stands behind its settle.
func (l *ledger) answered(w *window, r *engine.Record) {
	v, id := r.Step.Verdict, r.Step.Window
	switch {
	case v == nil || v.Window != id || v.Route != r.Step.Route:
		l.add("verdict", "position %d: a verdict that does not say what its step says", r.Position)
		return
	case v.Attempt == 0 && w.letters == 0 && r.Position != w.at+1:
		l.add("verdict", "window %s settles at %d, the verdict that needs no call stands at %d", id, w.at, r.Position)
	case v.Attempt > 0 && (w.calling == nil || v.Attempt != w.attempt):
		l.add("attempts", "position %d: an answer to attempt %d of window %s, which is not running", r.Position, v.Attempt, id)
	case v.Attempt > 0 && !slices.Contains(w.calling.Offered, v.JudgedRoute):
		l.add("verdict", "position %d: window %s is judged %s, which was not on offer", r.Position, id, v.JudgedRoute)
	}
	if v != nil && v.Judge != nil && (v.Judge.Name == judgeReads && v.JudgedRoute == unread || v.Judge.Name != "rule" && v.Attempt == 0 && v.Route == unread) {
		l.add("unread", "position %d: window %s is judged without what its events say", r.Position, id)
	}
	w.calling = nil
	if r.Step.Kind == engine.StepWait {
		w.held = true
		l.totals.Waits++
		if w.settled.Waits >= l.maxWaits {
			l.add("waits", "position %d: window %s waits once more after %d times", r.Position, id, w.settled.Waits)
		}
		return
	}
	l.totals.Decisions++
	l.shown(w, r)
	l.end(w, r)
}

// shown: D says what the settle says, and shows the window's events.
func (l *ledger) shown(w *window, r *engine.Record) {
	d, s := r.Step.Decision, w.settled
	if d == nil || d.ID != s.Window || r.Step.ID != s.Window || d.Scope != r.Scope || d.Route != r.Step.Route || d.Route == engine.Wait {
		l.add("decision", "position %d: the decision of window %s has other names", r.Position, s.Window)
		return
	}
	if d.Reason != s.Reason || d.Due != s.Due || d.SettledAt != s.SettledAt || d.Dropped != s.Dropped || d.Gap != s.Gap || d.Waits != s.Waits {
		l.add("decision", "position %d: decision %s does not say what its settle says", r.Position, d.ID)
	}
	if len(d.Events)+d.Cut != len(s.Events) {
		l.add("decision", "decision %s shows %d events and cuts %d of %d", d.ID, len(d.Events), d.Cut, len(s.Events))
		return
	}
	for i := range d.Events {
		if e := l.records[s.Events[i]-1].Event; d.Cut == 0 && (d.Events[i].ID != e.ID || d.Events[i].Text != e.Text) {
			l.add("decision", "decision %s shows event %q otherwise than it is stored", d.ID, e.ID)
		}
	}
}

// end makes a window final: it has its events alone.
func (l *ledger) end(w *window, r *engine.Record) {
	w.final, w.calling = r, nil
	for _, p := range w.settled.Events {
		if other := l.owner[p]; other != nil && other != w {
			l.add("twice", "the event at position %d is in window %s and in %s", p, other.settled.Window, w.settled.Window)
		}
		l.owner[p] = w
	}
}
