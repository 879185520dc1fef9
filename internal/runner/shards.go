package runner

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// shards are what the runner may act on where replicas share the store. Every
// replica folds every record; only the owner of a scope's shard appends for
// it, calls judges for it and saves its state. So a take-over needs no
// loading: it is a look at the scopes of the shard as they stand in memory.
//
// The loop alone changes it; until is changed under the runner's lock.
type shards struct {
	tokens  [engine.Shards]int64           // of the leases held; 0 for none
	refused [engine.Shards]int64           // the newest token that the store refused
	from    [engine.Shards]engine.Position // to be applied before the shard is acted on
	active  [engine.Shards]bool            // acted on in this pass
	covered [engine.Shards]engine.Position // checkpoints, as last read: rows cover the log up to them
	until   time.Time                      // by the monotonic clock; then no lease is trusted

	replicas int
	claiming bool            // the leases are being claimed
	known    engine.Position // up to where the log went at the last claim; known to who claims alone
	cleared  bool            // what an earlier process of this name held is given up; known to who claims alone
	claims   chan claimed    // unbuffered: who does not take a claim gets no other
	again    chan struct{}   // claim at once
	covers   chan []engine.Position
	reading  bool      // covers are on their way
	readAt   time.Time // when they were last asked for
	failing  bool      // the last claim failed: told once
}

// claimed is the store's answer to a claim, and when it was asked for.
type claimed struct {
	store.Claimed
	sent time.Time
	err  error
}

func (sh *shards) init() {
	sh.claims, sh.again = make(chan claimed), make(chan struct{}, 1)
	sh.covers = make(chan []engine.Position, 1)
}

// claimEvery is how often leases are claimed at least. Each claim renews, and
// finds what another replica has released or given back: that is how quickly
// work goes on elsewhere. It is one small transaction.
const claimEvery = time.Second

// claimLeases claims until the context ends. It waits for the loop to take
// each answer, so that a loop which hangs loses its shards to others.
func (r *Runner) claimLeases(ctx context.Context) {
	every := min(r.opt.LeaseTTL/3, claimEvery)
	for {
		c := r.claim(ctx)
		select {
		case <-ctx.Done():
			return
		case r.shards.claims <- c:
		}
		pause := time.NewTimer(every)
		select {
		case <-ctx.Done():
		case <-pause.C:
		case <-r.shards.again:
		}
		pause.Stop()
	}
}

func (r *Runner) claim(ctx context.Context) claimed {
	ctx, cancel := context.WithTimeout(ctx, r.trust())
	defer cancel()
	if !r.shards.cleared {
		// An earlier process of this name may have been killed with an append on
		// its way: what it held is taken with new tokens.
		if err := r.opt.Leases.Release(ctx, r.opt.Replica); err != nil {
			return claimed{err: err}
		}
		r.shards.cleared = true
	}
	c := claimed{sent: time.Now()}
	known := max(r.shards.known, engine.Position(r.applied.Load())) // before the question: the log only grows
	if c.Claimed, c.err = r.opt.Leases.Claim(ctx, r.opt.Replica, r.opt.LeaseTTL); c.err == nil {
		c.err = r.same(ctx, known, c.Head)
		r.shards.known = c.Head
	}
	return c
}

// trust is how long after a claim was sent its leases are acted on: a third
// less than they last.
func (r *Runner) trust() time.Duration { return r.opt.LeaseTTL * 2 / 3 }

// trusted reports whether leases that are held may be acted on.
func (r *Runner) trusted() bool {
	return r.opt.Leases == nil || time.Now().Before(r.shards.until)
}

// acts reports whether the scope is this runner's to act on.
func (r *Runner) acts(s *scope) bool { return r.opt.Leases == nil || r.shards.active[s.shard] }

// fenceOf is the right under which the scope's steps are written.
func (r *Runner) fenceOf(s *scope) store.Fence {
	if r.opt.Leases == nil {
		return r.fence
	}
	return store.Fence{Shard: int(s.shard), Token: r.shards.tokens[s.shard]}
}

// takeClaims takes an answer that waits.
func (r *Runner) takeClaims(ctx context.Context) {
	select {
	case c := <-r.shards.claims:
		r.takeClaim(ctx, c)
	default:
	}
}

// takeClaim takes over what was gained and lets go of what was lost.
func (r *Runner) takeClaim(ctx context.Context, c claimed) {
	if r.end(c.err) {
		return
	}
	if c.err != nil {
		if ctx.Err() == nil && !r.shards.failing {
			r.shards.failing = true
			r.log.Warn("the leases could not be claimed: it is tried again until they are", "replica", r.opt.Replica, "error", c.err)
		}
		return
	}
	sh := &r.shards
	if sh.failing {
		sh.failing = false
		r.log.Info("the leases are claimed again", "replica", r.opt.Replica)
	}
	held := len(sh.held())
	var tokens [engine.Shards]int64
	for _, f := range c.Fences {
		if f.Token > sh.refused[f.Shard] { // else the answer is older than the refusal
			tokens[f.Shard] = f.Token
		}
	}
	var lost []store.Fence
	gained := 0
	for i, token := range tokens {
		if token != sh.tokens[i] && sh.tokens[i] != 0 {
			lost = append(lost, store.Fence{Shard: i, Token: sh.tokens[i]})
		}
		if token != sh.tokens[i] && token != 0 {
			gained++
			sh.from[i] = c.Head
		}
	}
	// What was given back is still this replica's to write until another takes
	// it: its calls are broken off without counting, if that comes in time.
	inTime := r.trusted()
	r.mu.Lock()
	sh.until = c.sent.Add(r.trust())
	r.mu.Unlock()
	r.letGo(ctx, lost, inTime && r.trusted())
	sh.tokens = tokens
	if gained+len(lost) > 0 || c.Replicas != sh.replicas {
		r.log.Info("shards of the replicas", "replica", r.opt.Replica, "replicas", c.Replicas, "gained", gained, "lost", len(lost),
			"before", held, "held", len(sh.held()), "head", c.Head)
	}
	sh.replicas = c.Replicas
	r.metrics.takeovers.Add(float64(gained))
}

// letGo ends the work on shards: running calls are broken off, and their
// outcomes dropped.
func (r *Runner) letGo(ctx context.Context, lost []store.Fence, tell bool) {
	if len(lost) == 0 {
		return
	}
	var of [engine.Shards]bool
	for _, f := range lost {
		of[f.Shard] = true
	}
	calling := r.scopesOf(&of, func(s *scope) bool { return s.call != nil })
	if tell {
		if err := r.stopCalls(ctx, calling); err != nil {
			r.log.Warn("judge calls of shards that were given back could not be marked as stopped; they will count as attempts", "error", err)
		}
	}
	for _, s := range calling {
		r.endCall(s)
		r.look(s)
	}
	for _, s := range r.scopesOf(&of, r.sends.busy) {
		r.breakOffDeliveries(s)
		r.look(s)
	}
	for _, f := range lost {
		r.shards.tokens[f.Shard], r.shards.active[f.Shard] = 0, false
	}
}

// fenced drops shards that the store says another has taken, and asks what is
// left.
func (r *Runner) fenced(ctx context.Context, refused ...store.Fence) {
	sh := &r.shards
	var lost []store.Fence
	for _, f := range refused {
		if sh.tokens[f.Shard] == f.Token && sh.refused[f.Shard] < f.Token {
			sh.refused[f.Shard] = f.Token
			lost = append(lost, f)
		}
	}
	if len(lost) == 0 {
		return
	}
	r.log.Info("another replica has taken shards", "replica", r.opt.Replica, "lost", len(lost), "held", len(sh.held())-len(lost))
	r.letGo(ctx, lost, false)
	select {
	case sh.again <- struct{}{}:
	default:
	}
}

// held lists the fences of the leases that the runner holds.
func (sh *shards) held() []store.Fence {
	var out []store.Fence
	for i, token := range sh.tokens {
		if token != 0 {
			out = append(out, store.Fence{Shard: i, Token: token})
		}
	}
	return out
}

// share decides which shards are acted on in this pass: those that are held
// and trusted, and of which everything is applied that an earlier owner wrote.
// The scopes of those that were not acted on before are looked at.
func (r *Runner) share() {
	if r.opt.Leases == nil {
		return
	}
	sh := &r.shards
	trusted, applied := r.trusted(), engine.Position(r.applied.Load())
	var woken [engine.Shards]bool
	owned, wakes := 0, false
	for i, token := range sh.tokens {
		now := trusted && token != 0 && applied >= sh.from[i]
		woken[i] = now && !sh.active[i]
		wakes = wakes || woken[i]
		sh.active[i] = now
		if trusted && token != 0 {
			owned++
		}
	}
	r.metrics.shardsOwned.Set(float64(owned))
	if !wakes {
		return
	}
	for _, s := range r.scopesOf(&woken, func(*scope) bool { return true }) {
		switch {
		case s.state != nil:
			r.look(s)
		case s.wake != 0 && s.index < 0:
			r.mem.wakeAt(s, s.wake, true)
		}
	}
}

// scopesOf lists the scopes in memory of some shards that are meant, by name.
func (r *Runner) scopesOf(of *[engine.Shards]bool, meant func(*scope) bool) []*scope {
	var out []*scope
	for _, s := range r.mem.byName {
		if of[s.shard] && meant(s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *scope) int { return cmp.Compare(a.name, b.name) })
	return out
}

// coverEvery is how often the checkpoints of other owners are read at most,
// while there are more scopes in memory than there should be.
const coverEvery = 15 * time.Second

// readCovers reads the checkpoints of shards that others own: states that
// their rows cover can leave memory here too.
func (r *Runner) readCovers(ctx context.Context) {
	sh := &r.shards
	if sh.reading || !sh.readAt.IsZero() && time.Since(sh.readAt) < coverEvery {
		return
	}
	sh.reading, sh.readAt = true, time.Now()
	active := sh.active
	r.calls.Go(func() {
		at := make([]engine.Position, engine.Shards)
		for i := range at {
			if active[i] {
				continue
			}
			var err error
			if at[i], err = r.store.Checkpoint(ctx, store.Fence{Shard: i}); err != nil {
				break // what was read counts
			}
		}
		sh.covers <- at
	})
}

func (r *Runner) takeCovers(at []engine.Position) {
	r.shards.reading = false
	for i, p := range at {
		r.shards.covered[i] = max(r.shards.covered[i], p)
	}
}

// restorePoint is the position from which the log is read after a start: up to
// it, every scope's row covers the log.
func (r *Runner) restorePoint(ctx context.Context) (engine.Position, error) {
	if r.opt.Leases == nil {
		p, err := r.store.Checkpoint(ctx, r.fence)
		if err != nil {
			return 0, fmt.Errorf("read the checkpoint: %w", err)
		}
		return p, nil
	}
	lowest := engine.Position(0)
	for i := range engine.Shards {
		p, err := r.store.Checkpoint(ctx, store.Fence{Shard: i})
		if err != nil {
			return 0, fmt.Errorf("read the checkpoint of shard %d: %w", i, err)
		}
		if i == 0 || p < lowest {
			lowest = p
		}
	}
	return lowest, nil
}

// release gives every lease up, so that others go on at once.
func (r *Runner) release() {
	if !r.shards.claiming {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if err := r.opt.Leases.Release(ctx, r.opt.Replica); err != nil {
		r.log.Warn("the leases could not be released; others take over when they expire", "replica", r.opt.Replica, "error", err)
		return
	}
	r.log.Info("shards of the replicas", "replica", r.opt.Replica, "released", len(r.shards.held()))
}
