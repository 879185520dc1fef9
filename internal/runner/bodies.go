package runner

import (
	"context"
	"fmt"

	"attend/internal/engine"
)

// fill gives states the bodies of events that the rules look at, before the
// next record is applied to them, or before what the clock brings (nil). What
// the store does not give now is asked for again: a verdict is never made
// without it.
func (r *Runner) fill(ctx context.Context, next *engine.Record, states ...*engine.State) error {
	if !r.rules.NeedsBodies() {
		return nil
	}
	var all []engine.Position
	missing := make([][]engine.Position, len(states))
	for i, st := range states {
		missing[i] = st.Missing(r.rules, next)
		all = append(all, missing[i]...)
	}
	if len(all) == 0 {
		return nil
	}
	recs, err := r.store.Events(ctx, all)
	if err != nil {
		return fmt.Errorf("read what the events of windows say: %w", err)
	}
	// The store gives them in the order asked, and leaves out what is gone.
	for i, st := range states {
		n := 0
		for _, p := range missing[i] {
			if n < len(recs) && recs[n].Position == p {
				n++
			}
		}
		st.Fill(missing[i], recs[:n])
		recs = recs[n:]
	}
	return nil
}

// fillScopes does so before what the clock or an answer brings.
func (r *Runner) fillScopes(ctx context.Context, scopes []*scope) error {
	if !r.rules.NeedsBodies() {
		return nil // they may be very many
	}
	states := make([]*engine.State, len(scopes))
	for i, s := range scopes {
		states[i] = s.state
	}
	return r.fill(ctx, nil, states...)
}
