package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

// life is a daemon from its start to its end. Nothing of it outlasts that but
// what it has written.
type life struct {
	world  *World
	number int
	store  *gated
	runner *runner.Runner
	stop   context.CancelFunc
	calls  map[string]int // of each operation so far

	// Under the world's lock.
	dead  bool // killed
	up    bool // events are accepted
	over  bool // its goroutine has returned
	err   error
	leave bool // it was told to stop
}

// begin starts a daemon.
func (w *World) begin() {
	w.born++
	l := &life{world: w, number: w.born, calls: make(map[string]int)}
	l.store = &gated{Store: w.store, life: l}
	c := &w.plan.Checkpoint
	opt := runner.Options{
		Store: l.store, Compile: compile,
		Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
		MaxCalls: w.plan.MaxCalls, MaxScopes: c.Scopes, CheckpointRecords: c.Records, CheckpointInterval: c.Interval,
	}
	opt.Deliver = &porter{l}
	if w.plan.Replicas > 0 {
		opt.Leases, opt.Replica, opt.LeaseTTL = l.store, fmt.Sprint("life ", l.number), w.plan.LeaseTTL
	}
	if w.configured().Judge == judgeIO {
		opt.Judge = &bench{l}
	}
	l.runner = runner.New(opt)
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	w.lives = append(w.lives, l)
	w.running.Go(func() {
		err := l.run(ctx)
		cancel()
		w.mu.Lock()
		l.over, l.up, l.err = true, false, err
		w.mu.Unlock()
		w.signal()
	})
}

// run does what the wiring does: the policy, the states, then the loop.
func (l *life) run(ctx context.Context) error {
	policy := *l.world.configured()
	if err := policy.Compile(); err != nil {
		return err
	}
	if err := runner.EnsurePolicy(ctx, l.store, &policy); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := l.runner.Restore(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	l.world.mu.Lock()
	l.up = !l.dead
	l.world.mu.Unlock()
	return l.runner.Run(ctx)
}

// configured is the policy of the configuration.
func (w *World) configured() *engine.Policy { return &w.plan.Policies[w.config.Load()] }

// reload changes the configuration. Another judge needs another daemon.
func (w *World) reload() {
	before := w.configured()
	w.config.Add(1)
	policy := *w.configured()
	for _, l := range w.current() {
		switch {
		case policy.Judge != before.Judge:
			w.halt(l)
		case l.up:
			w.running.Go(func() {
				_ = runner.EnsurePolicy(context.Background(), l.store, &policy) // else the next start does it
			})
		}
	}
}

// halt tells a life to stop.
func (w *World) halt(l *life) {
	l.leave = true
	l.stop()
	synctest.Wait()
}

// kill ends a life as kill -9 does: what has reached the store stays.
func (w *World) kill(l *life) {
	w.mu.Lock()
	l.dead, l.up = true, false
	var mine []*gate
	for _, g := range w.parked {
		if g.life == l {
			mine = append(mine, g)
		}
	}
	w.mu.Unlock()
	for _, g := range mine {
		w.open(g, dies)
	}
	l.stop()
}

// current are the lives that run.
func (w *World) current() []*life {
	var out []*life
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lives {
		if !l.over && !l.dead {
			out = append(out, l)
		}
	}
	return out
}

// bury looks at lives that have ended, and has a daemon started after a while
// when there are too few.
func (w *World) bury() {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.lives[:0]
	for _, l := range w.lives {
		if !l.over {
			kept = append(kept, l)
			continue
		}
		fenced := w.plan.Replicas == 0 && errors.Is(l.err, store.ErrFenced) && w.log.owners[-1] != l.number
		if l.err != nil && !l.dead && !l.leave && !fenced && !errors.Is(l.err, store.ErrUnavailable) {
			w.log.add("daemon", "life %d ended by itself: %v", l.number, l.err)
		}
		d := newDraws(w.plan.Seed, fmt.Sprint("rest after ", l.number))
		w.startAt = time.Now().Add(pick(d, 0, 3*time.Millisecond, 100*time.Millisecond, time.Second))
	}
	w.lives = kept
}
