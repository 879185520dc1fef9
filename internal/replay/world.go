package replay

import (
	"fmt"

	"attend/internal/engine"
)

// World is a log, its fold and its owner on a virtual clock. It is not safe
// for concurrent use.
type World struct {
	opt      Options
	rules    *engine.Rules
	now      engine.Time
	head     engine.Position
	scopes   map[string]*scope
	order    []*scope // as they came
	wakes    wakes
	away     bool
	letters  map[string]*letter
	outgoing map[string]*engine.Decision // that wait for a sink, by id
}

// Options of a World. Every field may be left out.
type Options struct {
	// Compile gives the judges that answer at the close; the others are asked
	// with a Script.
	Compile engine.Compile
	// Script answers the calls of judges that do IO. When it has no answer, the
	// rule judge answers at once.
	Script *Script
	// Sinks says how deliveries end: an answer with an error is a failed one, and
	// its route means nothing. When it has no answer left, they arrive at once.
	Sinks *Script
	// Emit sees every record right after it was appended and applied. It may
	// keep the record and must not change it.
	Emit func(rec *engine.Record, out *engine.Outcome)
}

// scope is one scope's fold and what its owner keeps beside it.
type scope struct {
	number int // in order of appearance: ties of time go by it
	name   string
	state  *engine.State
	bodies []engine.Record // events that a window may still name, by position
	full   int             // how many bodies make it worth looking for old ones
	shed   [2]engine.Shed  // overflow, age: told with the scope's next step
	call   *call           // nil: no call runs
	sends  [2]*call        // deliveries that run, in the order of engine.LaneNames
	wake   engine.Time
	index  int // in wakes; -1 when nothing is due by the clock
}

// letter is a dead letter with what is needed to judge its window again.
type letter struct {
	scope    *scope
	body     *engine.DeadLetter
	events   []engine.Record
	position engine.Position
}

// New returns a world at time 0 with an empty log.
func New(opt Options) *World {
	if opt.Script == nil {
		opt.Script = new(Script)
	}
	if opt.Sinks == nil {
		opt.Sinks = new(Script)
	}
	return &World{
		opt: opt, rules: engine.NewRules(opt.Compile),
		scopes: make(map[string]*scope), letters: make(map[string]*letter), outgoing: make(map[string]*engine.Decision),
	}
}

// Now is the virtual time: the stamp of what is appended now.
func (w *World) Now() engine.Time { return w.now }

// Head is the position of the last record.
func (w *World) Head() engine.Position { return w.head }

// Rules are the policies and silences so far.
func (w *World) Rules() *engine.Rules { return w.rules }

// State is the fold of a scope's records so far, nil when it has none. The
// caller must not change it.
func (w *World) State(scope string) *engine.State {
	if s := w.scopes[scope]; s != nil {
		return s.state
	}
	return nil
}

// Scopes lists the scopes that have records, in order of appearance.
func (w *World) Scopes() []string {
	names := make([]string, len(w.order))
	for i, s := range w.order {
		names[i] = s.name
	}
	return names
}

// Take appends inputs in one body, with one stamp, after everything that is
// due by then. A time before the present counts as the present: time never
// falls.
func (w *World) Take(at engine.Time, inputs ...Input) error {
	w.Run(at)
	for i := range inputs {
		if err := w.take(&inputs[i]); err != nil {
			return err
		}
	}
	return nil
}

// Run does everything that is due by an instant, each at its own, and moves
// the clock there.
func (w *World) Run(to engine.Time) {
	for !w.away && len(w.wakes) > 0 && w.wakes[0].wake <= to {
		s := w.wakes[0]
		w.now = max(w.now, s.wake)
		w.act(s)
	}
	w.now = max(w.now, to)
}

// Drain runs until nothing is due any more, and no further than a limit. The
// clock stands at the last thing that happened. It reports whether nothing is
// left to wait for.
func (w *World) Drain(limit engine.Time) bool {
	for !w.away && len(w.wakes) > 0 && w.wakes[0].wake <= limit {
		w.Run(max(w.now, w.wakes[0].wake))
	}
	return len(w.wakes) == 0
}

// Pause makes the owner lag: records come and are folded, and nothing is done
// about them, until Start.
func (w *World) Pause(at engine.Time) {
	w.Run(at)
	w.away = true
}

// Crash ends the owner as kill -9 does: running calls are lost. Start brings
// the next one.
func (w *World) Crash(at engine.Time) {
	w.Run(at)
	w.away = true
	for _, s := range w.order {
		s.call, s.sends = nil, [2]*call{}
	}
}

// Stop ends the owner in good order: it breaks its calls off, and says so in
// the log, so that they do not count as attempts.
func (w *World) Stop(at engine.Time) {
	w.Run(at)
	w.away = true
	for _, s := range w.order {
		w.stopDeliveries(s)
		w.arm(s)
		if s.call == nil {
			continue
		}
		s.call = nil
		w.steps(s, s.state.Fail(w.rules, w.now, engine.Failed{Why: "stopped", Message: "the daemon was stopped", Uncounted: true}), nil)
		w.arm(s)
	}
}

// Start brings the owner back.
func (w *World) Start(at engine.Time) {
	w.Run(at)
	w.away = false
	for _, s := range w.order {
		w.arm(s)
	}
	w.Run(at)
}

func (w *World) take(in *Input) error {
	switch {
	case in.Event != nil:
		e := *in.Event
		if e.Kind == 0 {
			e.Kind, _ = w.rules.Latest().KindOf(e.Name)
			e.Policy = w.rules.Latest().Number
		}
		s := w.scope(in.Scope)
		rec := w.append(s.name, engine.Record{Event: &e})
		s.keep(rec)
		w.apply(s, rec)
		w.arm(s)
		return nil
	case in.Step == nil:
		return fmt.Errorf("an input with neither event nor step")
	case in.Step.Kind == engine.StepPolicy, in.Step.Kind == engine.StepSilence:
		rec := w.append("", engine.Record{Step: in.Step})
		if err := w.rules.Apply(*rec); err != nil {
			return fmt.Errorf("%s: %w", in.Step.Kind, err)
		}
		w.emit(rec, new(engine.Outcome))
		return nil
	case !in.Step.Kind.Outside():
		return fmt.Errorf("a step %q: only the owner of a scope writes it", in.Step.Kind)
	}
	s := w.scope(in.Scope)
	step := in.Step
	if q := step.Requeue; q != nil && w.letters[q.DeadLetter] != nil {
		l := w.letters[q.DeadLetter]
		step = l.requeue() // where it comes from another log, what it names stands at other positions there
		s.restore(l.events)
		if l.body.Stage == engine.StageSink {
			w.outgoing[l.body.WindowID] = l.body.Decision
		}
	}
	w.apply(s, w.append(s.name, engine.Record{Step: step}))
	w.arm(s)
	return nil
}

// requeue asks for the letter's window to be judged again, or for its decision
// to be delivered again.
func (l *letter) requeue() *engine.Step {
	q := &engine.Requeue{DeadLetter: l.body.ID, Number: l.body.Number}
	if l.body.Stage == engine.StageSink {
		q.Stage, q.Position, q.Route = engine.StageSink, l.position, l.body.Decision.Route
	} else {
		q.Settled, q.Members = *l.body.Settled, l.body.Members
	}
	return &engine.Step{Kind: engine.StepRequeue, Window: l.body.WindowID, ID: l.body.ID, Requeue: q}
}

// Restore takes a log that stands already, the owner's steps as they are, as a
// daemon does that starts again. The world must be new; Start brings the owner,
// whose calls were lost. The records must be in order and are not changed.
func (w *World) Restore(log []engine.Record) error {
	w.away = true
	for i := range log {
		rec := log[i]
		w.head, w.now = rec.Position, max(w.now, rec.Stamp)
		if rec.Scope == "" {
			if err := w.rules.Apply(rec); err != nil {
				return fmt.Errorf("position %d: %w", rec.Position, err)
			}
			w.emit(&rec, new(engine.Outcome))
			continue
		}
		s := w.scope(rec.Scope)
		if rec.Event != nil {
			s.keep(&rec)
		}
		w.apply(s, &rec)
		w.arm(s)
		if rec.Step != nil && rec.Step.DeadLetter != nil {
			d := rec.Step.DeadLetter
			w.letters[d.ID] = &letter{scope: s, body: d, events: s.find(d.Members), position: rec.Position}
		}
		if rec.Step != nil {
			w.keepOutgoing(rec.Step)
		}
	}
	return nil
}

// Requeue asks for a dead letter's window to be judged again. id is the dead
// letter's.
func (w *World) Requeue(at engine.Time, id string) error {
	w.Run(at)
	l := w.letters[id]
	if l == nil {
		return fmt.Errorf("requeue: there is no dead letter %q", id)
	}
	return w.take(&Input{Scope: l.scope.name, Step: l.requeue()})
}

func (w *World) scope(name string) *scope {
	s := w.scopes[name]
	if s == nil {
		s = &scope{number: len(w.order), name: name, state: engine.NewState(name), index: -1}
		w.scopes[name] = s
		w.order = append(w.order, s)
	}
	return s
}

func (w *World) append(scope string, rec engine.Record) *engine.Record {
	w.head++
	rec.Position, rec.Stamp, rec.Scope = w.head, w.now, scope
	return &rec
}

func (w *World) apply(s *scope, rec *engine.Record) {
	w.fill(s, rec)
	out := s.state.Apply(w.rules, rec)
	s.noteShed(&out)
	w.emit(rec, &out)
}

func (w *World) emit(rec *engine.Record, out *engine.Outcome) {
	if w.opt.Emit != nil {
		w.opt.Emit(rec, out)
	}
}
