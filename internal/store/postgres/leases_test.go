package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/storetest"
)

// TestShare checks what a replica gives and takes, whoever holds what.
func TestShare(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"a", "b", "c", "d"}
		alive := rapid.IntRange(1, len(names)).Draw(rt, "alive")
		dead := make(map[string]bool)
		for _, n := range names[alive:] {
			dead[n] = true
		}
		owners := rapid.SliceOfN(rapid.SampledFrom(append([]string{""}, names...)), engine.Shards, engine.Shards).Draw(rt, "owners")
		turn := func(n string) {
			before := slices.Clone(owners)
			give, take := postgres.Share(owners, dead, n, alive)
			for _, s := range give {
				if before[s] != n {
					rt.Fatalf("%s gives shard %d of %q", n, s, before[s])
				}
				owners[s] = ""
			}
			for _, s := range take {
				if o := before[s]; o != "" && !dead[o] {
					rt.Fatalf("%s takes shard %d of %q, who is alive", n, s, o)
				}
				owners[s] = n
			}
			held := 0
			for _, o := range owners {
				if o == n {
					held++
				}
			}
			if fair := (engine.Shards + alive - 1) / alive; held > fair {
				rt.Fatalf("%s holds %d shards, more than %d", n, held, fair)
			}
		}
		for range 2 { // whoever has too many has given by the end of the first round
			for _, n := range names[:alive] {
				turn(n)
			}
		}
		for s, o := range owners {
			if o == "" || dead[o] {
				rt.Fatalf("shard %d is nobody's: %q", s, o)
			}
		}
	})
}

// TestLeases runs the suite of leases.
func TestLeases(t *testing.T) {
	open, _ := fresh(t, servers.Database(t))
	storetest.RunLeases(t, open)
}

// holdings has replicas claim in turn, and tells how many shards each holds.
func holdings(t *testing.T, s store.Leases, names ...string) (held []int) {
	t.Helper()
	all := make(map[int]string)
	for _, n := range names {
		c := claim(t, s, n, time.Minute)
		if c.Replicas != len(names) {
			t.Errorf("%d replicas are alive, want %d", c.Replicas, len(names))
		}
		held = append(held, len(c.Fences))
		for _, f := range c.Fences {
			if other, ok := all[f.Shard]; ok {
				t.Errorf("%s and %s hold shard %d", n, other, f.Shard)
			}
			all[f.Shard] = n
		}
	}
	return held
}

func TestLeases_AreSharedOutAnew(t *testing.T) {
	clock := storetest.NewClock(1_760_000_000_000)
	s := open(t, servers.Database(t), postgres.Options{Migrate: true, Now: clock.Now})
	settle := func(want []int, names ...string) {
		t.Helper()
		for _, n := range names { // each is heard of
			claim(t, s, n, time.Minute)
		}
		holdings(t, s, names...) // who has too many gives
		if got := holdings(t, s, names...); !slices.Equal(got, want) {
			t.Errorf("%v hold %v, want %v", names, got, want)
		}
	}
	settle([]int{256}, "a")
	settle([]int{86, 86, 84}, "a", "b", "c")
	// One goes in an orderly way: its shards are free at once.
	if err := s.Release(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	settle([]int{128, 128}, "a", "c")
	// One dies: its shards are free when its lease is out, by the store's clock.
	clock.Set(1_760_000_000_000 + 59_999)
	if c := claim(t, s, "a", time.Minute); len(c.Fences) != 128 || c.Replicas != 2 {
		t.Errorf("before the lease of c is out: %d shards, %d replicas", len(c.Fences), c.Replicas)
	}
	clock.Set(1_760_000_000_000 + 60_000)
	before := claim(t, s, "a", time.Minute)
	if len(before.Fences) != 256 || before.Replicas != 1 {
		t.Errorf("after it: %d shards, %d replicas", len(before.Fences), before.Replicas)
	}
	// A lease that is out stays its owner's until somebody takes it.
	clock.Set(1_760_000_000_000 + 600_000)
	if after := claim(t, s, "a", time.Minute); !slices.Equal(after.Fences, before.Fences) {
		t.Error("tokens changed though no shard changed hands")
	}
	if err := s.Release(t.Context(), "nobody"); err != nil {
		t.Errorf("release of a replica that is not known: %v", err)
	}
}

// TestLeases_ATakeOverFencesTheOwnerBefore: what the owner of before still has
// on its way is refused, and all that it wrote stands at or before the head of
// the claim.
func TestLeases_ATakeOverFencesTheOwnerBefore(t *testing.T) {
	clock := storetest.NewClock(1_760_000_000_000)
	address := servers.Database(t)
	a, b := open(t, address, postgres.Options{Migrate: true, Now: clock.Now}), open(t, address, postgres.Options{Now: clock.Now})
	shard := engine.Shard("room")
	mine := claim(t, a, "a", time.Minute).Fences[shard]
	last := write(t, a, step("room", mine, 0)).Last
	if err := a.SaveStates(t.Context(), mine, []store.StateRow{{Scope: "room", Position: last, Format: engine.Format}}, last); err != nil {
		t.Fatal(err)
	}
	clock.Set(1_760_000_000_000 + 70_000)
	// Out, and nobody has taken it: it writes on.
	last = write(t, a, step("room", mine, last)).Last

	var group sync.WaitGroup
	ended := make(chan engine.Position, 1)
	group.Go(func() { // writes until it is fenced
		after := last
		for {
			rs, err := a.Append(t.Context(), step("room", mine, after))
			if err != nil || rs[0].Err != nil {
				if !errors.Is(rs[0].Err, store.ErrFenced) {
					t.Errorf("append: %+v, %v", rs, err)
				}
				ended <- after
				return
			}
			after = rs[0].Last
		}
	})
	c := claim(t, b, "b", time.Minute)
	group.Wait()
	if wrote := <-ended; c.Head < wrote {
		t.Errorf("the claim's head is %d, and the owner before wrote at %d", c.Head, wrote)
	}
	if got := read(t, b, 0); engine.Position(len(got)) < c.Head {
		t.Errorf("%d records can be read, the head was %d", len(got), c.Head)
	}
	if err := a.SaveStates(t.Context(), mine, nil, 1); !errors.Is(err, store.ErrFenced) {
		t.Errorf("states of the owner before: %v", err)
	}
	theirs := c.Fences[shard]
	if theirs.Token <= mine.Token {
		t.Errorf("token %d after %d", theirs.Token, mine.Token)
	}
	if at, err := b.Checkpoint(t.Context(), theirs); err != nil || at == 0 {
		t.Errorf("the checkpoint: %d, %v", at, err)
	}
	steps, err := b.Steps(t.Context(), store.StepQuery{Scope: "room"})
	if err != nil {
		t.Fatal(err)
	}
	write(t, b, step("room", theirs, steps[len(steps)-1].Position))
}

func TestLeases_ByManyAtOnce(t *testing.T) {
	address := servers.Database(t)
	var group sync.WaitGroup
	fences := make([][]store.Fence, 4)
	for i := range fences {
		s := open(t, address, postgres.Options{Migrate: true})
		group.Go(func() {
			for range 5 {
				fences[i] = claim(t, s, fmt.Sprint(i), time.Minute).Fences
			}
		})
	}
	group.Wait()
	s := open(t, address, postgres.Options{})
	if got := holdings(t, s, "0", "1", "2", "3"); !slices.Equal(got, []int{64, 64, 64, 64}) {
		holdings(t, s, "0", "1", "2", "3")
		if got = holdings(t, s, "0", "1", "2", "3"); !slices.Equal(got, []int{64, 64, 64, 64}) {
			t.Errorf("they hold %v", got)
		}
	}
}

func TestLeases_RefuseWhatBreaksTheContract(t *testing.T) {
	s := open(t, servers.Database(t), postgres.Options{Migrate: true})
	if _, err := s.Claim(t.Context(), "", time.Minute); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a replica without a name: %v", err)
	}
	if _, err := s.Claim(t.Context(), "a", 0); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("a lease of no time: %v", err)
	}
	if _, err := s.Own(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("one owner for all: %v", err)
	}
	if err := s.SaveStates(t.Context(), store.Fence{Shard: -1, Token: 1}, nil, 0); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the fence of one owner for all: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Claim(ended, "a", time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Claim(t.Context(), "a", time.Minute); !errors.Is(err, store.ErrClosed) {
		t.Errorf("a closed store: %v", err)
	}
	if err := s.Release(t.Context(), "a"); !errors.Is(err, store.ErrClosed) {
		t.Errorf("release on a closed store: %v", err)
	}
}
