package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
)

// TestReplaced_ByARestore brings the server back as it was before, under a
// store that goes on.
func TestReplaced_ByARestore(t *testing.T) {
	server := cluster(t)
	do := func(steps ...func() error) {
		t.Helper()
		for _, step := range steps {
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop := func() error { return server.Stop("fast") }
	s := open(t, server.URL(), postgres.Options{Migrate: true})
	write(t, s, one("a", "kept"))
	do(stop, server.Keep, server.Start)
	until(t, "it writes again", func() bool {
		rs, err := s.Append(t.Context(), one("a", "lost"))
		return err == nil && rs[0].Err == nil
	})
	do(stop, server.Restore, server.Start)
	until(t, "the store says that the log was replaced", func() bool {
		rs, err := s.Append(t.Context(), one("a", "after"))
		if err == nil && rs[0].Err == nil {
			t.Fatalf("it was acknowledged at %d", rs[0].Last)
		}
		return errors.Is(err, store.ErrReplaced)
	})
	again := open(t, server.URL(), postgres.Options{})
	if log := read(t, again, 0); len(log) != 1 || log[0].Event.ID != "kept" {
		t.Errorf("the log is %v", log)
	}
}

// Another replica may have written past what this one knew before it looks.
func TestReplaced_ByALogThatHasGrownAgain(t *testing.T) {
	address := servers.Database(t)
	s := open(t, address, postgres.Options{Migrate: true})
	write(t, s, one("a", "1"))
	if _, err := s.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	value[int](t, address, "UPDATE attend_events SET stamp = stamp + 1 RETURNING 1")
	if _, err := s.Head(t.Context()); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("another record stands where the last one stood: %v, want replaced", err)
	}
}

// fallBack takes records off the end of the log behind the stores' backs.
func fallBack(t *testing.T, address string) {
	t.Helper()
	value[int](t, address, "WITH gone AS (DELETE FROM attend_events WHERE position > 1 RETURNING 1) SELECT count(*) FROM gone")
}

func TestReplaced_StopsEverything(t *testing.T) {
	put := store.Entry{Puts: []store.Put{{Space: store.SpaceConsumer, Key: "k", Value: []byte("v")}}}
	change := store.Entry{Field: &store.FieldAppend{Name: "f", Changes: []store.FieldChange{{Format: 1, Body: []byte("{}")}}}}
	appends := func(e store.Entry) func(context.Context, *postgres.Store, store.Fence) error {
		return func(ctx context.Context, s *postgres.Store, _ store.Fence) error {
			rs, err := s.Append(ctx, e)
			if err == nil {
				err = rs[0].Err
			}
			return err
		}
	}
	replaced := map[string]func(t *testing.T, address string){
		"Earlier": fallBack,
		"Another": func(t *testing.T, address string) {
			value[string](t, address, "UPDATE attend_head SET epoch = 'ANOTHER' RETURNING epoch")
		},
	}
	for by, replace := range replaced {
		for name, call := range map[string]func(context.Context, *postgres.Store, store.Fence) error{
			"Append":      appends(one("a", "x")),
			"AppendPut":   appends(put),
			"AppendField": appends(change),
			"AppendOwned": func(ctx context.Context, s *postgres.Store, f store.Fence) error {
				return appends(step("a", f, 0))(ctx, s, f)
			},
			"Head": func(ctx context.Context, s *postgres.Store, _ store.Fence) error { _, err := s.Head(ctx); return err },
			"Claim": func(ctx context.Context, s *postgres.Store, _ store.Fence) error {
				_, err := s.Claim(ctx, "one", time.Minute)
				return err
			},
			"SaveStates":   func(ctx context.Context, s *postgres.Store, f store.Fence) error { return s.SaveStates(ctx, f, nil, 1) },
			"AnIdleReader": func(ctx context.Context, s *postgres.Store, _ store.Fence) error { return s.Wait(ctx, 1000) },
		} {
			t.Run(by+"/"+name, func(t *testing.T) {
				address := servers.Database(t)
				s := open(t, address, postgres.Options{Migrate: true})
				c := claim(t, s, "one", time.Minute)
				write(t, s, one("a", "1"))
				write(t, s, one("a", "2"))
				replace(t, address)
				if err := call(t.Context(), s, c.Fences[engine.Shard("a")]); !errors.Is(err, store.ErrReplaced) {
					t.Errorf("it answers %v, want replaced", err)
				}
				if n := value[int](t, address, "SELECT (SELECT count(*) FROM attend_rows) + (SELECT count(*) FROM attend_fields) + (SELECT count(*) FROM attend_steps) + (SELECT max(checkpoint) FROM attend_shards)"); n != 0 {
					t.Errorf("%d things were written all the same", n)
				}
				// From then on nothing is answered, not even from memory.
				if _, err := s.Read(t.Context(), 0, 10); !errors.Is(err, store.ErrReplaced) {
					t.Errorf("a read answers %v, want replaced", err)
				}
				if err := s.Release(t.Context(), "one"); err != nil {
					t.Errorf("the leases cannot be released: %v", err)
				}
			})
		}
	}
}
