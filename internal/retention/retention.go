// Package retention keeps the log from growing for ever.
//
// Now and then it deletes events and steps that are older than they are to be
// kept, from the beginning of the log on and in short commits between those of
// ingest. Nobody holds the log: a reader that is behind the mark is told that
// it was truncated. What is needed longer stays:
//
//   - everything behind the lowest checkpoint, since it is still to be folded;
//   - events that a live scope's state names, or a dead letter that can be
//     requeued: they go into the store's side table, and leave it once nobody
//     names them;
//   - steps behind one that carries a decision or dead letter which a sink has
//     not taken yet;
//   - policies and silences, by which everything is folded.
//
// The state of a scope of which nothing is left, in the log or to be
// remembered, is deleted too.
package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/store"
)

// Store is what a Keeper needs of a store.
type Store interface {
	store.Log
	store.States
	store.Compactor
	Now() time.Time
}

// Options configure a Keeper.
type Options struct {
	Store Store
	// Fence returns the right to write a shard's rows, and whether this process
	// has it. A process that has the right for all gives that one each time.
	Fence func(shard int) (store.Fence, bool)

	Events time.Duration // how long events are kept; 0 is for ever
	Steps  time.Duration // how long steps are kept, at least as long as events; 0 is for ever

	Every time.Duration // between two rounds; 0 is a minute
	Batch int           // positions a commit moves at most; 0 is 2,000

	Logger     *slog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Keeper deletes what is old. Its methods are not for concurrent use.
type Keeper struct {
	opt     Options
	store   Store
	log     *slog.Logger
	metrics *metrics

	rules   *engine.Rules
	ruled   engine.Position // policies and silences up to here are in rules
	letters letters
	looked  engine.Position // the head, when it was last looked what the side table may let go
	batch   int             // positions of the next commit
	forget  string          // scopes up to this name were looked at
	carrier engine.Position // the oldest step that carries what is still to be delivered, as last looked for
}

// keyOfLog is what the right to shorten the log is hashed from, where many
// replicas share a store.
const keyOfLog = "retention"

// Shard is the shard whose owner shortens the log.
func Shard() int { return engine.Shard(keyOfLog) }

// New returns a keeper; Run starts it.
func New(opt Options) *Keeper {
	if opt.Every <= 0 {
		opt.Every = time.Minute
	}
	if opt.Batch <= 0 {
		opt.Batch = 2000
	}
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	return &Keeper{
		opt: opt, store: opt.Store, log: opt.Logger, metrics: newMetrics(opt.Registerer),
		rules: engine.NewRules(nil), letters: newLetters(), batch: opt.Batch,
	}
}

// Report is what a round did.
type Report struct {
	Kept      store.Kept // afterwards
	Events    int        // deleted from the log
	Steps     int        // deleted
	Aside     int        // of the events, put into the side table
	Released  int        // that left it
	Forgotten int        // scopes
}

func (r *Report) idle() bool {
	return r.Events+r.Steps+r.Aside+r.Released+r.Forgotten == 0
}

// Run makes a round now and then until the context ends. A round that fails is
// told, and made again at the next time.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.opt.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		start := time.Now()
		report, err := k.Round(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if !report.idle() {
			k.log.Info("the log was shortened", "events", report.Events, "steps", report.Steps, "aside", report.Aside, "released", report.Released,
				"scopes", report.Forgotten, "events_after", report.Kept.Events, "steps_after", report.Kept.Steps, "took", time.Since(start))
		}
		switch {
		case err == nil, errors.Is(err, store.ErrFenced): // another has taken over
		case errors.Is(err, store.ErrClosed):
			return nil
		default:
			k.metrics.failures.Inc()
			k.log.Error("the log could not be shortened; it is tried again", "error", err, "in", k.opt.Every)
		}
	}
}

// Round does what there is to do at this time.
func (k *Keeper) Round(ctx context.Context) (report Report, err error) {
	if k.opt.Events <= 0 {
		return report, nil // for ever, and steps as long
	}
	kept, err := k.store.Kept(ctx)
	if err != nil {
		return report, fmt.Errorf("shorten the log: %w", err)
	}
	if err := k.oldest(ctx, kept.Events); err != nil {
		return report, fmt.Errorf("look for the oldest event: %w", err)
	}
	if fence, ok := k.opt.Fence(Shard()); ok {
		if err = k.shorten(ctx, fence, kept, &report); err != nil {
			return report, fmt.Errorf("shorten the log: %w", err)
		}
	}
	if kept, err = k.store.Kept(ctx); err != nil {
		return report, fmt.Errorf("forget scopes: %w", err)
	}
	report.Kept = kept
	if report.Forgotten, err = k.forgetScopes(ctx, kept); err != nil {
		return report, fmt.Errorf("forget scopes: %w", err)
	}
	return report, nil
}

// shorten deletes what is old, and lets the side table go of what nobody names.
func (k *Keeper) shorten(ctx context.Context, fence store.Fence, kept store.Kept, report *Report) error {
	// The checkpoint first: state rows are read after it, and can only be newer.
	checkpoint, err := k.checkpoint(ctx, fence)
	if err != nil {
		return err
	}
	c, err := k.due(ctx, kept, checkpoint)
	if err != nil {
		return err
	}
	moves := c.Events > kept.Events || c.Steps > kept.Steps
	head, err := k.store.Head(ctx)
	if err != nil {
		return err
	}
	if !moves && head.Position == k.looked {
		return nil // nothing has happened since
	}
	if !moves {
		aside, err := k.store.Aside(ctx, 0, 1)
		if err != nil || len(aside) == 0 {
			return err
		}
	}
	if c.Keep, err = k.names(ctx, kept, checkpoint, c.Events); err != nil {
		return err
	}
	if carried := max(k.carrier-1, kept.Steps); carried < c.Steps {
		k.log.Warn("steps are kept for longer than they are to be: what they carry is undelivered", "after", carried, "due", c.Steps)
		c.Steps = carried
	}
	if moves {
		if err := k.compact(ctx, fence, c, report); err != nil {
			return err
		}
	}
	if err := k.release(ctx, fence, c, report); err != nil {
		return err
	}
	k.looked = head.Position
	return nil
}

// checkpoint is the lowest one.
func (k *Keeper) checkpoint(ctx context.Context, fence store.Fence) (engine.Position, error) {
	if fence.Shard < 0 {
		return k.store.Checkpoint(ctx, fence)
	}
	lowest := engine.Position(0)
	for i := range engine.Shards {
		p, err := k.store.Checkpoint(ctx, store.Fence{Shard: i})
		if err != nil {
			return 0, err
		}
		if i == 0 || p < lowest {
			lowest = p
		}
	}
	return lowest, nil
}

// due is up to where events and steps are too old.
func (k *Keeper) due(ctx context.Context, kept store.Kept, checkpoint engine.Position) (c store.Compaction, err error) {
	now := k.store.Now()
	c.Events, err = k.before(ctx, kept.Events, checkpoint, engine.Time(now.Add(-k.opt.Events).UnixMilli()))
	if err != nil {
		return c, err
	}
	c.Steps = kept.Steps
	if k.opt.Steps > 0 {
		c.Steps, err = k.before(ctx, kept.Steps, c.Events, engine.Time(now.Add(-k.opt.Steps).UnixMilli()))
	}
	return c, err
}

// before returns the last position, from one to another, up to which everything
// was stamped before an instant. Stamps never fall along the log, so a binary
// search finds it.
func (k *Keeper) before(ctx context.Context, from, to engine.Position, at engine.Time) (engine.Position, error) {
	var err error
	n := sort.Search(max(int(to-from), 0), func(i int) bool {
		if err != nil {
			return true
		}
		var next []engine.Record
		next, err = k.store.Read(ctx, from+engine.Position(i), 1)
		return err != nil || len(next) == 0 || next[0].Position > to || next[0].Stamp >= at
	})
	return from + engine.Position(n), err
}

// Commits that take longer than this make the next ones smaller: ingest waits
// behind them.
const (
	slowCommit = 10 * time.Millisecond
	leastBatch = 50
)

// restFor is how many times as long as a commit took the keeper rests after it:
// most of the time the disk is ingest's.
const restFor = 3

// compact deletes in short commits, with a rest after each.
func (k *Keeper) compact(ctx context.Context, fence store.Fence, c store.Compaction, report *Report) error {
	for {
		c.Limit = k.batch
		start := time.Now()
		done, err := k.store.Compact(ctx, fence, c)
		if err != nil {
			return err
		}
		took := time.Since(start)
		report.Events, report.Steps, report.Aside = report.Events+done.Events, report.Steps+done.Steps, report.Aside+done.Aside
		k.metrics.compacted(&done)
		if done.Done {
			return k.oldest(ctx, done.Kept.Events)
		}
		if took > slowCommit {
			k.batch = max(k.batch/2, leastBatch)
		} else {
			k.batch = min(k.batch+k.batch/4, k.opt.Batch)
		}
		if err := rest(ctx, restFor*took); err != nil {
			return err
		}
	}
}

// oldest shows when the oldest event that is kept was accepted. Of a log that
// is empty nothing is older than now.
func (k *Keeper) oldest(ctx context.Context, mark engine.Position) error {
	next, err := k.store.Read(ctx, mark, 1)
	if err != nil {
		return err
	}
	stamp := k.store.Now().UnixMilli()
	if len(next) > 0 {
		stamp = int64(next[0].Stamp)
	}
	k.metrics.oldest.Set(float64(stamp) / 1000)
	return nil
}

func rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
