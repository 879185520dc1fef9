package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/postgres/pgtest"
	"attend/internal/store/sqlite"
	"attend/internal/store/storetest"
)

// servers is the test process's database server.
var servers pgtest.Servers

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// open opens a store, and closes it when the test has ended.
func open(t testing.TB, address string, o postgres.Options) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), address, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// read returns everything behind a position, up to the head at least: a replica
// may not have heard yet of what another one wrote.
func read(t testing.TB, s store.Log, after engine.Position) (out []engine.Record) {
	t.Helper()
	if _, err := s.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		rs, err := s.Read(t.Context(), after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(rs) == 0 {
			return out
		}
		out = append(out, rs...)
		after = rs[len(rs)-1].Position
	}
}

// fresh makes a function that opens an empty store, all of them in one
// database, under a prefix each.
func fresh(t *testing.T, address string) (storetest.Open, storetest.Option) {
	t.Helper()
	n := 0
	prefixes := make(map[store.Store]string)
	start := func(t *testing.T, prefix string, now func() time.Time) *sole {
		s, err := postgres.Open(t.Context(), address, postgres.Options{Prefix: prefix, Migrate: true, Now: now})
		if err != nil {
			t.Fatalf("open: %v", err)
		}
		one := &sole{Store: s}
		prefixes[one] = prefix
		return one
	}
	return func(t *testing.T, now func() time.Time) store.Store {
			n++
			return start(t, fmt.Sprintf("t%d_", n), now)
		}, storetest.Reopen(func(t *testing.T, s store.Store, now func() time.Time) store.Store {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			again := start(t, prefixes[s], now)
			again.claims = s.(*sole).claims
			delete(prefixes, s)
			return again
		})
}

func TestContract(t *testing.T) {
	for name, parameters := range map[string][]string{
		"Default":        nil,
		"SimpleProtocol": {"default_query_exec_mode=simple_protocol", "listen=off", "pool_max_conns=1"},
	} {
		t.Run(name, func(t *testing.T) {
			open, reopen := fresh(t, pgtest.With(t, servers.Database(t), parameters...))
			storetest.Run(t, open, reopen)
		})
	}
}

// TestDiffer makes one sequence of random calls on every store there is, and
// compares what they answer.
func TestDiffer(t *testing.T) {
	open, reopen := fresh(t, servers.Database(t))
	storetest.Differ(t, storetest.Contend("postgres", open, reopen), storetest.Contend("sqlite", openSQLite))
}

func openSQLite(t *testing.T, now func() time.Time) store.Store {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "attend.db"), sqlite.Options{Now: now, Synchronous: sqlite.SynchronousNormal})
	if err != nil {
		t.Fatalf("open sqlite: %v", err)
	}
	return s
}

// sole makes one owner out of the replicas of a store: its fence stands for
// those of all shards, as the contract of a store with one owner asks for.
type sole struct {
	*postgres.Store
	claims []store.Claimed // the n-th is behind the fence with token n
}

// Own takes every shard for a new replica.
func (s *sole) Own(ctx context.Context) (store.Fence, error) {
	replica := func(n int) string { return fmt.Sprintf("owner %d", n) }
	n := len(s.claims)
	if err := s.Release(ctx, replica(n)); err != nil {
		return store.Fence{}, err
	}
	c, err := s.Claim(ctx, replica(n+1), time.Hour)
	if err != nil {
		return store.Fence{}, err
	}
	s.claims = append(s.claims, c)
	return store.Fence{Shard: -1, Token: int64(n + 1)}, nil
}

// of is the fence of the shard that stands behind the owner's.
func (s *sole) of(f store.Fence, scope string) store.Fence {
	if f.Shard != -1 || f.Token < 1 || int(f.Token) > len(s.claims) {
		return f
	}
	return s.claims[f.Token-1].Fences[engine.Shard(scope)]
}

func (s *sole) Append(ctx context.Context, entries ...store.Entry) ([]store.Receipt, error) {
	own := make([]store.Entry, len(entries))
	for i, e := range entries {
		e.Fence = s.of(e.Fence, e.Scope)
		own[i] = e
	}
	return s.Store.Append(ctx, own...)
}

// Compact compacts under the fence of shard 0.
func (s *sole) Compact(ctx context.Context, f store.Fence, c store.Compaction) (store.Compacted, error) {
	f = s.of(f, "")
	return s.Store.Compact(ctx, f, c)
}

// DropStates drops each row under its shard.
func (s *sole) DropStates(ctx context.Context, f store.Fence, rows []store.StateAt) (dropped int, err error) {
	for _, r := range rows {
		n, err := s.Store.DropStates(ctx, s.of(f, r.Scope), []store.StateAt{r})
		if err != nil {
			return dropped, err
		}
		dropped += n
	}
	return dropped, nil
}

// SaveStates writes each row under its shard, and the checkpoint under shard 0,
// whence the others take it over.
func (s *sole) SaveStates(ctx context.Context, f store.Fence, rows []store.StateRow, checkpoint engine.Position) (err error) {
	if f.Shard != -1 || f.Token < 1 || int(f.Token) > len(s.claims) {
		return s.Store.SaveStates(ctx, f, rows, checkpoint)
	}
	fences := s.claims[f.Token-1].Fences
	defer func() { err = errors.Join(err, s.CoverAll(ctx, fences[0])) }()
	byShard := map[int][]store.StateRow{0: nil}
	for _, r := range rows {
		shard := engine.Shard(r.Scope)
		byShard[shard] = append(byShard[shard], r)
	}
	for shard, rows := range byShard { //arch:sorted each call stands alone
		at := engine.Position(0)
		if shard == 0 {
			at = checkpoint
		}
		if err := s.Store.SaveStates(ctx, fences[shard], rows, at); err != nil {
			return err
		}
	}
	return nil
}

func (s *sole) Checkpoint(ctx context.Context, f store.Fence) (engine.Position, error) {
	return s.Store.Checkpoint(ctx, store.Fence{Shard: max(f.Shard, 0)})
}
