package runner

import (
	"context"
	"errors"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// same sees that the log is the one that was restored from: of its epoch, and
// no shorter than it was known to be. One that was put back gives positions
// anew, and whoever has applied them would pass over what stands there now.
func (r *Runner) same(ctx context.Context, known, end engine.Position) error {
	if err := fellBack(known, end); err != nil {
		return err
	}
	head, err := r.store.Head(ctx)
	if err != nil {
		return fmt.Errorf("read the head: %w", err)
	}
	if head.Epoch != r.epoch {
		return fmt.Errorf("%w: its epoch is %s, and was %s", store.ErrReplaced, head.Epoch, r.epoch)
	}
	return fellBack(end, head.Position)
}

func fellBack(known, end engine.Position) error {
	if end < known {
		return fmt.Errorf("%w: it ends at position %d, and went up to %d", store.ErrReplaced, end, known)
	}
	return nil
}

// place sees that what was appended stands behind all that was applied.
func (r *Runner) place(receipt *store.Receipt) error {
	if applied := engine.Position(r.applied.Load()); receipt.Last <= applied {
		return fmt.Errorf("%w: it gave position %d, and was applied up to %d", store.ErrReplaced, receipt.Last, applied)
	}
	return nil
}

// end notes a failure behind which nothing more may be done. The next pass ends
// the loop.
func (r *Runner) end(err error) (ends bool) {
	if errors.Is(err, store.ErrReplaced) {
		r.ended = err
	}
	return r.ended != nil
}
