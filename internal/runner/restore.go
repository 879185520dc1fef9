package runner

import (
	"context"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// restore takes the right to write and rebuilds the memory: the rules from
// their records, the times to wake from the state rows, and the rest from the
// log behind the checkpoint, as the loop reads it. Where replicas share the
// store, the right is claimed later, when that is done.
func (r *Runner) restore(ctx context.Context) (err error) {
	if r.opt.Leases == nil {
		if r.fence, err = r.store.Own(ctx); err != nil {
			return fmt.Errorf("take the right to write: %w", err)
		}
	}
	head, err := r.store.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the head: %w", err)
	}
	r.liveFrom, r.epoch = head.Position, head.Epoch
	checkpoint, err := r.restorePoint(ctx) // before the names: rows are newer than it, never older
	if err != nil {
		return err
	}
	if err := r.restoreRules(ctx); err != nil {
		return err
	}
	if err := r.restoreNames(ctx); err != nil {
		return err
	}
	if err := r.restoreWakes(ctx); err != nil {
		return err
	}
	r.applied.Store(int64(checkpoint))
	r.publish()
	return nil
}

// restoreRules reads every policy and silence, old ones too: events and calls
// name them by number and time. Called again, it reads those that are new.
func (r *Runner) restoreRules(ctx context.Context) error {
	q := store.StepQuery{After: r.ruled, Kinds: []engine.StepKind{engine.StepPolicy, engine.StepSilence}, Limit: readLimit}
	for {
		recs, err := r.store.Steps(ctx, q) // without the lock: producers must not wait for the store
		if err != nil {
			return fmt.Errorf("read the policies: %w", err)
		}
		r.takeRules(recs)
		if len(recs) > 0 {
			q.After = recs[len(recs)-1].Position
		}
		if len(recs) < q.Limit {
			r.ruled = q.After
			return nil
		}
	}
}

func (r *Runner) takeRules(recs []engine.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range recs {
		r.rule(&recs[i])
	}
	r.policy.Store(r.rules.Latest())
}

// rule takes a policy or silence. A policy that this binary does not understand
// is in force all the same, and ends no daemon: the next may mend it.
func (r *Runner) rule(rec *engine.Record) {
	if err := r.rules.Apply(*rec); err != nil {
		r.log.Error("a policy in the log is not understood by this version of attend; its judge cannot be asked",
			"position", rec.Position, "error", err)
	}
}

// restoreNames notes which scopes have a row.
func (r *Runner) restoreNames(ctx context.Context) error {
	after := ""
	for {
		names, err := r.store.ScopeNames(ctx, after, readLimit)
		if err != nil {
			return fmt.Errorf("read the names of scopes: %w", err)
		}
		for _, after = range names {
			r.mem.rowWritten(after)
		}
		if len(names) < readLimit {
			return nil
		}
	}
}

func (r *Runner) restoreWakes(ctx context.Context) error {
	after := ""
	for {
		rows, err := r.store.LiveStates(ctx, after, readLimit)
		if err != nil {
			return fmt.Errorf("read the live scopes: %w", err)
		}
		r.mu.Lock()
		for i := range rows {
			after = rows[i].Scope
			if rows[i].WakeAt == 0 || r.mem.byName[after] != nil {
				continue
			}
			if s := r.mem.add(after); r.opt.Leases == nil {
				r.mem.wakeAt(s, rows[i].WakeAt, true)
			} else {
				r.mem.park(s, rows[i].WakeAt)
			}
		}
		r.mu.Unlock()
		if len(rows) < readLimit {
			return nil
		}
	}
}

// EnsurePolicy appends the policy as a new numbered record when it differs
// from the newest one in the log. Call it before the runner starts and before
// events are accepted. Of two replicas that take the same number the first in
// the log has it, so who appends looks again.
func EnsurePolicy(ctx context.Context, log store.Log, configured *engine.Policy) error {
	_, err := RecordPolicy(ctx, log, configured)
	return err
}

// RecordPolicy does the same, and returns the number that the policy has.
func RecordPolicy(ctx context.Context, log store.Log, configured *engine.Policy) (number uint32, err error) {
	for {
		number, err = ensurePolicy(ctx, log, configured)
		if err != nil || number > 0 {
			return number, err
		}
	}
}

// ensurePolicy returns 0 once it has appended the policy: whether it has its
// number is for the next look to say.
func ensurePolicy(ctx context.Context, log store.Log, configured *engine.Policy) (number uint32, err error) {
	p := *configured
	newest := engine.Policy{}
	q := store.StepQuery{Kinds: []engine.StepKind{engine.StepPolicy}, Limit: readLimit}
	for {
		recs, err := log.Steps(ctx, q)
		if err != nil {
			return 0, fmt.Errorf("read the policies: %w", err)
		}
		for i := range recs {
			if q.After = recs[i].Position; recs[i].Step.Policy.Number > newest.Number {
				newest = *recs[i].Step.Policy
			}
		}
		if len(recs) < q.Limit {
			break
		}
	}
	p.Number = newest.Number
	same, err := samePolicy(&p, &newest)
	if err != nil || same && p.Number > 0 {
		return p.Number, err
	}
	p.Number++
	receipts, err := log.Append(ctx, store.Entry{Steps: []engine.Step{{Kind: engine.StepPolicy, Policy: &p}}})
	if err != nil {
		return 0, fmt.Errorf("append the policy: %w", err)
	}
	return 0, receipts[0].Err
}

func samePolicy(a, b *engine.Policy) (bool, error) {
	left, err := engine.EncodeStep(&engine.Step{Kind: engine.StepPolicy, Policy: a})
	if err != nil {
		return false, err
	}
	right, err := engine.EncodeStep(&engine.Step{Kind: engine.StepPolicy, Policy: b})
	if err != nil {
		return false, err
	}
	return string(left) == string(right), nil
}
