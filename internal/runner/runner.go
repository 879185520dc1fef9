// Package runner is the only loop of the daemon: it reads new records, folds
// them into the states of their scopes, appends the steps that follow, starts
// judge calls and appends their outcomes.
//
// # Authority
//
// The log alone says what has happened. The runner's memory is a cache of the
// fold: a crash at any instruction loses nothing but work that is done again
// under the same ids. Every effect is started from a state that the log has
// brought about, so what was running at a crash is found again in the states.
//
// # Order
//
// One pass of the loop reads what the log has after the last record applied,
// applies it, and then appends for every scope that was touched or is due what
// engine.State proposes. Steps act when they come back from the log, never
// before. A proposal that the log refuses (a record came in between) is made
// again after the next read.
//
// # Failure
//
// A store that does not answer is tried again, for ever, with a growing pause;
// nothing is lost meanwhile, since nothing counts that is not in the log. Only
// a fence of another owner, a record written by a newer version, or a log that
// was put back or replaced under the loop (store.ErrReplaced) ends it. In the
// last case nothing more is written: what was folded is of another log.
//
// # Replicas
//
// With Options.Leases many runners share one store. Each folds the whole log
// and answers from it, and acts on the scopes of those shards alone whose
// leases it holds (see shards). A fence of another owner then costs the shard,
// not the loop.
package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/store"
)

// Options configure a Runner.
type Options struct {
	Store   store.Store
	Judge   judge.Judge    // asked where the policy's judge does IO; nil when there is none
	Compile engine.Compile // what the fold judges with by itself; nil for nothing
	// Context and Capture bring what a judge that does IO is shown beside the
	// window. Both are asked anew for every call, side by side, and given the
	// scope's contextTimeoutMs and captureTimeoutMs. What fails or is late leaves
	// a trace and never fails the call. Either may be nil.
	Context func(ctx context.Context, scope string) (judge.Context, error)
	Capture func(ctx context.Context, scope string) ([]judge.Image, error)
	// Judges are the names under which judges are configured: the labels of
	// metrics. Others are counted together.
	Judges     []string
	Record     bool // prompts, answers and facts stand in the log
	MaxCalls   int  // judge calls that run at once; 0 is DefaultMaxCalls
	Logger     *slog.Logger
	Registerer prometheus.Registerer

	// Leases are set where replicas share the store. Nil: this runner takes the
	// one right to write (store.Owner) and fences whoever had it.
	Leases   store.Leases
	Replica  string        // this replica's name among them, of this process alone
	LeaseTTL time.Duration // how long a lease lasts; 0 is 10 s

	Deliver    Deliverer             // takes what policies have sinks for; nil where nothing is delivered
	SinkPlaces func(sink string) int // how many deliveries to a sink run at once; nil or 0 is 32

	MaxScopes          int           // states kept in memory; 0 is DefaultMaxScopes
	CheckpointRecords  int           // records after which states are saved; 0 is 300,000
	CheckpointInterval time.Duration // time after which dirty states are saved; 0 is 60 s
}

// DefaultMaxScopes is how many states are kept in memory. Beside them a scope
// with an open window costs its name and when to look at it.
const DefaultMaxScopes = 100_000

// Runner is the loop. It is used once.
type Runner struct {
	store   store.Store
	asks    atomic.Pointer[Asks]
	log     *slog.Logger
	metrics *metrics
	opt     Options

	rules  *engine.Rules // changed by the loop alone, under mu
	policy atomic.Pointer[engine.Policy]
	fence  store.Fence     // where one runner owns all
	epoch  string          // of the log that was restored from
	ended  error           // why nothing more may be done: the log is another
	ruled  engine.Position // policies and silences up to here were read ahead

	mu       sync.RWMutex // held by the loop to change mem and rules, by others to read
	mem      memory
	order    []*scope // to be looked at in this pass, those that are taken
	applied  atomic.Int64
	restored bool
	liveFrom engine.Position // records after it came while the daemon ran
	caughtUp atomic.Bool
	failing  atomic.Int64 // since when the work is tried again, in Unix ms; 0 when it goes well

	watching bool    // the watch waits for the log to grow
	answers  answers // what producers and callers wait for
	outcomes chan outcome
	places   places         // for judge calls
	calls    sync.WaitGroup // judge calls and writes of states
	strays   sync.WaitGroup // judges and hooks, which may outlast their calls
	saving   saving
	shards   shards // where replicas share the store
	rights   atomic.Pointer[rights]
	sends    sends // deliveries; calls counts them too
}

// New returns a runner; Run starts it.
func New(opt Options) *Runner {
	if opt.MaxScopes == 0 {
		opt.MaxScopes = DefaultMaxScopes
	}
	if opt.CheckpointRecords == 0 {
		opt.CheckpointRecords = 300_000
	}
	if opt.CheckpointInterval == 0 {
		opt.CheckpointInterval = time.Minute
	}
	if opt.MaxCalls == 0 {
		opt.MaxCalls = DefaultMaxCalls
	}
	r := &Runner{
		store: opt.Store, log: opt.Logger, metrics: newMetrics(opt.Registerer), opt: opt,
		rules: engine.NewRules(opt.Compile), mem: newMemory(),
		outcomes: make(chan outcome), places: places{free: opt.MaxCalls},
	}
	r.Reconfigure(Asks{Judge: opt.Judge, Context: opt.Context, Capture: opt.Capture, Judges: opt.Judges, Record: opt.Record})
	if opt.LeaseTTL == 0 {
		r.opt.LeaseTTL = 10 * time.Second
	}
	if opt.Leases == nil {
		r.metrics.shardsOwned.Set(engine.Shards)
	}
	r.answers.init()
	r.sends.init()
	r.shards.init()
	r.saving.done = make(chan saved, 1)
	r.policy.Store(r.rules.Latest())
	opt.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "attend_silences_active", Help: "Silences that have not ended.",
	}, r.activeSilences))
	return r
}

const (
	readLimit   = 4096             // records read at once
	maxPause    = time.Second      // between tries of a store that does not answer
	longestWait = 60 * time.Second // then the clock is read again
)

// Run takes the right to write, restores the states and goes on until the
// context ends. It then breaks off running judge calls in a way that does not
// count as an attempt, saves the states, gives up its leases and returns nil.
func (r *Runner) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := r.Restore(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	grown := make(chan struct{}, 1)
	idle := make(chan engine.Position, 1)
	go r.watch(ctx, idle, grown)
	for {
		more := false
		err := r.retry(ctx, "pass", func(ctx context.Context) (err error) {
			more, err = r.pass(ctx)
			return err
		})
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			stop()
			r.calls.Wait()
			r.release()
			await(&r.strays, stopGrace)
			return err
		}
		if r.opt.Leases != nil && !r.shards.claiming && r.caughtUp.Load() {
			r.shards.claiming = true // not before: until then others do the work
			r.calls.Go(func() { r.claimLeases(ctx) })
		}
		r.save(ctx)
		r.wait(ctx, more || len(r.order) > 0, idle, grown)
	}
	r.shutdown()
	return nil
}

// Restore takes the right to write and reads the policies, so that events can
// be accepted; Run does it where nobody has. It tries again for as long as the
// store does not answer.
func (r *Runner) Restore(ctx context.Context) error {
	if r.restored {
		return nil
	}
	err := r.retry(ctx, "restore", r.restore)
	r.restored = err == nil
	return err
}

// retry runs a piece of work until it succeeds, the context ends, or it fails
// for good.
func (r *Runner) retry(ctx context.Context, what string, work func(context.Context) error) error {
	pause := 20 * time.Millisecond
	for {
		err := work(ctx)
		var newer *engine.FormatError
		switch {
		case err == nil:
			r.failing.Store(0)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, store.ErrFenced) && r.opt.Leases == nil, errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrReplaced), errors.As(err, &newer):
			return fmt.Errorf("runner: %s: %w", what, err)
		}
		r.failing.CompareAndSwap(0, r.now())
		r.log.Error("the runner tries again", "what", what, "error", err, "pause", pause)
		if sleep(ctx, pause) != nil {
			return ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// pass reads and applies what the log has, and does what follows. It reports
// whether there may be more to do at once.
func (r *Runner) pass(ctx context.Context) (more bool, err error) {
	r.takeClaims(ctx)
	if r.ended != nil {
		return false, r.ended
	}
	recs, err := r.store.Read(ctx, engine.Position(r.applied.Load()), readLimit)
	if err != nil {
		return false, fmt.Errorf("read the log: %w", err)
	}
	if err := r.apply(ctx, recs); err != nil {
		return false, err
	}
	if len(recs) == readLimit && !r.caughtUp.Load() {
		return true, nil // catch up before anything is decided
	}
	r.share()
	r.publish()
	more, err = r.act(ctx)
	if err != nil {
		return false, err
	}
	r.caughtUp.Store(true)
	return more || len(recs) > 0, nil
}

// apply folds records into their scopes.
func (r *Runner) apply(ctx context.Context, recs []engine.Record) error {
	for i := range recs {
		rec := &recs[i]
		if rec.Scope == "" {
			r.applyToAll(rec)
			continue
		}
		s, err := r.load(ctx, rec.Scope)
		if err != nil {
			return err
		}
		if rec.Position > s.state.Position {
			if err := r.fill(ctx, rec, s.state); err != nil {
				return err
			}
		}
		r.applyOne(s, rec)
	}
	if len(recs) > 0 {
		r.saving.records += len(recs)
		r.answers.progress()
	}
	return nil
}

func (r *Runner) applyToAll(rec *engine.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rule(rec)
	r.policy.Store(r.rules.Latest())
	if rec.Step != nil && rec.Step.Kind == engine.StepReload {
		r.askAgain()
	}
	r.applied.Store(int64(rec.Position))
}

func (r *Runner) applyOne(s *scope, rec *engine.Record) {
	defer r.applied.Store(int64(rec.Position))
	if rec.Position <= s.state.Position {
		if r.opt.Leases != nil {
			r.look(s) // it may have been loaded just now, from a row of another replica
		}
		return // its row is younger than the checkpoint
	}
	r.mu.Lock()
	hadOpen := len(s.state.Open.Events) > 0
	out := s.state.Apply(r.rules, rec)
	if hasOpen := len(s.state.Open.Events) > 0; hasOpen != hadOpen {
		if hasOpen {
			r.mem.open++
		} else {
			r.mem.open--
		}
	}
	s.dirty = true
	r.mem.touch(s)
	r.mu.Unlock()

	r.look(s)
	r.answers.note(rec, &out)
	if out.Diverged != "" { // mostly in what was recorded before the start
		r.metrics.diverged.Inc()
		r.log.Warn("a recorded step differs from what this version would decide; the record stands",
			"scope", s.name, "position", rec.Position, "why", out.Diverged)
	}
	if rec.Position <= r.liveFrom {
		return
	}
	s.noteShed(&out)
	if rec.Step != nil && rec.Step.Kind == engine.StepShed {
		s.told(rec.Step.Shed)
	}
	if r.acts(s) { // else its owner counts it
		r.metrics.observe(rec)
		r.metrics.outcome(&out)
	}
}

// look puts the scope on the list of this pass.
func (r *Runner) look(s *scope) {
	if !s.taken {
		s.taken = true
		r.order = append(r.order, s)
	}
}
