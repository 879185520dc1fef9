package runner

import (
	"attend/internal/engine"
	"attend/internal/store"
)

// rights are the fences that the runner holds, for others to read.
type rights struct {
	all    store.Fence
	tokens [engine.Shards]int64
}

// publish lets others of the process write under the runner's fences.
func (r *Runner) publish() {
	if now := r.rights.Load(); now == nil || now.all != r.fence || now.tokens != r.shards.tokens {
		r.rights.Store(&rights{r.fence, r.shards.tokens})
	}
}

// Fence returns the right to write what belongs to a shard, and whether the
// runner has it: that of the store where it owns all.
func (r *Runner) Fence(shard int) (store.Fence, bool) {
	held := r.rights.Load()
	switch {
	case held == nil:
		return store.Fence{}, false
	case r.opt.Leases == nil:
		return held.all, true
	default:
		return store.Fence{Shard: shard, Token: held.tokens[shard]}, held.tokens[shard] != 0
	}
}
