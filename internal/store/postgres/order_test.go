package postgres_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/postgres/pgtest"
)

// until asks for a truth until it is one.
func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to that: %s", what)
		}
	}
}

// append appends one entry, which may not be refused.
func write(t testing.TB, s store.Log, e store.Entry) store.Receipt {
	t.Helper()
	rs, err := s.Append(t.Context(), e)
	if err != nil || rs[0].Err != nil {
		t.Errorf("append: %+v, %v", rs, err)
		return store.Receipt{}
	}
	return rs[0]
}

func one(scope, id string) store.Entry {
	return store.Entry{Events: []store.NewEvent{event(scope, id)}}
}

// call is the owner's first step in a scope.
func step(scope string, f store.Fence, after engine.Position) store.Entry {
	return store.Entry{Scope: scope, Fence: f, After: after, Steps: []engine.Step{{Kind: engine.StepCall, Window: "w", Call: &engine.Call{Attempt: 1}}}}
}

// claim takes shards.
func claim(t testing.TB, s store.Leases, replica string, ttl time.Duration) store.Claimed {
	t.Helper()
	c, err := s.Claim(t.Context(), replica, ttl)
	if err != nil {
		t.Fatalf("claim: %v", err)
	}
	return c
}

// TestAppend_NoCommitHidesBehindAPositionThatWasRead forces the interleaving
// that loses records where positions are drawn before commits are ordered: one
// writer has taken its place and stands still before its commit, another one
// comes, and a reader looks meanwhile. Here the second waits for the first.
func TestAppend_NoCommitHidesBehindAPositionThatWasRead(t *testing.T) {
	address := servers.Database(t)
	holding, goOn := make(chan struct{}), make(chan struct{})
	var hold sync.Once
	first := open(t, address, postgres.OnCommit(postgres.Options{Migrate: true}, func() {
		hold.Do(func() { holding <- struct{}{}; <-goOn })
	}))
	second := open(t, address, postgres.Options{})
	reader := open(t, pgtest.With(t, address, "listen=off"), postgres.Options{})
	c := claim(t, second, "one", time.Minute)

	// An owner's entry is compared under the head, and written in a second turn:
	// between them the first writer stands.
	got := make([]store.Receipt, 2)
	var group sync.WaitGroup
	group.Go(func() { got[0] = write(t, first, step("a", c.Fences[engine.Shard("a")], 0)) })
	<-holding
	group.Go(func() { got[1] = write(t, second, one("b", "second")) })
	until(t, "the second waits for a lock", func() bool {
		return value[int](t, address, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1
	})
	if h, err := reader.Head(t.Context()); err != nil || h.Position != 0 {
		t.Errorf("head while nothing is committed: %+v, %v", h, err)
	}
	if rs := read(t, reader, 0); len(rs) != 0 {
		t.Errorf("the log while nothing is committed: %+v", rs)
	}
	close(goOn)
	group.Wait()
	if got[0].First != 1 || got[1].First != 2 || got[1].Stamp < got[0].Stamp {
		t.Errorf("the first stands at %+v, the second at %+v", got[0], got[1])
	}
	if err := reader.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if rs := read(t, reader, 0); len(rs) != 2 || rs[0].Scope != "a" || rs[1].Scope != "b" {
		t.Errorf("the log: %+v", rs)
	}
}

// TestAppend_AReplicaThatStopsLetsGoOfTheHead: one stands still while it holds
// the head, as in a machine that is suspended. The others go on when the server
// has ended its transaction, and what it was writing is not written.
func TestAppend_AReplicaThatStopsLetsGoOfTheHead(t *testing.T) {
	address := servers.Database(t)
	holding, goOn := make(chan struct{}), make(chan struct{})
	var hold sync.Once
	first := open(t, address, postgres.OnCommit(postgres.Options{Migrate: true}, func() {
		hold.Do(func() { holding <- struct{}{}; <-goOn })
	}))
	second := open(t, address, postgres.Options{})
	c := claim(t, second, "one", time.Minute)
	failed := make(chan error, 1)
	go func() {
		_, err := first.Append(t.Context(), step("a", c.Fences[engine.Shard("a")], 0))
		failed <- err
	}()
	<-holding
	if r := write(t, second, one("b", "second")); r.First != 1 {
		t.Errorf("the second stands at %d", r.First)
	}
	close(goOn)
	if err := <-failed; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("the first: %v, want unavailable", err)
	}
	if r := write(t, first, step("a", c.Fences[engine.Shard("a")], 0)); r.First != 2 {
		t.Errorf("once it goes on, the first stands at %d", r.First)
	}
}

// TestSaveStates_TheFirstBlockOfAPlaceCounts, also within one call.
func TestSaveStates_TheFirstBlockOfAPlaceCounts(t *testing.T) {
	s := open(t, servers.Database(t), postgres.Options{Migrate: true})
	f := claim(t, s, "one", time.Minute).Fences[engine.Shard("a")]
	row := store.StateRow{Scope: "a", Position: 1, Format: engine.Format, Blocks: []store.Block{{Seq: 1, Body: []byte("old")}}}
	for i := range 40 {
		row.Blocks = append(row.Blocks, store.Block{Seq: 9, Body: fmt.Append(nil, i)})
	}
	row.DropBlocksBefore = 2
	if err := s.SaveStates(t.Context(), f, []store.StateRow{row, row}, 0); err != nil {
		t.Fatal(err)
	}
	got, err := s.LoadState(t.Context(), "a")
	if err != nil || len(got.Blocks) != 1 || string(got.Blocks[0].Body) != "0" {
		t.Errorf("blocks %+v, %v", got.Blocks, err)
	}
}

// TestAppend_ThroughThreeStores has 32 producers append to one scope through
// three replicas, beside an owner. No producer meets a conflict, each reader
// sees one log, and what was answered before a call began stands before it.
func TestAppend_ThroughThreeStores(t *testing.T) {
	const producers, calls = 32, 20
	address := servers.Database(t)
	stores := make([]*postgres.Store, 3)
	for i := range stores {
		stores[i] = open(t, address, postgres.Options{Migrate: true})
	}
	c := claim(t, stores[0], "one", time.Minute)
	var group sync.WaitGroup
	var mu sync.Mutex
	receipts := make(map[string]engine.Position)
	var newest engine.Position // of those that were answered
	for p := range producers {
		group.Go(func() {
			for n := range calls {
				mu.Lock()
				before := newest
				mu.Unlock()
				id := fmt.Sprintf("%d-%d", p, n)
				r := write(t, stores[(p+n)%3], one("room", id))
				if r.First <= before {
					t.Errorf("event %s stands at %d, and %d was answered before it was sent", id, r.First, before)
				}
				mu.Lock()
				newest, receipts[id] = max(newest, r.First), r.First
				mu.Unlock()
			}
		})
	}
	group.Go(func() {
		var after engine.Position
		for range calls {
			after = write(t, stores[0], step("room", c.Fences[engine.Shard("room")], after)).Last
		}
	})
	logs := make([][]engine.Record, len(stores))
	for i, s := range stores {
		group.Go(func() {
			for len(logs[i]) < (producers+1)*calls && !t.Failed() {
				if err := s.Wait(t.Context(), engine.Position(len(logs[i]))); err != nil {
					t.Error(err)
					return
				}
				logs[i] = append(logs[i], read(t, s, engine.Position(len(logs[i])))...)
			}
		})
	}
	group.Wait()
	for i := range logs {
		var stamp engine.Time
		for k, r := range logs[i] {
			if r.Position != engine.Position(k+1) || r.Stamp < stamp {
				t.Fatalf("store %d: record %d stands at %d with stamp %d after %d", i, k, r.Position, r.Stamp, stamp)
			}
			stamp = r.Stamp
			if r.Event != nil && receipts[r.Event.ID] != r.Position {
				t.Fatalf("store %d: event %s stands at %d, its receipt says %d", i, r.Event.ID, r.Position, receipts[r.Event.ID])
			}
		}
	}
	if steps, err := stores[1].Steps(t.Context(), store.StepQuery{Scope: "room"}); err != nil || len(steps) != calls {
		t.Errorf("%d steps, %v", len(steps), err)
	}
}

// TestAppend_RefusesAnEntryAlone: its neighbours in the group are written, and
// what can stand in no index of Postgres is refused before it spoils a group.
func TestAppend_RefusesAnEntryAlone(t *testing.T) {
	s := open(t, servers.Database(t), postgres.Options{Migrate: true})
	c := claim(t, s, "one", time.Minute)
	long := string(slices.Repeat([]byte{0}, 3000))
	other := (engine.Shard("a") + 1) % engine.Shards
	entries := []store.Entry{
		one("a", "1"),
		step("a", store.Fence{Shard: engine.Shard("a"), Token: 99}, 0),
		step("a", store.Fence{Shard: engine.Shard("a"), Token: 0}, 0),
		step("a", c.Fences[other], 0),
		step("a", store.Fence{Shard: 4000, Token: 1}, 0),
		step("a", c.Fences[engine.Shard("a")], 5),
		{Puts: []store.Put{{Space: "x", Key: long, Value: []byte("v")}}},
		{Scope: long, Steps: []engine.Step{{Kind: engine.StepFlush}}},
		{Scope: "a", Steps: []engine.Step{{Kind: engine.StepFlush, Window: long}}},
		{Field: &store.FieldAppend{Name: long, Changes: []store.FieldChange{{Format: 1, Body: []byte("{}")}}}},
		{Events: []store.NewEvent{event(long, long)}}, // events stand in no index
		{Puts: []store.Put{{Space: "x", Key: "k", Value: []byte("v")}}, Fence: c.Fences[other]},
		step("a", c.Fences[engine.Shard("a")], 0),
	}
	rs, err := s.Append(t.Context(), entries...)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{
		nil, store.ErrFenced, store.ErrFenced, store.ErrFenced, store.ErrFenced, store.ErrConflict,
		store.ErrInvalid, store.ErrInvalid, store.ErrInvalid, store.ErrInvalid, nil, nil, nil,
	} {
		if !errors.Is(rs[i].Err, want) {
			t.Errorf("entry %d: %v, want %v", i, rs[i].Err, want)
		}
	}
	if log := read(t, s, 0); len(log) != 3 || log[1].Event.ID != long || log[2].Step == nil {
		t.Errorf("the log holds %d records", len(log))
	}
	if err := s.SaveStates(t.Context(), c.Fences[0], []store.StateRow{{Scope: long}}, 0); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("state of a long name: %v", err)
	}
}
