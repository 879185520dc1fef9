package postgres_test

import (
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/postgres/pgtest"
)

// TestWait_HearsOfOtherReplicas with notifications, and without: through a
// pooler, say.
func TestWait_HearsOfOtherReplicas(t *testing.T) {
	address := servers.Database(t)
	_, through := newPooler(t, address, 3, nil)
	from := open(t, address, postgres.Options{Migrate: true})
	for name, a := range map[string]string{"Listening": address, "Polling": pgtest.With(t, address, "listen=off"), "Pooled": through} {
		t.Run(name, func(t *testing.T) {
			to := open(t, a, postgres.Options{})
			for range 5 {
				r := write(t, from, one("a", name))
				if err := to.Wait(t.Context(), r.Last-1); err != nil {
					t.Fatal(err)
				}
				rs, err := to.Read(t.Context(), r.Last-1, 1)
				if err != nil || len(rs) != 1 || rs[0].Position != r.Last {
					t.Fatalf("after the wait: %+v, %v", rs, err)
				}
			}
		})
	}
}

// TestWait_HearsAgain after the listening connection was cut.
func TestWait_HearsAgain(t *testing.T) {
	address := servers.Database(t)
	from := open(t, address, postgres.Options{Migrate: true})
	to := open(t, address, postgres.Options{})
	const listeners = "FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
	until(t, "both listen", func() bool { return value[int](t, address, "SELECT count(*) "+listeners) == 2 })
	value[int](t, address, "SELECT count(pg_terminate_backend(pid, 10000)) "+listeners)
	for range 3 {
		r := write(t, from, one("a", "1"))
		if err := to.Wait(t.Context(), r.Last-1); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "both listen again", func() bool { return value[int](t, address, "SELECT count(*) "+listeners) == 2 })
}

// TestFollow_LooksSeldomWhereItHears: an idle replica asks the database once a
// second, not ten times, though nothing is ever committed.
func TestFollow_LooksSeldomWhereItHears(t *testing.T) {
	address := servers.Database(t)
	hearing := open(t, address, postgres.Options{Migrate: true})
	until(t, "it hears", func() bool { return postgres.Hears(hearing) })
	deaf := open(t, pgtest.With(t, address, "listen=off"), postgres.Options{})
	write(t, hearing, one("a", "1"))
	if err := deaf.Wait(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if postgres.Hears(deaf) {
		t.Error("it hears without listening")
	}
}

// TestStore_ReadsItsOwnWrites through a tail that other replicas write into:
// each reads what it was answered, whatever it has followed.
func TestStore_ReadsItsOwnWrites(t *testing.T) {
	address := servers.Database(t)
	a := open(t, address, postgres.OnTail(postgres.Options{Migrate: true}, 3))
	b := open(t, pgtest.With(t, address, "listen=off"), postgres.Options{})
	for i := range 30 {
		s, other := a, b
		if i%3 == 0 {
			s, other = b, a
		}
		e := one("a", "x")
		e.Steps, e.Scope = []engine.Step{{Kind: engine.StepFlush}}, "a"
		r := write(t, s, e)
		if rs, err := s.Read(t.Context(), r.First-1, 10); err != nil || len(rs) != 2 || rs[0].Position != r.First {
			t.Fatalf("its own records at %d: %+v, %v", r.First, rs, err)
		}
		if rs, err := s.Steps(t.Context(), store.StepQuery{After: r.First}); err != nil || len(rs) != 1 {
			t.Fatalf("its own step at %d: %+v, %v", r.Last, rs, err)
		}
		if rs, err := s.Events(t.Context(), []engine.Position{r.First, 1}); err != nil || len(rs) != 2 {
			t.Fatalf("its own event at %d: %+v, %v", r.First, rs, err)
		}
		// Whoever asks another replica for the head may read up to it there.
		h, err := other.Head(t.Context())
		if err != nil || h.Position != r.Last {
			t.Fatalf("the other's head is %+v, %v; written was %d", h, err, r.Last)
		}
		if rs, err := other.Read(t.Context(), r.First-1, 10); err != nil || len(rs) != 2 {
			t.Fatalf("the other reads %+v, %v", rs, err)
		}
	}
	if log := read(t, a, 0); len(log) != 60 {
		t.Errorf("%d records", len(log))
	}
}

// TestNow_IsTheDatabasesClock: the estimate is behind it by no more than the
// way of an answer, and never ahead.
func TestNow_IsTheDatabasesClock(t *testing.T) {
	address := servers.Database(t)
	s := open(t, address, postgres.Options{Migrate: true})
	for range 20 {
		now := s.Now()
		after := value[time.Time](t, address, "SELECT clock_timestamp()")
		if now.After(after) {
			t.Errorf("it shows %s, and later the database %s", now, after)
		}
		if r := write(t, s, one("a", "1")); engine.Time(now.UnixMilli()) > r.Stamp {
			t.Errorf("it showed %d, and the stamp behind it is %d", now.UnixMilli(), r.Stamp)
		}
	}
}
