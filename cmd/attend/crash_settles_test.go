package main_test

import (
	"fmt"
	"slices"

	"attend/internal/engine"
)

// windows are those that the steps of a log tell of, read without the fold.
type windows struct {
	byID      map[string]*window
	inOrder   []*window
	events    map[engine.Position]*engine.Record
	decisions []*engine.Record             // steps, in log order
	owner     map[engine.Position]*window  // event → the final window that has it
	placed    map[eventKey]engine.Position // event id → the copy that a final window has
	at        map[string]engine.Position   // decision id → its step
}

// window is one settle and what came of it.
type window struct {
	scope    string
	position engine.Position // of the settled step
	stamp    engine.Time
	settled  *engine.Settled
	final    *engine.Record // its decision or dead letter
	held     bool           // its verdict was wait
	taken    string         // id of the window that took it in
	calling  bool           // a judge call has no outcome yet
}

// readWindows reads the steps in order, and checks each against those before.
func readWindows(f *findings, log []engine.Record) *windows {
	w := &windows{
		byID: make(map[string]*window), events: make(map[engine.Position]*engine.Record),
		owner: make(map[engine.Position]*window), placed: make(map[eventKey]engine.Position),
		at: make(map[string]engine.Position),
	}
	for i := range log {
		r := &log[i]
		switch {
		case r.Event != nil:
			w.events[r.Position] = r
		case r.Step == nil || r.Step.Window == "":
		case r.Step.Kind == engine.StepSettled:
			w.settle(f, r)
		default:
			w.move(f, r)
		}
	}
	return w
}

// settle reads a settled step: its events are the scope's, in order, before
// its deadline, and its id is the one that follows from them.
func (w *windows) settle(f *findings, r *engine.Record) {
	s := r.Step.Settled
	if s == nil || s.Window != r.Step.Window || len(s.Events) == 0 {
		f.add("settled", "position %d: a settled step without a window or events", r.Position)
		return
	}
	if before := w.byID[s.Window]; before != nil {
		f.add("identity", "window %s settles at position %d and again at %d", s.Window, before.position, r.Position)
		return
	}
	if s.Due > r.Stamp || s.SettledAt > r.Stamp || s.SettledAt < s.Due {
		f.add("settled", "window %s, position %d, stamp %d: due %d, settled at %d", s.Window, r.Position, r.Stamp, s.Due, s.SettledAt)
	}
	members := make(engine.Members, 0, len(s.Events))
	for i, p := range s.Events {
		e := w.events[p]
		switch {
		case e == nil || e.Scope != r.Scope:
			f.add("settled", "window %s of scope %q names position %d, which is no event of the scope before it", s.Window, r.Scope, p)
			return
		case i > 0 && p <= s.Events[i-1]:
			f.add("settled", "window %s: its events are not in order: %v", s.Window, s.Events)
		case e.Position > s.Covered || e.Stamp > s.Due || e.Stamp == s.Due && s.Due == s.Deadline.At && byClock(s.Reason):
			f.add("settled", "window %s, due %d by %s: event at position %d came at %d, not before that", s.Window, s.Due, s.Reason, p, e.Stamp)
		}
		members = append(members, engine.Member{Position: p, SeenAt: e.Stamp, Digest: engine.DigestOf(e.Event.ID)})
	}
	win := &window{scope: r.Scope, position: r.Position, stamp: r.Stamp, settled: s}
	w.byID[s.Window] = win
	w.inOrder = append(w.inOrder, win)
	if id := engine.WindowID(r.Scope, members); id != s.Window {
		f.add("identity", "window %s of scope %q: from its events its id is %s", s.Window, r.Scope, id)
	}
	if s.Held != "" {
		w.takeIn(f, win)
	}
}

// byClock reports whether the deadline of a reason is set by a clock, so that
// an event at that very instant is too late.
func byClock(r engine.Reason) bool {
	switch r {
	case engine.ReasonClosing, engine.ReasonStreamQuiet, engine.ReasonPassiveQuiet, engine.ReasonAge:
		return true
	default:
		return false
	}
}

func (w *windows) takeIn(f *findings, win *window) {
	held := w.byID[win.settled.Held]
	switch {
	case held == nil || !held.held || held.scope != win.scope:
		f.add("settled", "window %s takes in %s, which is not held", win.settled.Window, win.settled.Held)
	case held.taken != "":
		f.add("identity", "held window %s is taken in by %s and by %s", win.settled.Held, held.taken, win.settled.Window)
	case !slices.Equal(held.settled.Events, win.settled.Events[:min(len(held.settled.Events), len(win.settled.Events))]):
		f.add("settled", "window %s does not begin with the events of %s, which it takes in", win.settled.Window, win.settled.Held)
	default:
		held.taken = win.settled.Window
	}
}

// move reads a step about a window that has settled.
func (w *windows) move(f *findings, r *engine.Record) {
	win := w.byID[r.Step.Window]
	if win == nil || win.scope != r.Scope {
		f.add("steps", "position %d: a %s step about window %s, which has not settled", r.Position, r.Step.Kind, r.Step.Window)
		return
	}
	if win.final != nil || win.held {
		f.add("steps", "position %d: a %s step about window %s, which has its outcome", r.Position, r.Step.Kind, r.Step.Window)
		if r.Step.Kind != engine.StepDecision {
			return
		}
	}
	switch r.Step.Kind {
	case engine.StepCall:
		if win.calling {
			f.add("steps", "position %d: a call about window %s starts while one runs", r.Position, r.Step.Window)
		}
		win.calling = true
	case engine.StepFailed, engine.StepWait:
		if !win.calling && r.Step.Verdict == nil {
			f.add("steps", "position %d: a failure about window %s, for which no call runs", r.Position, r.Step.Window)
		}
		win.calling = false
		win.held = r.Step.Kind == engine.StepWait
	case engine.StepDecision:
		w.decide(f, win, r)
	case engine.StepDeadLetter:
		w.end(f, win, r)
	}
}

// decide reads a decision: D says what the settle says, and shows its events.
func (w *windows) decide(f *findings, win *window, r *engine.Record) {
	d, v := r.Step.Decision, r.Step.Verdict
	if d == nil || v == nil {
		f.add("decision", "position %d: a decision step without a decision or verdict", r.Position)
		return
	}
	if first, again := w.at[r.Step.ID]; again {
		f.add("identity", "decision %s stands at position %d and again at %d", r.Step.ID, first, r.Position)
		return
	}
	w.at[r.Step.ID] = r.Position
	w.decisions = append(w.decisions, r)
	s := win.settled
	if r.Step.ID != s.Window || d.ID != s.Window || v.Window != s.Window {
		f.add("identity", "position %d: window %s has a decision with the ids %s, %s, %s", r.Position, s.Window, r.Step.ID, d.ID, v.Window)
	}
	if d.Route != r.Step.Route || d.Route != v.Route || d.Route == engine.Wait || d.Route == 0 {
		f.add("decision", "position %d: routes %s, %s and %s", r.Position, r.Step.Route, d.Route, v.Route)
	}
	if d.Scope != r.Scope || d.Reason != s.Reason || d.Trigger != s.Trigger || d.Due != s.Due ||
		d.SettledAt != s.SettledAt || d.Dropped != s.Dropped || d.Gap != s.Gap || d.Waits != s.Waits {
		f.add("decision", "position %d: decision %s does not say what its settle says", r.Position, d.ID)
	}
	if v.Attempt == 0 && r.Position != win.position+1 {
		f.add("decision", "decision %s of a judge that needs no call stands at position %d, its settle at %d: they are one append", d.ID, r.Position, win.position)
	}
	if d.Notice == "" || len(d.Events)+d.Cut != len(s.Events) {
		f.add("decision", "decision %s shows %d events and cuts %d of %d, notice of %d bytes", d.ID, len(d.Events), d.Cut, len(s.Events), len(d.Notice))
	}
	w.checkShown(f, s, d)
	w.end(f, win, r)
}

// checkShown: the events of D are the window's, in order.
func (w *windows) checkShown(f *findings, s *engine.Settled, d *engine.Decision) {
	rest := s.Events
	for i := range d.Events {
		e := &d.Events[i]
		for len(rest) > 0 && w.events[rest[0]].Event.ID != e.ID {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			f.add("decision", "decision %s shows event %q, which is not in its window, or not in this order", d.ID, e.ID)
			return
		}
		if stored := w.events[rest[0]]; stored.Event.Name != e.Name || stored.Event.Kind != e.Kind || stored.Stamp != e.SeenAt {
			f.add("decision", "decision %s shows event %q otherwise than it is stored", d.ID, e.ID)
		}
		rest = rest[1:]
	}
}

// end makes a window final: it has its events alone, and each id once.
func (w *windows) end(f *findings, win *window, r *engine.Record) {
	if win.final != nil {
		return // reported
	}
	win.final = r
	for _, p := range win.settled.Events {
		if other := w.owner[p]; other != nil {
			f.add("twice", "the event at position %d is in window %s and in %s", p, other.settled.Window, win.settled.Window)
			continue
		}
		w.owner[p] = win
		key := eventKey{win.scope, w.events[p].Event.ID}
		if first, again := w.placed[key]; again {
			f.add("twice", "event %q of scope %q is in a window with position %d and in one with %d", key.id, key.scope, first, p)
			continue
		}
		w.placed[key] = p
	}
}

// checkOutcomes: whatever has settled has its outcome, or is held until
// another window takes it in.
func (w *windows) checkOutcomes(f *findings, drained bool) {
	if !drained {
		return
	}
	for _, win := range w.inOrder {
		if win.final == nil && win.taken == "" {
			f.add("stuck", "window %s of scope %q settled at position %d and has no outcome", win.settled.Window, win.scope, win.position)
		}
	}
	members := make(map[string]string)
	for _, win := range w.inOrder {
		key := win.scope + fmt.Sprint(win.settled.Events)
		if other, again := members[key]; again {
			f.add("identity", "the same events of scope %q are window %s and %s", win.scope, other, win.settled.Window)
		}
		members[key] = win.settled.Window
	}
}
