package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"

	"attend/internal/api"
	"attend/internal/config"
	"attend/internal/ingest"
	"attend/internal/program"
	"attend/internal/source"
	"attend/internal/store"
)

// buildSources makes the sources of events; it takes what ingest takes.
func (a *App) buildSources() error {
	list, dialers, err := sourcesOf(a.cfg, nil)
	if err != nil {
		return err
	}
	a.dialers = dialers
	a.sources, err = source.New(source.Options{
		Sources: list, Rows: a.store, Intake: intake{a.ingest}, Fence: a.runner.Fence, Policy: a.runner.Policy,
		Now: a.store.Now, Logger: a.log, Registerer: a.opt.Registry,
	})
	return err
}

// dialers are the ways to servers, which sources have in common.
type dialers map[string]source.Dialer

// sourcesOf are the sources of a configuration. Those of a server that is known
// already share its session.
func sourcesOf(c *config.Config, before dialers) ([]source.Source, dialers, error) {
	known := maps.Clone(before)
	if known == nil {
		known = make(dialers)
	}
	used := make(dialers)
	list := make([]source.Source, 0, len(c.Sources))
	for i := range c.Sources {
		s := &c.Sources[i]
		key, dialer, err := dialerOf(s, known)
		if err != nil {
			return nil, nil, fmt.Errorf("source %s: %w", s.Name, err)
		}
		used[key] = dialer
		entry := source.Source{
			Name: s.Name, Server: s.Server(), Origin: originOf(s), Dialer: dialer, Event: s.Event, Arguments: s.Arguments,
			Mode: source.Mode(s.Mode), MaxAge: s.MaxAge, MaxEvents: s.MaxEvents, Poll: s.Poll,
			MaxBuffered: s.MaxBuffered, IdleTimeout: s.IdleTimeout, Scope: s.Scope.Fixed(), Only: s.Only,
		}
		if entry.Scope == "" {
			entry.ScopeOf = s.Scope.Of
		}
		list = append(list, entry)
	}
	return list, used, nil
}

// originOf names the server of a source: its address without a query, which may
// hold a key that is changed now and then, or its command.
func originOf(s *config.Source) string {
	if len(s.Command) > 0 {
		return fmt.Sprintf("%q", s.Command)
	}
	return s.Server()
}

// dialerOf returns the way to a source's server: the same for sources that name
// the same one, in the same words.
func dialerOf(s *config.Source, known dialers) (key string, d source.Dialer, err error) {
	variables := make(map[string]string, len(s.Variables))
	key = fmt.Sprintf("%q %q %q", s.URL, s.Token.Reveal(), s.Command)
	for _, v := range s.Variables {
		variables[v.Name] = v.Value.Reveal()
		key += fmt.Sprintf(" %q=%q", v.Name, v.Value.Reveal())
	}
	if d := known[key]; d != nil {
		return key, d, nil
	}
	if len(s.Command) > 0 {
		spec, err := program.New(program.Options{Command: s.Command, Env: variables}, os.Environ())
		if err != nil {
			return key, nil, err
		}
		d = source.NewProgram(spec, ReadBuild().Version)
	} else {
		if d, err = source.NewHTTP(s.URL, s.Token.Reveal(), ReadBuild().Version); err != nil {
			return key, nil, err
		}
	}
	known[key] = d
	return key, d, nil
}

// startSources starts them. A reload may bring the first one. Servers that do not
// let go are cut off when most of the time is up in which the daemon stops: what
// it still has to save needs the rest.
func (a *App) startSources() {
	stop := a.run("sources", a.sources.Run)
	a.cleanups.push("sources", func(ctx context.Context) error {
		part, cancel := most(ctx)
		defer cancel()
		if err := stop(part); err != nil {
			a.log.Warn("servers of sources were cut off", "error", err)
		}
		return nil
	})
}

// intake gives ingest to sources without naming its types.
type intake struct{ ingest *ingest.Handler }

// Take implements source.Intake.
func (i intake) Take(ctx context.Context, b *source.Batch) (source.Taken, error) {
	w := &ingest.Whole{Gaps: b.Gaps, Puts: []store.Put{b.Put}, Fence: b.Fence, Lines: make([]ingest.Line, len(b.Events))}
	for n := range b.Events {
		e := &b.Events[n]
		w.Lines[n] = ingest.Line{Scope: e.Scope, Name: e.Name, ID: e.ID, At: e.At, Data: e.Data}
	}
	r, err := i.ingest.PushWhole(ctx, w)
	if busy, ok := errors.AsType[*ingest.Busy](err); ok {
		return source.Taken{}, fmt.Errorf("%w: scope %q: %s: the source waits and goes on by itself", source.ErrFull, busy.Scope, busy.Code)
	}
	taken := source.Taken{Accepted: r.Accepted, Duplicates: r.Duplicates, Refused: r.Rejected}
	for _, e := range r.Errors {
		taken.Reasons = append(taken.Reasons, e.Error)
	}
	return taken, err
}

// sourceViews gives the sources' states to the API without naming their type.
type sourceViews struct{ app *App }

// Sources implements api.Sources.
func (v sourceViews) Sources() []api.SourceView {
	all := v.app.sources.Statuses()
	views := make([]api.SourceView, len(all))
	for i := range all {
		views[i] = api.SourceView{Scope: all[i].Scope, View: all[i]}
	}
	return views
}
