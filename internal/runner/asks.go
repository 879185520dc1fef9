package runner

import (
	"context"

	"attend/internal/engine"
	"attend/internal/judge"
)

// Asks is who is asked about windows, and what is asked before: the part of
// Options that may be put in force anew while the runner runs.
type Asks struct {
	Judge   judge.Judge
	Context func(ctx context.Context, scope string) (judge.Context, error)
	Capture func(ctx context.Context, scope string) ([]judge.Image, error)
	Judges  []string
	Record  bool
}

// Reconfigure puts it in force: the next call asks the new judge. Calls that run
// end under the judge which they were begun with.
func (r *Runner) Reconfigure(a Asks) {
	r.asks.Store(&a)
	r.metrics.judges.Store(&a.Judges)
}

// Reach waits until the fold has applied everything up to a position: a policy
// that stands there is then in force.
func (r *Runner) Reach(ctx context.Context, p engine.Position) error { return r.reach(ctx, p) }
