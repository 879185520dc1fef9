package postgres_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/postgres/pgtest"
)

// TestCompact_IsToldByWhatIsRead: a replica that finds records missing, since
// another one has deleted them, tells so by the marks from then on.
func TestCompact_IsToldByWhatIsRead(t *testing.T) {
	address := servers.Database(t)
	a := open(t, address, postgres.Options{Migrate: true})
	for range 10 {
		write(t, a, one("a", "1"))
	}
	// The other holds none of it in memory, and has not looked since.
	b := open(t, pgtest.With(t, address, "listen=off"), postgres.Options{})
	c := claim(t, a, "one", time.Minute)
	for _, f := range c.Fences {
		if err := a.SaveStates(t.Context(), f, nil, 10); err != nil {
			t.Fatal(err)
		}
	}
	done, err := a.Compact(t.Context(), c.Fences[0], store.Compaction{Events: 6, Steps: 6, Limit: 100})
	if err != nil || done.Events != 6 {
		t.Fatalf("compact: %+v, %v", done, err)
	}
	rs, err := b.Read(t.Context(), 0, 100)
	if err != nil || len(rs) != 4 || rs[0].Position != 7 {
		t.Fatalf("read: %d records, %v", len(rs), err)
	}
	if k, err := b.Kept(t.Context()); err != nil || k.Events != 6 || k.Steps != 6 {
		t.Errorf("the marks behind it: %+v, %v", k, err)
	}
}

// TestCompact_BesideClaimsAndAppends: all of them take the head and shards, and
// none waits for another that waits for it.
func TestCompact_BesideClaimsAndAppends(t *testing.T) {
	address := servers.Database(t)
	a, b := open(t, address, postgres.Options{Migrate: true}), open(t, address, postgres.Options{})
	for range 200 {
		write(t, a, one("a", "1"))
	}
	c := claim(t, a, "one", time.Minute)
	for _, f := range c.Fences {
		if err := a.SaveStates(t.Context(), f, nil, 200); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	group.Go(func() {
		for p := engine.Position(10); p <= 200; p += 10 {
			if _, err := a.Compact(t.Context(), c.Fences[3], store.Compaction{Events: p, Steps: p, Limit: 10}); err != nil {
				t.Errorf("compact: %v", err)
			}
		}
	})
	group.Go(func() {
		for range 20 {
			claim(t, b, "one", time.Minute)
		}
	})
	group.Go(func() {
		for range 20 {
			write(t, b, one("a", "2"))
			if err := b.SaveStates(t.Context(), c.Fences[3], nil, 200); err != nil {
				t.Errorf("save: %v", err)
			}
		}
	})
	group.Wait()
	if rs := read(t, b, 200); len(rs) != 20 || rs[0].Position != 201 {
		t.Errorf("%d records behind what was deleted", len(rs))
	}
}

// TestImport_ThatIsNotFinishedIsNoStore for another replica either.
func TestImport_ThatIsNotFinishedIsNoStore(t *testing.T) {
	address := servers.Database(t)
	s := open(t, address, postgres.Options{Migrate: true})
	if err := s.BeginImport(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := refused(t, address, postgres.Options{}); !errors.Is(err, store.ErrImporting) {
		t.Errorf("open: %v", err)
	}
	if err := s.FinishImport(t.Context(), store.ImportEnd{}); err != nil {
		t.Fatal(err)
	}
	write(t, open(t, address, postgres.Options{}), one("a", "1"))
}
