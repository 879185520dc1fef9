package runner

import (
	"cmp"
	"context"
	"slices"

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

// askAgain looks at the windows that wait until a judge can be asked: after a
// reload it may be another, or have a larger budget.
func (r *Runner) askAgain() {
	var held []*scope
	for _, s := range r.mem.byName { //arch:sorted they are sorted below
		if s.call != nil && s.call.held > 0 {
			s.call.held = 0
			held = append(held, s)
		}
	}
	slices.SortFunc(held, func(a, b *scope) int { return cmp.Compare(a.name, b.name) })
	for _, s := range held {
		r.look(s)
	}
}

// Reach waits until the fold has applied everything up to a position: a policy
// that stands there is then in force.
func (r *Runner) Reach(ctx context.Context, p engine.Position) error { return r.reach(ctx, p) }
