// Package app puts the daemon together. It is the only package that names
// concrete types: which store, which judge, which handlers, and what stands
// before them.
//
// An App is built, started and stopped once. What New and Start have built is
// undone in the opposite order, by Stop or by themselves when they fail
// half-way:
//
//	store → Fields → runner → consumers → HTTP
//
// so that the last request is answered before the loop ends, and the loop
// before the store is closed.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"attend/internal/access"
	"attend/internal/config"
	"attend/internal/feed"
	"attend/internal/fields"
	"attend/internal/ingest"
	"attend/internal/ingest/hooks"
	"attend/internal/retention"
	"attend/internal/runner"
	"attend/internal/silences"
	"attend/internal/source"
	"attend/internal/store"
)

// Options are what the configuration does not say. Zero fields have defaults.
type Options struct {
	Logger    *slog.Logger         // nil drops everything
	Registry  *prometheus.Registry // of the metrics; nil is a new one
	Listening func(at net.Addr)    // called once, when requests are served
	// Load loads the configuration again, as it was loaded for the start; nil:
	// it cannot be.
	Load func() (*config.Config, error)
}

// App is the daemon.
type App struct {
	cfg       *config.Config
	opt       Options
	log       *slog.Logger
	store     store.Store
	leases    store.Leases // nil where one daemon has the store to itself
	replica   string       // this daemon's name among those that share it
	runner    *runner.Runner
	fields    *fields.Service
	retention *retention.Keeper // nil where everything is kept for ever
	ingest    *ingest.Handler
	consumers *feed.Consumers
	auth      *auth
	tokens    *access.Tokens // of auth
	hooks     *hooks.Service
	webhooks  webhooks
	sources   *source.Service
	silences  *silences.Service
	outbox    outbox
	server    *http.Server
	reloading reloading

	// What is built anew by a reload, under its lock, and with what.
	judging      *Judging
	judgeOptions JudgeOptions
	dialers      dialers

	stopping chan struct{} // closed when the daemon begins to stop
	failed   chan error    // what ended although nobody asked it to

	mu       sync.Mutex
	started  bool
	stopped  bool
	listener net.Listener
	cleanups cleanups
}

// New opens the store and builds everything that stands on it. Nothing runs
// yet. When it fails, nothing is left behind; when it succeeds, Stop must be
// called, or Run, which does.
func New(ctx context.Context, cfg *config.Config, opt Options) (app *App, err error) {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Registry == nil {
		opt.Registry = prometheus.NewRegistry()
	}
	a := &App{
		cfg: cfg, opt: opt, log: opt.Logger, reloading: reloading{turn: make(chan struct{}, 1)},
		stopping: make(chan struct{}), failed: make(chan error, 6), // one for each goroutine that may end
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.cleanups.drain(context.WithoutCancel(ctx)))
		}
	}()
	if err := a.registerProcess(); err != nil {
		return nil, err
	}
	if err := a.buildStore(ctx); err != nil {
		return nil, err
	}
	if err := a.buildRunner(ctx); err != nil {
		return nil, err
	}
	a.buildRetention()
	if err := a.buildFields(); err != nil {
		return nil, err
	}
	if err := a.buildServer(); err != nil {
		return nil, err
	}
	return a, nil
}

// registerProcess adds the metrics that belong to no other package.
func (a *App) registerProcess() error {
	err := errors.Join(
		registerBuild(a.opt.Registry, ReadBuild()),
		a.opt.Registry.Register(collectors.NewGoCollector()),
		a.opt.Registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}

// Start records the policy, starts the loop and serves. It returns when
// requests are served. When it fails, everything has been undone.
func (a *App) Start(ctx context.Context) (err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.started || a.stopped {
		return errors.New("start: an app is started once")
	}
	a.started = true
	defer func() {
		if err != nil {
			a.stopped = true
			err = errors.Join(err, a.cleanups.drain(context.WithoutCancel(ctx)))
		}
	}()
	a.warn()
	if a.listener, err = a.listen(ctx); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	a.cleanups.push("listener", a.closeListener)
	policy := a.cfg.Policy()
	if a.leases != nil && a.cfg.Kinds.Source == "" {
		if err := refuseNoKinds(ctx, a.store); err != nil {
			return err
		}
	}
	if err := runner.EnsurePolicy(ctx, a.store, &policy); err != nil {
		return fmt.Errorf("record the policy: %w", err)
	}
	if _, err := a.silences.Configure(ctx, a.cfg.Silences); err != nil {
		return err
	}
	if err := a.runner.Restore(ctx); err != nil {
		return err
	}
	a.reloading.begin(a.cfg)
	a.startRunner()
	a.startConsumers()
	a.startRetention()
	a.startWebhooks()
	a.startSources()
	a.startServer()
	if a.leases != nil {
		a.log.InfoContext(ctx, "this daemon is a replica: it shares the store with others", "replica", a.replica, "lease", a.cfg.Replicas.Lease)
	}
	a.log.InfoContext(ctx, "started", "version", ReadBuild().Version, "config", a.cfg, "listening", a.listener.Addr().String())
	if a.opt.Listening != nil {
		a.opt.Listening(a.listener.Addr())
	}
	return nil
}

// listen opens the port or the socket that the configuration names.
func (a *App) listen(ctx context.Context) (net.Listener, error) {
	if a.cfg.Socket != "" {
		return listenSocket(ctx, a.cfg.Socket)
	}
	return new(net.ListenConfig).Listen(ctx, "tcp", a.cfg.Address())
}

// warn says at start what is legal and probably not meant.
func (a *App) warn() {
	for _, w := range a.cfg.Warnings {
		a.log.Warn("the configuration is legal, and probably not meant", "code", string(w.Code), "warning", w.String())
	}
	if a.cfg.Store.Kind == config.StoreMemory {
		a.log.Warn("the store is memory: everything is gone when this process ends")
	}
}

// Addr is where the daemon listens, nil before Start. That of a unix socket is
// its path, as it was configured.
func (a *App) Addr() net.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.listener == nil {
		return nil
	}
	return a.listener.Addr()
}

// Stop ends the daemon in order: waiting requests are answered, requests under
// way are finished, the loop saves its states, the store is closed. What has
// not ended when the context does is cut off. Calling it again does nothing.
func (a *App) Stop(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return nil
	}
	a.stopped = true
	return a.cleanups.drain(ctx)
}

// Run starts the daemon, waits until the context ends or something fails that
// cannot be mended, and stops it within the configured time.
func (a *App) Run(ctx context.Context) error {
	if err := a.Start(ctx); err != nil {
		return err
	}
	var failure error
	select {
	case <-ctx.Done():
		a.log.Info("stopping", "grace", a.cfg.ShutdownGrace)
	case failure = <-a.failed:
		failure = advise(failure)
		a.log.Error("stopping after a failure", "error", failure)
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.ShutdownGrace)
	defer cancel()
	err := errors.Join(failure, a.Stop(grace))
	a.log.Info("stopped")
	return err
}

// advise adds what to do about a failure that people must mend.
func advise(err error) error {
	if errors.Is(err, store.ErrReplaced) {
		return fmt.Errorf("the log was restored or replaced under the daemon: stop every replica, run `attend log new-epoch`, start them: %w", err)
	}
	return err
}

// closeListener closes what the server has not closed already.
func (a *App) closeListener(context.Context) error {
	if err := a.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// runUntilStopped runs work in a goroutine under a context of its own, and
// pushes a cleanup that ends it and waits for it. What work returns although
// nobody asked it to end stops the daemon.
func (a *App) runUntilStopped(name string, work func(context.Context) error) {
	a.cleanups.push(name, a.run(name, work))
}

// run does the same, and returns the cleanup.
func (a *App) run(name string, work func(context.Context) error) (stop func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := work(ctx)
		if ctx.Err() == nil {
			a.failed <- fmt.Errorf("%s ended: %w", name, err)
		}
	}()
	return func(ctx context.Context) error {
		cancel()
		select {
		case <-done:
			return nil
		case <-ctx.Done():
		}
		select { // both may be true, and the first is what counts
		case <-done:
			return nil
		default:
			return fmt.Errorf("it has not ended in time: %w", ctx.Err())
		}
	}
}

// startRunner starts the loop.
func (a *App) startRunner() { a.runUntilStopped("runner", a.runner.Run) }

// expireEvery is how often consumers are looked at that nobody hears from.
const expireEvery = time.Hour

// startConsumers drops consumers that have not been heard of for long.
func (a *App) startConsumers() {
	a.runUntilStopped("consumers", func(ctx context.Context) error {
		tick := time.NewTicker(expireEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			}
			dropped, err := a.consumers.Expire(ctx)
			if err != nil && ctx.Err() == nil {
				a.log.Warn("consumers could not be looked through", "error", err)
			}
			if len(dropped) > 0 {
				a.log.Info("consumers dropped, for nothing was heard of them", "consumers", dropped)
			}
		}
	})
}
