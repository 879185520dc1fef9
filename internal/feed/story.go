package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"attend/internal/engine"
	"attend/internal/store"
)

const (
	maxStory = 1000 // steps of one window
	maxChain = 100  // held windows that lead to one decision
)

// Where a window stands.
const (
	StateDecided    = "decided"
	StateDeadLetter = "deadLetter"
	StateHeld       = "held"
	StateJudging    = "judging"
)

// kindWindow stands in the place of a decision's kind while there is none.
const kindWindow = "window"

// Story is a decision and how it came about. Its events are cut, as they stand
// in its step. A window that has no decision (yet) is shown the same way, as far
// as it has come, with kind "window" and without a route.
type Story struct {
	engine.Decision
	State string `json:"state"` // decided, deadLetter, held or judging
	// Windows are the ids of the windows that led here: each was held and taken
	// in by the next; the last is this one.
	Windows []string `json:"windows"`
	// Steps is what the log tells of these windows, in order: settles, judge
	// calls, failures, verdicts, deliveries, dead letters, requeues.
	Steps []StoryStep `json:"steps"`

	// Settled is how the window was last closed; nil when that is no longer kept.
	Settled *engine.Settled `json:"-"`
}

// StoryStep is one step of the log, without what stands in the story already.
type StoryStep struct {
	Position   engine.Position    `json:"position"`
	At         engine.Time        `json:"at"` // the log's stamp
	Kind       engine.StepKind    `json:"kind"`
	Window     string             `json:"window"`
	Settled    *engine.Settled    `json:"settled,omitempty"`
	Call       *engine.Call       `json:"call,omitempty"`
	Failed     *engine.Failed     `json:"failed,omitempty"`
	Verdict    *StoryVerdict      `json:"verdict,omitempty"`
	DeadLetter *engine.DeadLetter `json:"deadLetter,omitempty"`
	Delivery   *engine.Delivery   `json:"delivery,omitempty"`
	Trace      *engine.Trace      `json:"trace,omitempty"`
}

// StoryVerdict is a verdict with the routes by name.
type StoryVerdict struct {
	*engine.Verdict
	Probabilities map[string]float64 `json:"probabilities,omitempty"`
}

func verdictOf(v *engine.Verdict) *StoryVerdict {
	if v == nil {
		return nil
	}
	shown := &StoryVerdict{Verdict: v}
	if p := v.Probabilities; p != nil {
		shown.Probabilities = make(map[string]float64)
		for _, r := range engine.Routes() {
			shown.Probabilities[r.String()] = p.Of(r)
		}
	}
	return shown
}

// Story tells how a decision came about, by its id. The id may be that of a
// window that was held: it leads to the decision that took it in. That of a
// dead letter leads to its window, with every attempt at it.
// store.ErrNotFound when there is none, or it is no longer kept.
func (r *Reader) Story(ctx context.Context, id string) (*Story, error) {
	last, err := r.lastWindow(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		last, err = r.letterWindow(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	return r.tell(ctx, last)
}

// letterWindow follows a dead letter to its window, and on from there.
func (r *Reader) letterWindow(ctx context.Context, id string) (*window, error) {
	steps, err := r.log.Steps(ctx, store.StepQuery{ID: id, Kinds: []engine.StepKind{engine.StepDeadLetter}, Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("read dead letter %s: %w", id, err)
	}
	if len(steps) == 0 {
		return nil, store.ErrNotFound
	}
	return r.lastWindow(ctx, steps[0].Step.DeadLetter.WindowID)
}

// window is what the log tells of one window.
type window struct {
	id      string
	scope   string
	steps   []engine.Record
	settled *engine.Settled // the last one
	tookIn  string          // the id of the held window that it took in
	state   string
	decided *engine.Decision
	waited  engine.Position // of the last wait step
}

// readWindow reads a window's steps; store.ErrNotFound when there are none.
func (r *Reader) readWindow(ctx context.Context, id string) (*window, error) {
	steps, err := r.log.Steps(ctx, store.StepQuery{Window: id, Limit: maxStory})
	if err != nil {
		return nil, fmt.Errorf("read window %s: %w", id, err)
	}
	w := &window{id: id, steps: steps}
	for i := range steps {
		w.scope = steps[i].Scope
		switch step := steps[i].Step; step.Kind {
		case engine.StepSettled:
			w.settled, w.state = step.Settled, StateJudging
			// A held window to which nothing was added is judged under its own id.
			if held := step.Settled.Held; held != id && held != "" {
				w.tookIn = held
			}
		case engine.StepWait:
			w.state, w.waited = StateHeld, steps[i].Position
		case engine.StepDecision:
			w.state, w.decided = StateDecided, step.Decision
		case engine.StepDeadLetter:
			if step.DeadLetter.Stage == engine.StageJudge { // of any other, the decision stands
				w.state = StateDeadLetter
			}
		case engine.StepRequeue:
			if step.Requeue.Stage != engine.StageSink {
				w.state = StateJudging
			}
		default:
			// Calls, failures and traces do not end anything.
		}
	}
	if w.state == "" {
		return nil, store.ErrNotFound
	}
	return w, nil
}

// lastWindow follows a window through those that took it in.
func (r *Reader) lastWindow(ctx context.Context, id string) (*window, error) {
	w, err := r.readWindow(ctx, id)
	if err != nil {
		return nil, err
	}
	for range maxChain {
		if w.state != StateHeld {
			break
		}
		next, err := r.takenInBy(ctx, w)
		if err != nil {
			return nil, err
		}
		if next == "" {
			break // it is held at this time
		}
		if w, err = r.readWindow(ctx, next); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// takenInBy returns the id of the window that took in one that was held, ""
// when none has. It is one of the scope's next settles.
func (r *Reader) takenInBy(ctx context.Context, held *window) (string, error) {
	q := store.StepQuery{After: held.waited, Kinds: []engine.StepKind{engine.StepSettled}, Scope: held.scope, Limit: maxStory}
	for {
		steps, err := r.log.Steps(ctx, q)
		if err != nil {
			return "", fmt.Errorf("read what followed window %s: %w", held.id, err)
		}
		for i := range steps {
			if s := steps[i].Step.Settled; s.Held == held.id && s.Window != held.id {
				return s.Window, nil
			}
		}
		if len(steps) < q.Limit {
			return "", nil
		}
		q.After = steps[len(steps)-1].Position
	}
}

// tell gathers the story of a window and of those that it took in.
func (r *Reader) tell(ctx context.Context, last *window) (*Story, error) {
	s := &Story{State: last.state, Settled: last.settled}
	for w := last; ; {
		s.Windows = append(s.Windows, w.id)
		for i := range w.steps {
			s.Steps = append(s.Steps, stepOf(&w.steps[i]))
		}
		if w.tookIn == "" || len(s.Windows) > maxChain {
			break
		}
		earlier, err := r.readWindow(ctx, w.tookIn)
		if errors.Is(err, store.ErrNotFound) {
			break // no longer kept
		}
		if err != nil {
			return nil, err
		}
		w = earlier
	}
	slices.Reverse(s.Windows)
	slices.SortStableFunc(s.Steps, func(x, y StoryStep) int { return cmp.Compare(x.Position, y.Position) })

	if last.decided != nil {
		s.Decision = *last.decided
		return s, nil
	}
	var err error
	s.Decision, err = r.undecided(ctx, last)
	return s, err
}

// undecided shows a window as far as it has come, in the shape of a decision.
func (r *Reader) undecided(ctx context.Context, w *window) (engine.Decision, error) {
	d := engine.Decision{ID: w.id, Kind: kindWindow, Scope: w.scope, Events: []engine.EventView{}}
	if w.settled == nil {
		return d, nil
	}
	records, err := r.log.Events(ctx, w.settled.Events)
	if err != nil {
		return d, store.Describe("read the events of window "+w.id, err)
	}
	members := make(engine.Members, len(records)) // what is no longer kept is not shown
	for i := range records {
		members[i] = engine.Member{Position: records[i].Position, SeenAt: records[i].Stamp, Kind: records[i].Event.Kind, Name: records[i].Event.Name}
	}
	d = *engine.ComposeDecision(w.scope, w.settled, members, new(engine.Verdict), records)
	d.Kind, d.Changed, d.Probabilities, d.Predicates = kindWindow, nil, nil, nil // nobody has judged yet
	d.Cut += len(w.settled.Events) - len(records)
	return d, nil
}

// stepOf shows a step without its members and payload, which D holds.
func stepOf(rec *engine.Record) StoryStep {
	s := rec.Step
	out := StoryStep{
		Position: rec.Position, At: rec.Stamp, Kind: s.Kind, Window: s.Window,
		Settled: s.Settled, Call: s.Call, Failed: s.Failed, Verdict: verdictOf(s.Verdict), Delivery: s.Delivery, Trace: s.Trace,
	}
	if s.DeadLetter != nil {
		letter := *s.DeadLetter
		letter.Settled, letter.Members, letter.Events, letter.Decision = nil, nil, []engine.EventView{}, nil
		out.DeadLetter = &letter
	}
	return out
}
