package retention

import (
	"context"
	"fmt"
	"math"
	"slices"

	"attend/internal/engine"
	"attend/internal/store"
)

// page is how many rows are read at once.
const page = 256

// names lists the events at or before a position that somebody still names, and
// notes the oldest step that carries what is still to be delivered. It
// reads the rows first: a dead letter that a row already takes for written is
// found when the dead letters are read after it, and so is a requeue.
func (k *Keeper) names(ctx context.Context, kept store.Kept, checkpoint, upto engine.Position) ([]engine.Position, error) {
	if err := k.readRules(ctx); err != nil {
		return nil, err
	}
	at, err := k.stampAfter(ctx, upto)
	if err != nil {
		return nil, err
	}
	k.carrier = math.MaxInt64
	named, err := k.liveNames(ctx, upto, at)
	if err != nil {
		return nil, err
	}
	letters, err := k.letters.read(ctx, k.store, kept)
	if err != nil {
		return nil, err
	}
	requeued, err := k.requeued(ctx, checkpoint)
	if err != nil {
		return nil, err
	}
	for _, positions := range [][]engine.Position{letters, requeued} {
		for _, p := range positions {
			if p <= upto {
				named = append(named, p)
			}
		}
	}
	slices.Sort(named)
	return slices.Compact(named), nil
}

// stampAfter is the stamp of the first record that stands behind a position, or
// of the last one before it. What a state does not cover is not older.
func (k *Keeper) stampAfter(ctx context.Context, p engine.Position) (engine.Time, error) {
	next, err := k.store.Read(ctx, p, 1)
	if err != nil {
		return 0, err
	}
	if len(next) > 0 {
		return next[0].Stamp, nil
	}
	head, err := k.store.Head(ctx)
	return head.Stamp, err
}

// readRules takes up the policies that are new: by them a state is read.
func (k *Keeper) readRules(ctx context.Context) error {
	q := store.StepQuery{After: k.ruled, Kinds: []engine.StepKind{engine.StepPolicy, engine.StepSilence}, Limit: page}
	for {
		recs, err := k.store.Steps(ctx, q)
		if err != nil {
			return err
		}
		for i := range recs {
			_ = k.rules.Apply(recs[i]) // the runner tells what is wrong with a policy, and it is in force all the same
			q.After = recs[i].Position
		}
		k.ruled = q.After
		if len(recs) < q.Limit {
			return nil
		}
	}
}

// liveNames are the events that live scopes name.
func (k *Keeper) liveNames(ctx context.Context, upto engine.Position, at engine.Time) (named []engine.Position, err error) {
	for after := ""; ; {
		rows, err := k.store.LiveStates(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			after = rows[i].Scope
			state, err := engine.DecodeView(k.rules, rows[i].Body, rows[i].Format)
			if err != nil {
				return nil, fmt.Errorf("nothing is deleted, for it is not known which events the scope %q names: %w", after, err)
			}
			named = append(named, state.Named(k.rules, upto, at)...)
			if carrier, ok := state.Carrier(); ok {
				k.carrier = min(k.carrier, carrier)
			}
		}
		if len(rows) < page {
			return named, nil
		}
	}
}

// requeued are the events of requeues that the rows may not know of yet.
func (k *Keeper) requeued(ctx context.Context, checkpoint engine.Position) (named []engine.Position, err error) {
	q := store.StepQuery{After: checkpoint, Kinds: []engine.StepKind{engine.StepRequeue}, Limit: page}
	for {
		recs, err := k.store.Steps(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range recs {
			q.After = recs[i].Position
			if again := recs[i].Step.Requeue; again != nil {
				named = append(named, again.Settled.Events...)
				if again.Position > 0 {
					k.carrier = min(k.carrier, again.Position)
				}
			}
		}
		if len(recs) < q.Limit {
			return named, nil
		}
	}
}

// letters are the events of dead letters that can be requeued, by the position
// of the dead letter. Each is read once.
type letters struct {
	upto   engine.Position
	events map[engine.Position][]engine.Position
}

func newLetters() letters { return letters{events: make(map[engine.Position][]engine.Position)} }

// read takes up what is new, lets go of what was deleted in an earlier round,
// and returns the events of all. Those of what this round deletes are named
// once more: who has just seen such a dead letter may be requeuing it.
func (l *letters) read(ctx context.Context, log store.Log, kept store.Kept) (named []engine.Position, err error) {
	q := store.StepQuery{After: max(l.upto, kept.Steps), Kinds: []engine.StepKind{engine.StepDeadLetter}, Limit: page}
	for {
		recs, err := log.Steps(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range recs {
			q.After = recs[i].Position
			if d := recs[i].Step.DeadLetter; d != nil && d.Stage == engine.StageJudge && d.Settled != nil {
				l.events[q.After] = d.Settled.Events
			}
		}
		l.upto = q.After
		if len(recs) < q.Limit {
			break
		}
	}
	for p, events := range l.events { //arch:sorted the caller sorts
		if p <= kept.Steps {
			delete(l.events, p)
			continue
		}
		named = append(named, events...)
	}
	return named, nil
}

// release lets the side table go of what is not named.
func (k *Keeper) release(ctx context.Context, fence store.Fence, c store.Compaction, report *Report) error {
	kept, err := k.store.Kept(ctx)
	if err != nil {
		return err
	}
	left := 0
	for after := engine.Position(0); ; {
		aside, err := k.store.Aside(ctx, after, k.opt.Batch)
		if err != nil {
			return err
		}
		var gone []engine.Position
		for _, after = range aside {
			if _, named := slices.BinarySearch(c.Keep, after); !named {
				gone = append(gone, after)
			}
		}
		left += len(aside) - len(gone)
		if len(gone) > 0 {
			done, err := k.store.Compact(ctx, fence, store.Compaction{Events: kept.Events, Steps: kept.Steps, Release: gone, Limit: k.opt.Batch})
			if err != nil {
				return err
			}
			report.Released += done.Released
			k.metrics.compacted(&done)
		}
		if len(aside) < k.opt.Batch {
			k.metrics.aside.Set(float64(left))
			return nil
		}
	}
}
