package store

import (
	"context"
	"time"

	"attend/internal/engine"
)

// Claimed is what a replica holds after a Claim.
type Claimed struct {
	// Fences are all that the replica holds, by rising shard, those that it had
	// before with the tokens that it had.
	Fences []Fence
	// Head is the end of the log at that moment: every step of an earlier owner
	// of the shards stands at it or before it.
	Head engine.Position
	// Replicas is how many are alive, this one included.
	Replicas int
}

// Leases share the shards of scopes (engine.Shard, 0 to engine.Shards-1) out
// among the replicas of a daemon that use one store. A shard's lease is the
// right to write the steps of its scopes until the lease expires, by the
// store's clock. Its token is above 0 and grows with each new owner; an owned
// entry, or SaveStates, with a token that is not the newest fails with
// ErrFenced.
//
// No lease outlasts the ttl of a later claim, whoever makes it: one that was
// taken before the store's clock was set back would else be in force for as
// long as the clock fell. A replica with a longer ttl than others renews it long
// before, and what it writes under a lease that was cut short is compared as
// ever.
//
// A lease that has expired, or was given back, stays its owner's as far as
// writing goes until another replica takes it: only then is the token bumped.
type Leases interface {
	// Claim does, in one step of the store that takes the head (no append is
	// half-way meanwhile), all of this: it notes that the replica is alive for
	// the ttl to come, and no other for longer; renews the leases that it holds for as long, those too
	// that have expired and that nobody has taken; gives back what is above its
	// fair share, which is engine.Shards divided by the replicas alive, rounded
	// up; and takes shards that are free or whose lease has expired, up to that
	// share, each with a bumped token. The replica's name is not empty and
	// belongs to one process at a time; the ttl is above 0.
	Claim(ctx context.Context, replica string, ttl time.Duration) (Claimed, error)

	// Release gives up all that the replica holds, and that it is alive, at
	// once: the next Claim of another takes it. A replica that is not known has
	// nothing to give up, which is no error.
	Release(ctx context.Context, replica string) error
}
