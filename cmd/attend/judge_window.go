package main

import (
	"errors"
	"fmt"
	"io"
	"math"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/rules"
	"attend/internal/replay"
)

// found is a window of a file of events, as a judge would be asked about it.
type found struct {
	input    *judge.Input
	window   *engine.Window
	settings *engine.Settings
	override engine.Override
	number   int // of the windows that were looked for, from 1
}

// finder goes through a file of events until the window that is meant settles.
type finder struct {
	scope string          // pattern, "" for any
	want  int             // which of them, from 1
	seen  map[string]bool // windows that were judged, by id
	found *found
}

// errFound ends the reading.
var errFound = errors.New("the window is found")

// find replays the file under the policy, with the rule judge in the judge's place.
func (f *finder) find(source string, in io.Reader, policy *engine.Policy) (*found, error) {
	f.seen = make(map[string]bool)
	world := replay.New(replay.Options{Compile: f.compile})
	started := false
	reader := replay.Reader{Fresh: true}
	_, err := reader.Read(source, in, func(in replay.Input) error {
		if !started {
			started = true
			if err := world.Take(in.At, replay.Input{Step: &engine.Step{Kind: engine.StepPolicy, Policy: policy}}); err != nil {
				return err
			}
		}
		if err := world.Take(in.At, in); err != nil {
			return err
		}
		if f.found != nil {
			return errFound
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return nil, err
	}
	if f.found == nil {
		world.Drain(math.MaxInt64)
	}
	switch {
	case f.found != nil:
		return f.found, nil
	case len(f.seen) == 0:
		return nil, fmt.Errorf("%s: no window settles under these kinds: attend check --events shows what the names resolve to", source)
	default:
		return nil, fmt.Errorf("%s: there is no window %d: %d settled", source, f.want, len(f.seen))
	}
}

// compile makes the rule the judge of the fold, and takes down the window that
// is looked for.
func (f *finder) compile(p *engine.Policy) (engine.Compiled, error) {
	c, err := rules.Compile(p)
	override := c.Override
	c.Override, c.Bodies = nil, true
	c.Judge = func(w *engine.Window) engine.Answer {
		if f.found == nil && !f.seen[w.ID] && (f.scope == "" || engine.Glob(f.scope, w.Scope)) {
			f.seen[w.ID] = true
			if len(f.seen) == f.want {
				set := p.For(w.Scope)
				f.found = &found{input: inputOf(w, set), window: w, settings: set, override: override, number: f.want}
			}
		}
		return engine.RuleJudge(w)
	}
	return c, err
}

// inputOf is what a judge is asked about a window, but for what hooks bring.
func inputOf(w *engine.Window, set *engine.Settings) *judge.Input {
	in := &judge.Input{
		Scope: w.Scope, Guidance: set.Guidance, Predicates: set.Predicates, Now: w.Now, Recent: append([]engine.Recent{}, w.Recent...),
		Window: judge.Window{
			ID: w.ID, Reason: w.Reason, Trigger: w.Trigger, Waits: w.Waits, Dropped: w.Dropped, Gap: w.Gap, SettledAt: w.SettledAt,
		},
	}
	for _, route := range w.Offered {
		in.Routes = append(in.Routes, judge.Offer{Route: route, Criterion: set.Criteria[route]})
	}
	for i := range w.Events {
		m := &w.Events[i]
		view := engine.EventView{Name: m.Name, Kind: m.Kind, SeenAt: m.SeenAt, Position: m.Position}
		if e := w.Body(i); e != nil {
			view.ID, view.Text, view.Data = e.ID, e.Text, e.Data
		}
		in.Window.Events = append(in.Window.Events, view)
	}
	return in
}
