package storetest

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// RunLeases runs the cases of a store that replicas share. Its leases expire
// by the clock that it is opened with.
func RunLeases(t *testing.T, open Open) {
	t.Helper()
	for _, c := range leaseCases() {
		t.Run(c.name, func(t *testing.T) {
			clock := NewClock(start)
			e := &env{T: t, clock: clock, s: open(t, clock.Now), suite: &suite{}}
			t.Cleanup(func() {
				if err := e.s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			if _, ok := e.s.(store.Leases); !ok {
				t.Fatalf("a %T has no leases", e.s)
			}
			c.run(e)
		})
	}
}

// leaseTTL is how long the leases of every case last.
const leaseTTL = 10 * time.Second

func (e *env) claim(replica string) store.Claimed {
	e.Helper()
	c, err := e.s.(store.Leases).Claim(e.Context(), replica, leaseTTL) //nolint:forcetypeassert // RunLeases has looked
	if err != nil {
		e.Fatalf("claim of %s: %v", replica, err)
	}
	for i, f := range c.Fences {
		if f.Shard < 0 || f.Shard >= engine.Shards || f.Token <= 0 || i > 0 && f.Shard <= c.Fences[i-1].Shard {
			e.Fatalf("claim of %s: fence %d of %d is %+v, want rising shards and tokens above 0", replica, i+1, len(c.Fences), f)
		}
	}
	return c
}

func (e *env) release(replica string) {
	e.Helper()
	if err := e.s.(store.Leases).Release(e.Context(), replica); err != nil { //nolint:forcetypeassert // RunLeases has looked
		e.Fatalf("release of %s: %v", replica, err)
	}
}

// holds claims and checks how many shards the replica then has, of how many
// replicas.
func (e *env) holds(replica string, shards, replicas int) store.Claimed {
	e.Helper()
	c := e.claim(replica)
	if len(c.Fences) != shards || c.Replicas != replicas {
		e.Errorf("%s holds %d shards of %d replicas, want %d of %d", replica, len(c.Fences), c.Replicas, shards, replicas)
	}
	return c
}

// apart fails when two replicas hold one shard.
func (e *env) apart(claims ...store.Claimed) (held int) {
	e.Helper()
	of := make(map[int]int)
	for i, c := range claims {
		for _, f := range c.Fences {
			if other, ok := of[f.Shard]; ok {
				e.Errorf("shard %d is held by replicas %d and %d", f.Shard, other+1, i+1)
			}
			of[f.Shard] = i
		}
	}
	return len(of)
}

// fenceOf is the fence of a scope's shard among what was claimed.
func (e *env) fenceOf(c store.Claimed, scope string) store.Fence {
	e.Helper()
	for _, f := range c.Fences {
		if f.Shard == engine.Shard(scope) {
			return f
		}
	}
	e.Fatalf("the shard of %q is not among the %d that are held", scope, len(c.Fences))
	return store.Fence{}
}

func leaseCases() []testCase {
	return []testCase{
		{"TheFirstReplicaTakesEveryShard", func(e *env) {
			last := e.write(entry("a", "b"))[0].Last
			c := e.holds("one", engine.Shards, 1)
			if c.Head != last {
				e.Errorf("the head is %d, want %d", c.Head, last)
			}
		}},
		{"RenewingKeepsTheTokens", func(e *env) {
			first := e.claim("one")
			e.clock.Set(start + engine.Time(leaseTTL.Milliseconds()) - 1)
			e.same("fences, renewed in time", e.claim("one").Fences, first.Fences)
			e.clock.Set(start + 5*engine.Time(leaseTTL.Milliseconds()))
			e.same("fences, expired and not taken", e.claim("one").Fences, first.Fences)
		}},
		{"ANewReplicaGetsItsShareOnceItIsGivenBack", func(e *env) {
			before := e.claim("one")
			e.holds("two", 0, 2)
			one := e.holds("one", engine.Shards/2, 2)
			two := e.holds("two", engine.Shards/2, 2)
			if n := e.apart(one, two); n != engine.Shards {
				e.Errorf("%d shards are held", n)
			}
			for _, f := range one.Fences {
				if f != before.Fences[f.Shard] {
					e.Errorf("a shard that was kept changed its fence from %+v to %+v", before.Fences[f.Shard], f)
				}
			}
			for _, f := range two.Fences {
				if f.Token <= before.Fences[f.Shard].Token {
					e.Errorf("shard %d was taken with token %d after token %d", f.Shard, f.Token, before.Fences[f.Shard].Token)
				}
			}
		}},
		{"AShareIsRoundedUp", func(e *env) {
			for range 3 {
				for _, r := range []string{"one", "two", "three"} {
					e.claim(r)
				}
			}
			held := []store.Claimed{e.claim("one"), e.claim("two"), e.claim("three")}
			if n := e.apart(held...); n != engine.Shards {
				e.Errorf("%d shards are held", n)
			}
			for i, c := range held {
				if len(c.Fences) > 86 || c.Replicas != 3 {
					e.Errorf("replica %d of %d holds %d shards, want at most 86", i+1, c.Replicas, len(c.Fences))
				}
			}
		}},
		{"WhatExpiredIsTaken", func(e *env) {
			one := e.claim("one")
			e.clock.Set(start + engine.Time(leaseTTL.Milliseconds()) - 1)
			e.holds("two", 0, 2)
			e.clock.Set(start + engine.Time(leaseTTL.Milliseconds()))
			two := e.holds("two", engine.Shards, 1)
			for i, f := range two.Fences {
				if f.Token <= one.Fences[i].Token {
					e.Errorf("shard %d was taken with token %d after token %d", f.Shard, f.Token, one.Fences[i].Token)
				}
			}
			e.holds("one", 0, 2)
		}},
		{"NoLeaseOutlastsTheTTLOfALaterClaim", func(e *env) {
			// As one does that was taken before the clock was set back.
			if _, err := e.s.(store.Leases).Claim(e.Context(), "gone", 100*leaseTTL); err != nil { //nolint:forcetypeassert // RunLeases has looked
				e.Fatal(err)
			}
			ttl := engine.Time(leaseTTL.Milliseconds())
			e.holds("one", 0, 2)
			e.clock.Set(start + ttl - 1)
			e.holds("one", 0, 2)
			e.clock.Set(start + ttl)
			e.holds("one", engine.Shards, 1)
		}},
		{"WhatIsReleasedIsTakenAtOnce", func(e *env) {
			e.claim("one")
			e.holds("two", 0, 2)
			e.release("one")
			e.holds("two", engine.Shards, 1)
			e.release("one") // has nothing any more
			e.release("never heard of")
			e.holds("two", engine.Shards, 1)
		}},
		{"TheTokenGivesTheRightToWrite", theTokenGivesTheRightToWrite},
		{"AFenceIsOfOneShard", func(e *env) {
			c := e.claim("one")
			other := "b"
			for i := 0; engine.Shard(other) == engine.Shard("a"); i++ {
				other = fmt.Sprint("b", i)
			}
			r := e.append(store.Entry{Steps: []engine.Step{settled("w")}, Scope: "a", Fence: e.fenceOf(c, other)})[0]
			if !errors.Is(r.Err, store.ErrFenced) {
				e.Errorf("a step under the fence of another shard: %v, want fenced", r.Err)
			}
			f := e.fenceOf(c, "a")
			e.write(store.Entry{Steps: []engine.Step{settled("w")}, Scope: "a", Fence: f}) // now in force
			f.Token++
			if err := e.s.SaveStates(e.Context(), f, nil, 1); !errors.Is(err, store.ErrFenced) {
				e.Errorf("states under a token that nobody was given: %v, want fenced", err)
			}
		}},
		{"ARowIsWrittenUnderTheFence", func(e *env) {
			one := e.claim("one")
			write := func(f store.Fence, value string) error {
				return e.append(store.Entry{Fence: f, Puts: []store.Put{{Space: "x", Key: "k", Value: []byte(value)}}})[0].Err
			}
			if err := write(one.Fences[7], "one"); err != nil {
				e.Fatal(err)
			}
			e.release("one")
			two := e.claim("two")
			if err := write(one.Fences[7], "late"); !errors.Is(err, store.ErrFenced) {
				e.Errorf("a row under a fence that another has taken: %v, want fenced", err)
			}
			if err := write(two.Fences[7], "two"); err != nil {
				e.Error(err)
			}
			if v, err := e.s.Row(e.Context(), "x", "k"); err != nil || string(v) != "two" {
				e.Errorf("the row is %q, %v", v, err)
			}
		}},
		{"EachShardHasACheckpoint", func(e *env) {
			one := e.claim("one")
			f, other := one.Fences[7], one.Fences[8]
			e.save(f, 5, state("a", 5, "five"))
			e.same("checkpoint", e.checkpoint(f), engine.Position(5))
			e.same("checkpoint of another shard", e.checkpoint(other), engine.Position(0))
			e.save(f, 4)
			e.same("checkpoint after an earlier one", e.checkpoint(f), engine.Position(5))
			e.release("one")
			e.same("the next owner's", e.checkpoint(e.claim("two").Fences[7]), engine.Position(5))
		}},
		{"AClaimSaysWhoAndForHowLong", func(e *env) {
			leases := e.s.(store.Leases) //nolint:forcetypeassert // RunLeases has looked
			if _, err := leases.Claim(e.Context(), "", leaseTTL); !errors.Is(err, store.ErrInvalid) {
				e.Errorf("a claim of nobody: %v, want invalid", err)
			}
			if _, err := leases.Claim(e.Context(), "one", 0); !errors.Is(err, store.ErrInvalid) {
				e.Errorf("a claim for no time: %v, want invalid", err)
			}
		}},
		{"ClaimsAtOnceNeverShareAShard", claimsAtOnceNeverShareAShard},
	}
}

func theTokenGivesTheRightToWrite(e *env) {
	f := e.fenceOf(e.claim("one"), "a")
	r := e.write(store.Entry{Steps: []engine.Step{settled("w1")}, Scope: "a", Fence: f})[0]
	e.clock.Set(start + 2*engine.Time(leaseTTL.Milliseconds()))
	taken := e.claim("two")
	if taken.Head != r.Last {
		e.Errorf("the head of the take-over is %d, and the last step stands at %d", taken.Head, r.Last)
	}
	late := store.Entry{Steps: []engine.Step{settled("w2")}, Scope: "a", Fence: f, After: r.Last}
	if r := e.append(late)[0]; !errors.Is(r.Err, store.ErrFenced) {
		e.Errorf("a step of the owner before: %v, want fenced", r.Err)
	}
	if err := e.s.SaveStates(e.Context(), f, []store.StateRow{state("a", 1, "")}, 1); !errors.Is(err, store.ErrFenced) {
		e.Errorf("states of the owner before: %v, want fenced", err)
	}
	now := e.fenceOf(taken, "a")
	late.Fence = now
	e.write(late)
	e.save(now, 2, state("a", 2, "two"))
	e.write(entry("a")) // producers need no fence
}

func claimsAtOnceNeverShareAShard(e *env) {
	const replicas = 4
	for range 5 {
		var done sync.WaitGroup
		for i := range replicas {
			done.Go(func() {
				for range 5 {
					if _, err := e.s.(store.Leases).Claim(e.Context(), fmt.Sprint("r", i), leaseTTL); err != nil { //nolint:forcetypeassert // RunLeases has looked
						e.Errorf("claim: %v", err)
					}
				}
			})
		}
		done.Wait()
		held := make([]store.Claimed, replicas)
		for range 2 { // what one gives back another takes in its next turn
			for i := range held {
				held[i] = e.claim(fmt.Sprint("r", i))
			}
		}
		if n := e.apart(held...); n != engine.Shards {
			e.Errorf("%d shards are held, of %d", n, engine.Shards)
		}
		e.release("r0")
	}
}
