package app

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/program"
	"attend/internal/runner"
	"attend/internal/sink"
)

// buildSinks makes what takes decisions and dead letters.
func (a *App) buildSinks() (runner.Deliverer, error) {
	all := make(sinks)
	configured := a.cfg.Sinks
	if a.cfg.DeadLetters != nil {
		configured = append(configured[:len(configured):len(configured)], *a.cfg.DeadLetters)
	}
	for i := range configured {
		c := &configured[i]
		s, err := a.buildSink(c)
		if err != nil {
			return nil, fmt.Errorf("sink %s: %w", c.Name, err)
		}
		if c.Timeout > 0 {
			s = sink.Within(c.Timeout, s)
		}
		all[c.Name] = s
	}
	return all, nil
}

func (a *App) buildSink(c *config.Sink) (sink.Sink, error) {
	if c.URL != "" {
		s, err := sink.NewHTTP(c.URL, []byte(c.Key.Reveal()), ReadBuild().Version)
		if err == nil {
			a.cleanups.push("sink "+c.Name, func(context.Context) error { s.Close(); return nil })
		}
		return s, err
	}
	env := make(map[string]string, len(c.Variables))
	for _, v := range c.Variables {
		env[v.Name] = v.Value.Reveal()
	}
	spec, err := program.New(program.Options{Command: c.Command, Env: env}, os.Environ())
	if err != nil {
		return nil, err
	}
	return sink.NewCommand(spec), nil
}

// sinks are those that are configured, by name. Without any, what still waits
// for one of an earlier configuration is given up.
type sinks map[string]sink.Sink

// Deliver implements runner.Deliverer.
func (s sinks) Deliver(ctx context.Context, p *runner.Parcel) error {
	to := s[p.Sink]
	if to == nil {
		return &sink.Error{Message: fmt.Sprintf("no sink of the name %q is configured any more", p.Sink), Never: true}
	}
	body, err := json.Marshal(shown(p))
	if err != nil {
		return &sink.Error{Message: "it cannot be written as JSON", Never: true}
	}
	return to.Deliver(ctx, &sink.Message{ID: p.ID, Body: body})
}

// shown is a parcel as everyone is shown it: a dead letter without what is for
// its requeue alone.
func shown(p *runner.Parcel) any {
	if p.DeadLetter == nil {
		return p.Decision
	}
	letter := *p.DeadLetter
	letter.Settled, letter.Members = nil, nil
	if letter.Events == nil {
		letter.Events = []engine.EventView{}
	}
	return &letter
}
