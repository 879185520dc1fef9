package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/postgres/pgtest"
	"attend/internal/store/storetest"
)

// cluster is a server of the test's own, to be ended as it likes.
func cluster(t *testing.T) *pgtest.Cluster {
	t.Helper()
	c, err := pgtest.NewCluster()
	pgtest.Need(t, err)
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestAppend_WhileTheServerCrashes restarts the server the hard way, again and
// again, under producers that send anew what was not acknowledged. What was
// acknowledged is in the log, where its receipt says, and the log is whole.
func TestAppend_WhileTheServerCrashes(t *testing.T) {
	const producers, crashes = 8, 3
	server := cluster(t)
	stores := make([]*postgres.Store, 2)
	for i := range stores {
		stores[i] = open(t, server.URL(), postgres.Options{Migrate: true})
	}
	var group sync.WaitGroup
	var acknowledged, lost atomic.Int64
	var over atomic.Bool
	receipts := make([]map[string]engine.Position, producers)
	for p := range producers {
		receipts[p] = make(map[string]engine.Position)
		group.Go(func() {
			for n := 0; !over.Load(); n++ {
				id := fmt.Sprintf("%d-%d", p, n)
				rs, err := stores[p%2].Append(t.Context(), one("a", id), one("b", id+"b"))
				switch {
				case errors.Is(err, store.ErrUnavailable):
					lost.Add(1)
				case err != nil || rs[0].Err != nil || rs[1].Err != nil:
					t.Errorf("append: %+v, %v", rs, err)
					return
				default:
					receipts[p][id], receipts[p][id+"b"] = rs[0].First, rs[1].First
					acknowledged.Add(1)
				}
			}
		})
	}
	for range crashes {
		n := acknowledged.Load()
		until(t, "appends are acknowledged again", func() bool { return acknowledged.Load() > n+20 })
		if err := server.Stop("immediate"); err != nil {
			t.Fatal(err)
		}
		m := lost.Load()
		until(t, "appends fail", func() bool { return lost.Load() > m })
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
	}
	n := acknowledged.Load()
	until(t, "appends are acknowledged at the end", func() bool { return acknowledged.Load() > n+20 })
	over.Store(true)
	group.Wait()
	for i, s := range stores {
		log := read(t, s, 0)
		for k, r := range log {
			if r.Position != engine.Position(k+1) {
				t.Fatalf("store %d: record %d stands at %d", i, k, r.Position)
			}
		}
		for _, mine := range receipts {
			for id, at := range mine { //arch:sorted each is looked at alone
				if int(at) > len(log) || log[at-1].Event.ID != id {
					t.Fatalf("store %d: event %s was acknowledged at %d and is not there", i, id, at)
				}
			}
		}
	}
	// Readers that waited meanwhile hear of what comes now.
	r := write(t, stores[0], one("a", "last"))
	if err := stores[1].Wait(t.Context(), r.Last-1); err != nil {
		t.Error(err)
	}
}

// TestAppend_WhoseServerProcessIsKilled ends the writer's server process when
// the head is held and the commit is about to be sent.
func TestAppend_WhoseServerProcessIsKilled(t *testing.T) {
	address := servers.Database(t)
	var armed atomic.Bool
	s := open(t, pgtest.With(t, address, "application_name=victim", "listen=off"), postgres.OnCommit(postgres.Options{Migrate: true}, func() {
		if armed.Swap(false) {
			killed := value[int](t, address, `SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
				WHERE datname = current_database() AND application_name = 'victim' AND state = 'idle in transaction'`)
			if killed != 1 {
				t.Errorf("%d processes held the head", killed)
			}
		}
	}))
	c := claim(t, s, "one", 1e9)
	armed.Store(true)
	e := step("a", c.Fences[engine.Shard("a")], 0)
	if rs, err := s.Append(t.Context(), e); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("append: %+v, %v, want unavailable", rs, err)
	}
	if r := write(t, s, e); r.First != 1 { // nothing was written, so it still follows
		t.Errorf("the step stands at %d", r.First)
	}
}

// TestAppend_ThatAnotherTransactionBreaksIsTriedAgain: the server rolls back
// one of two that wait for each other, and whoever appends sees nothing of it.
func TestAppend_ThatTheServerRollsBackIsTriedAgain(t *testing.T) {
	address := servers.Database(t)
	s := open(t, address, postgres.Options{Migrate: true})
	exec(t, address, `CREATE SEQUENCE tries`, `CREATE FUNCTION once() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF nextval('tries') < 3 THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = 'deadlock_detected'; END IF; RETURN NULL; END $$`,
		`CREATE TRIGGER once BEFORE INSERT ON attend_rows FOR EACH STATEMENT EXECUTE FUNCTION once()`)
	e := one("a", "1")
	e.Puts = []store.Put{{Space: "x", Key: "k", Value: []byte("v")}}
	if r := write(t, s, e); r.First != 1 {
		t.Errorf("it stands at %d", r.First)
	}
	if n := value[int](t, address, "SELECT last_value FROM tries"); n != 3 {
		t.Errorf("%d tries", n)
	}
	// What does not pass is not tried for ever.
	exec(t, address, "CREATE OR REPLACE FUNCTION once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = 'disk_full'; END $$")
	if _, err := s.Append(t.Context(), e); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("a full disk: %v", err)
	}
	if log := read(t, s, 0); len(log) != 1 {
		t.Errorf("the log holds %d records", len(log))
	}
	write(t, s, one("a", "2"))
}

// TestOpen_FindsTheServerThatWrites goes on to the next host of the address.
func TestOpen_FindsTheServerThatWrites(t *testing.T) {
	address := servers.Database(t)
	s := open(t, pgtest.Set(t, address, func(u *url.URL) { u.Host = "127.0.0.1:1," + u.Host }), postgres.Options{Migrate: true})
	write(t, s, one("a", "1"))
}

// TestCommitsReachTheDisk: the log's commits wait for it where the database
// was told not to.
func TestCommitsReachTheDisk(t *testing.T) {
	address := servers.Database(t)
	exec(t, address, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET synchronous_commit = off'; END $$",
		"CREATE TABLE seen (setting text)")
	s := open(t, address, postgres.Options{Migrate: true})
	exec(t, address, `CREATE FUNCTION see() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$`,
		`CREATE TRIGGER see AFTER INSERT ON attend_events FOR EACH STATEMENT EXECUTE FUNCTION see()`)
	write(t, s, one("a", "1"))
	if got := value[string](t, address, "SELECT string_agg(setting, ' ') FROM seen"); got != "on" {
		t.Errorf("commits were made with synchronous_commit %s", got)
	}
}

// TestFaulty: the owner's work comes out right whichever call fails.
func TestFaulty(t *testing.T) {
	address := servers.Database(t)
	n := 0
	storetest.EveryCall(t, []storetest.Op{storetest.OpAppend}, func(t *testing.T, f storetest.Fault) *storetest.FaultyStore {
		n++
		s := open(t, address, postgres.Options{Prefix: fmt.Sprintf("f%d_", n), Migrate: true})
		c := claim(t, s, "one", 1e12)
		faulty := storetest.Faulty(s, f)
		var after engine.Position
		for range 3 { // steps, each after the one before, read back when that is not known
			for {
				rs, err := faulty.Append(t.Context(), step("a", c.Fences[engine.Shard("a")], after))
				if err == nil && rs[0].Err == nil {
					after = rs[0].Last
					break
				}
				steps, err := s.Steps(t.Context(), store.StepQuery{Scope: "a", After: after})
				if err != nil {
					t.Fatal(err)
				}
				if len(steps) > 0 {
					after = steps[len(steps)-1].Position
					break
				}
			}
		}
		if log := read(t, s, 0); len(log) != 3 {
			t.Errorf("%d steps were written, want 3", len(log))
		}
		return faulty
	})
}
