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
	other map[string]bool // those of scopes that are not meant
	notes io.Writer       // for people
	found *found
}

// errFound ends the reading.
var errFound = errors.New("the window is found")

// find replays the file under the policy, with the rule judge in the judge's place.
func (f *finder) find(source string, in io.Reader, policy *engine.Policy) (*found, error) {
	f.seen, f.other = make(map[string]bool), make(map[string]bool)
	world := replay.New(replay.Options{Compile: f.compile})
	started := false
	reader := replay.Reader{Fresh: true}
	sum, err := reader.Read(source, in, func(in replay.Input) error {
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
	noteTimes(f.notes, source, sum)
	switch {
	case f.found != nil:
		return f.found, nil
	case len(f.seen) == 0 && len(f.other) > 0:
		return nil, fmt.Errorf("%s: no window settles in scopes that match %s: %d settled in others", source, visible(f.scope), len(f.other))
	case len(f.seen) == 0:
		return nil, fmt.Errorf("%s: no window settles under these kinds: attend check --events shows what the names resolve to", source)
	default:
		return nil, fmt.Errorf("%s: there is no window %d: %d settled", source, f.want, len(f.seen))
	}
}

// noteTimes tells of events without a time: they decide when windows settle.
func noteTimes(w io.Writer, source string, sum replay.Summary) {
	if sum.Untimed > 0 {
		fmt.Fprintf(w, "attend: %s: %s at the start without a time: taken to have come at once, in 1970; give each an at, as \"at\": \"2026-01-02T15:04:05Z\"\n",
			visible(source), count(sum.Untimed, "line"))
	}
}

// compile makes the rule the judge of the fold, and takes down the window that
// is looked for.
func (f *finder) compile(p *engine.Policy) (engine.Compiled, error) {
	c, err := rules.Compile(p)
	override := c.Override
	c.Override, c.Bodies = nil, true
	c.Judge = func(w *engine.Window) engine.Answer {
		switch {
		case f.scope != "" && !engine.Glob(f.scope, w.Scope):
			f.other[w.ID] = true
		case f.found == nil && !f.seen[w.ID]:
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
