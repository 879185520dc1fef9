package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"attend/internal/engine"
	"attend/internal/store"
)

// Where a window stands.
const (
	stateDecided    = "decided"
	stateDeadLetter = "deadLetter"
	stateHeld       = "held"
	stateJudging    = "judging"
)

// story is the answer of GET /v1/decisions/{id}: D whole, and how it came
// about. A window that has no decision (yet) is shown the same way, as far as
// it has come, with kind "window".
type story struct {
	engine.Decision
	State string `json:"state"` // decided, deadLetter, held or judging
	// Windows are the ids of the windows that led here: each was held and taken
	// in by the next; the last is this one.
	Windows []string `json:"windows"`
	// Steps is what the log tells of these windows, in order: settles, judge
	// calls, failures, verdicts, dead letters, requeues.
	Steps []storyStep `json:"steps"`
}

// storyStep is one step of the log, without what stands in the story already.
type storyStep struct {
	Position   engine.Position    `json:"position"`
	At         engine.Time        `json:"at"` // the log's stamp
	Kind       engine.StepKind    `json:"kind"`
	Window     string             `json:"window"`
	Settled    *engine.Settled    `json:"settled,omitempty"`
	Call       *engine.Call       `json:"call,omitempty"`
	Failed     *engine.Failed     `json:"failed,omitempty"`
	Verdict    *verdict           `json:"verdict,omitempty"`
	DeadLetter *engine.DeadLetter `json:"deadLetter,omitempty"`
	Trace      *engine.Trace      `json:"trace,omitempty"`
}

// verdict is a verdict with the routes by name.
type verdict struct {
	*engine.Verdict
	Probabilities map[string]float64 `json:"probabilities,omitempty"`
}

func verdictOf(v *engine.Verdict) *verdict {
	if v == nil {
		return nil
	}
	shown := &verdict{Verdict: v}
	if p := v.Probabilities; p != nil {
		shown.Probabilities = make(map[string]float64)
		for _, r := range engine.Routes() {
			shown.Probabilities[r.String()] = p.Of(r)
		}
	}
	return shown
}

// showDecision answers GET /v1/decisions/{id}. The id may be that of a window
// that was held: it leads to the decision that took it in.
func (a *API) showDecision(w http.ResponseWriter, r *http.Request) error {
	if q := parseQuery(r); q.err != nil {
		return q.err
	}
	id, err := segment(r)
	if err != nil {
		return err
	}
	last, err := a.lastWindow(r.Context(), id)
	if err != nil {
		return err
	}
	whole, err := a.tell(r.Context(), last)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, whole)
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
func (a *API) readWindow(ctx context.Context, id string) (*window, error) {
	steps, err := a.Log.Steps(ctx, store.StepQuery{Window: id, Limit: maxStory})
	if err != nil {
		return nil, fmt.Errorf("read window %s: %w", id, err)
	}
	w := &window{id: id, steps: steps}
	for i := range steps {
		w.scope = steps[i].Scope
		switch step := steps[i].Step; step.Kind {
		case engine.StepSettled:
			w.settled, w.state = step.Settled, stateJudging
			// A held window to which nothing was added is judged under its own id.
			if held := step.Settled.Held; held != id && held != "" {
				w.tookIn = held
			}
		case engine.StepWait:
			w.state, w.waited = stateHeld, steps[i].Position
		case engine.StepDecision:
			w.state, w.decided = stateDecided, step.Decision
		case engine.StepDeadLetter:
			w.state = stateDeadLetter
		case engine.StepRequeue:
			w.state = stateJudging
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
func (a *API) lastWindow(ctx context.Context, id string) (*window, error) {
	w, err := a.readWindow(ctx, id)
	if err != nil {
		return nil, unknown(err, store.ErrNotFound, "decision", id)
	}
	for range maxChain {
		if w.state != stateHeld {
			break
		}
		next, err := a.takenInBy(ctx, w)
		if err != nil {
			return nil, err
		}
		if next == "" {
			break // it is held at this time
		}
		if w, err = a.readWindow(ctx, next); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// takenInBy returns the id of the window that took in one that was held, ""
// when none has. It is one of the scope's next settles.
func (a *API) takenInBy(ctx context.Context, held *window) (string, error) {
	q := store.StepQuery{After: held.waited, Kinds: []engine.StepKind{engine.StepSettled}, Scope: held.scope, Limit: maxStory}
	for {
		steps, err := a.Log.Steps(ctx, q)
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
func (a *API) tell(ctx context.Context, last *window) (*story, error) {
	s := &story{State: last.state}
	for w := last; ; {
		s.Windows = append(s.Windows, w.id)
		for i := range w.steps {
			s.Steps = append(s.Steps, stepOf(&w.steps[i]))
		}
		if w.tookIn == "" || len(s.Windows) > maxChain {
			break
		}
		earlier, err := a.readWindow(ctx, w.tookIn)
		if errors.Is(err, store.ErrNotFound) {
			break // no longer kept
		}
		if err != nil {
			return nil, err
		}
		w = earlier
	}
	slices.Reverse(s.Windows)
	slices.SortStableFunc(s.Steps, func(x, y storyStep) int { return cmp.Compare(x.Position, y.Position) })

	if last.decided != nil {
		s.Decision = *last.decided
	} else {
		s.Decision = undecided(last)
	}
	return s, a.wholeEvents(ctx, &s.Decision, last.settled)
}

// undecided shows a window as far as it has come, in the shape of a decision.
func undecided(w *window) engine.Decision {
	d := engine.Decision{ID: w.id, Kind: "window", Scope: w.scope}
	if s := w.settled; s != nil {
		d.Reason, d.Trigger, d.Waits, d.Dropped, d.Gap = s.Reason, s.Trigger, s.Waits, s.Dropped, s.Gap
		d.Due, d.SettledAt = s.Due, s.SettledAt
	}
	return d
}

// wholeEvents puts every event of the window into D, with text and data
// uncut. Where some are no longer kept, those that D holds stay.
func (a *API) wholeEvents(ctx context.Context, d *engine.Decision, settled *engine.Settled) error {
	if settled == nil {
		d.Events, _, _ = a.withData(ctx, d.Events, nil)
		return nil
	}
	records, err := a.Log.Events(ctx, settled.Events)
	if err != nil {
		return fmt.Errorf("read the events of window %s: %w", settled.Window, err)
	}
	if len(records) < len(settled.Events) && len(d.Events) > 0 {
		d.Events, _, err = a.withData(ctx, d.Events, settled)
		return err
	}
	d.Events, d.Cut = make([]engine.EventView, len(records)), len(settled.Events)-len(records)
	for i := range records {
		e := records[i].Event
		d.Events[i] = engine.EventView{ID: e.ID, Name: e.Name, Kind: e.Kind, SeenAt: records[i].Stamp, Text: e.Text, Data: e.Data}
	}
	return nil
}

// stepOf shows a step without its members and payload, which D holds.
func stepOf(r *engine.Record) storyStep {
	s := r.Step
	out := storyStep{
		Position: r.Position, At: r.Stamp, Kind: s.Kind, Window: s.Window,
		Settled: s.Settled, Call: s.Call, Failed: s.Failed, Verdict: verdictOf(s.Verdict), Trace: s.Trace,
	}
	if s.DeadLetter != nil {
		letter := *s.DeadLetter
		letter.Settled, letter.Members, letter.Events, letter.Decision = nil, nil, []engine.EventView{}, nil
		out.DeadLetter = &letter
	}
	return out
}
