package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"attend/internal/access"
	"attend/internal/api"
	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/ingest/hooks"
	"attend/internal/runner"
	"attend/internal/source"
	"attend/internal/store"
)

// Reloaded is what a reload came to.
type Reloaded struct {
	Policy       uint32           // the number of the policy in force
	Changed      []string         // the parts of the configuration that are in force anew
	NeedsRestart []string         // keys that wait for the next start
	Warnings     []config.Warning // of the configuration
}

// ErrNoReload says that there is no reload: the daemon has not started or is
// stopping, or nobody told it how to load its configuration.
var ErrNoReload = errors.New("the configuration cannot be loaded again now")

// reloading is what reloads know, one at a time.
type reloading struct {
	turn    chan struct{}  // holds a token while none runs
	current *config.Config // in force, but for what needs a restart
}

// begin lets reloads begin.
func (r *reloading) begin(started *config.Config) {
	r.current = started
	r.turn <- struct{}{}
}

// rebuilt is everything that a configuration asks for, built and not in force.
type rebuilt struct {
	cfg     *config.Config
	policy  engine.Policy
	judging *Judging
	sinks   sinks
	sources []source.Source
	dialers dialers
	hooks   []hooks.Hook
}

// applyPatience is for the fold, which puts the rules in force.
const applyPatience = 5 * time.Second

// Reload loads the configuration again, and puts in force what has changed in it
// and needs no restart. All of it is read, checked and built before anything
// changes, and what is unchanged goes on untouched. who stands in the log.
//
// Errors: [config.Mistakes], ErrNoReload, the store's; then nothing has changed.
func (a *App) Reload(ctx context.Context, who string) (*Reloaded, error) {
	if a.opt.Load == nil {
		return nil, fmt.Errorf("%w: it was given when the daemon was started", ErrNoReload)
	}
	select {
	case <-a.reloading.turn:
	case <-a.stopping:
		return nil, fmt.Errorf("%w: the daemon is stopping", ErrNoReload)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	select { // both may be true, and the end is what counts
	case <-a.stopping:
		a.reloading.turn <- struct{}{}
		return nil, fmt.Errorf("%w: the daemon is stopping", ErrNoReload)
	default:
	}
	defer func() { a.reloading.turn <- struct{}{} }()
	next, err := a.opt.Load()
	if err != nil {
		return nil, err
	}
	built, err := a.rebuild(ctx, next)
	if err != nil {
		return nil, err
	}
	// From here on nobody's patience counts: a caller who goes must not leave
	// half of a configuration in force.
	ctx = context.WithoutCancel(ctx)
	before := a.reloading.current
	done := &Reloaded{
		Changed: config.Changed(before, next), NeedsRestart: config.NeedsRestart(a.cfg, next),
		Warnings: slices.Concat(next.Warnings, next.WarnReload(before)),
	}
	if done.Policy, err = a.enforce(ctx, built, who, done); err != nil {
		return nil, err
	}
	a.log.InfoContext(ctx, "the configuration was loaded again", "who", who, "changed", done.Changed, "needs_restart", done.NeedsRestart, "policy", done.Policy)
	for _, w := range next.WarnReload(before) {
		a.log.WarnContext(ctx, "the configuration that was loaded is legal, and probably not meant", "code", w.Code, "warning", w.Message, "who", who)
	}
	return done, nil
}

// rebuild builds what a configuration asks for. What cannot be built is a
// mistake in it.
func (a *App) rebuild(ctx context.Context, next *config.Config) (*rebuilt, error) {
	if err := next.CheckReload(a.cfg); err != nil {
		return nil, err
	}
	b := &rebuilt{cfg: next, policy: next.Policy()}
	if a.leases != nil && next.Kinds.Source == "" {
		if err := refuseNoKinds(ctx, a.store); err != nil {
			return nil, unusable("kinds", err)
		}
	}
	options := a.judgeOptions
	options.Before = a.judging
	var err error
	if b.judging, err = NewJudging(&next.Judges, options); err != nil {
		return nil, unusable("", err)
	}
	if b.sinks, err = newSinks(next, a.outbox.current()); err != nil {
		return nil, unusable("", err)
	}
	if b.sources, b.dialers, err = sourcesOf(next, a.dialers); err != nil {
		return nil, unusable("", err)
	}
	if b.hooks, err = hooksOf(next); err != nil {
		return nil, unusable("", err)
	}
	if err := hooks.Check(b.hooks); err != nil {
		return nil, unusable("", err)
	}
	return b, nil
}

// unusable makes a mistake of what is right by its form, and cannot be used on
// this machine.
func unusable(key string, err error) error {
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrClosed) {
		return err
	}
	return config.Mistakes{{Key: key, Problem: err.Error()}}
}

// enforce puts what was built in force. Who is asked comes before the rules that
// send windows to it; what only lets in or out comes last, once the log has the
// rules: until then everything can be taken back.
func (a *App) enforce(ctx context.Context, b *rebuilt, who string, done *Reloaded) (uint32, error) {
	before := a.reloading.current
	asked, delivered := a.asks(before, a.judging), a.outbox.current()
	a.runner.Reconfigure(a.asks(b.cfg, b.judging))
	a.outbox.put(b.sinks)
	number, at, err := a.record(ctx, b, who, done)
	if err != nil {
		a.runner.Reconfigure(asked)
		a.outbox.put(delivered)
		return 0, store.Describe("record the reload", err)
	}
	a.auth.replace(b.cfg)
	if err := errors.Join(a.hooks.Replace(b.hooks), a.sources.Replace(b.sources, unchangedSources(before, b.cfg))); err != nil {
		a.log.ErrorContext(ctx, "a part of the configuration could not be put in force: start the daemon again", "error", err)
		done.NeedsRestart = append(done.NeedsRestart, "sources")
	}
	a.judging, a.dialers, a.reloading.current = b.judging, b.dialers, b.cfg
	patience, cancel := context.WithTimeout(ctx, applyPatience)
	defer cancel()
	if err := a.runner.Reach(patience, at); err != nil {
		a.log.WarnContext(ctx, "the rules of the configuration are in the log, and not applied yet", "position", at, "error", err)
	}
	return number, nil
}

// record writes down the policy where it differs, silences that came or went,
// and the reload itself. It returns where that stands.
func (a *App) record(ctx context.Context, b *rebuilt, who string, done *Reloaded) (uint32, engine.Position, error) {
	number, err := runner.RecordPolicy(ctx, a.store, &b.policy)
	if err != nil {
		return 0, 0, err
	}
	if _, err := a.silences.Configure(ctx, b.cfg.Silences); err != nil {
		return 0, 0, err
	}
	receipts, err := a.store.Append(ctx, store.Entry{Steps: []engine.Step{{Kind: engine.StepReload, Reload: &engine.Reload{
		Who: who, Replica: a.replica, Changed: done.Changed, NeedsRestart: done.NeedsRestart, Policy: number,
	}}}})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		return 0, 0, err
	}
	return number, receipts[0].Last, nil
}

// unchangedSources tells of a name whether two configurations have the same
// source of it.
func unchangedSources(before, after *config.Config) func(name string) bool {
	find := func(c *config.Config, name string) *config.Source {
		i := slices.IndexFunc(c.Sources, func(s config.Source) bool { return s.Name == name })
		if i < 0 {
			return nil
		}
		return &c.Sources[i]
	}
	return func(name string) bool {
		was, is := find(before, name), find(after, name)
		return was != nil && is != nil && config.Same(*was, *is)
	}
}

// reloadFor reloads for a request, in the words of the API.
func (a *App) reloadFor(ctx context.Context) (*api.Reloaded, error) {
	done, err := a.Reload(ctx, access.From(ctx).Name)
	var wrong config.Mistakes
	switch {
	case errors.As(err, &wrong):
		mistakes := make([]any, len(wrong))
		for i := range wrong {
			mistakes[i] = wrong[i]
		}
		return nil, &api.ReloadRefused{Mistakes: mistakes}
	case errors.Is(err, ErrNoReload):
		return nil, &api.ReloadRefused{Why: err.Error()}
	case err != nil:
		return nil, err
	}
	answer := &api.Reloaded{Policy: done.Policy, Changed: done.Changed, NeedsRestart: done.NeedsRestart, Warnings: []any{}}
	for _, w := range done.Warnings {
		answer.Warnings = append(answer.Warnings, w)
	}
	return answer, nil
}
