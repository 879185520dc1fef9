package retention

import (
	"context"
	"errors"

	"attend/internal/engine"
	"attend/internal/store"
)

// forgetPages is how many pages of scopes a round looks through at most.
const forgetPages = 4

// forgetScopes deletes the states of scopes of which nothing is left. A scope
// is one of them when no record of it stands in the log any more, so that its
// row is all there is, and nothing in the row matters. Its last verdicts, which
// a judge is shown, go with it.
//
// Each round goes on where the one before ended, and begins again behind the
// last scope.
func (k *Keeper) forgetScopes(ctx context.Context, kept store.Kept) (forgotten int, err error) {
	if kept.Steps == 0 {
		return 0, nil
	}
	if err := k.readRules(ctx); err != nil {
		return 0, err
	}
	at, err := k.stampAfter(ctx, kept.Steps)
	if err != nil {
		return 0, err
	}
	for range forgetPages {
		names, err := k.store.ScopeNames(ctx, k.forget, page)
		if err != nil {
			return forgotten, err
		}
		n, err := k.forgetOf(ctx, names, kept, at)
		forgotten += n
		if err != nil {
			return forgotten, err
		}
		if len(names) < page {
			k.forget = ""
			return forgotten, nil
		}
		k.forget = names[len(names)-1]
	}
	return forgotten, nil
}

// forgetOf looks through one page.
func (k *Keeper) forgetOf(ctx context.Context, names []string, kept store.Kept, at engine.Time) (forgotten int, err error) {
	gone := make(map[store.Fence][]store.StateAt)
	for _, name := range names {
		fence, ok := k.opt.Fence(engine.Shard(name))
		if !ok {
			continue
		}
		row, err := k.store.LoadState(ctx, name)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, err
		}
		if row.Live || row.Position > kept.Steps || !k.forgettable(&row, at) {
			continue
		}
		gone[fence] = append(gone[fence], store.StateAt{Scope: name, Position: row.Position})
	}
	for fence, rows := range gone { //arch:sorted each shard's rows go by themselves
		n, err := k.store.DropStates(ctx, fence, rows)
		if err != nil && !errors.Is(err, store.ErrFenced) {
			return forgotten, err
		}
		forgotten += n
		k.metrics.forgotten.Add(float64(n))
	}
	return forgotten, nil
}

// forgettable reads a row. One that cannot be read is the runner's to mend.
func (k *Keeper) forgettable(row *store.StateRow, at engine.Time) bool {
	state, err := engine.DecodeState(k.rules, row.Body, row.Format, func(yield func(int64, []byte) error) error {
		for _, b := range row.Blocks {
			if err := yield(b.Seq, b.Body); err != nil {
				return err
			}
		}
		return nil
	})
	return err == nil && state.Forgettable(at)
}
