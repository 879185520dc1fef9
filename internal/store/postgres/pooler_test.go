package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/storetest"
)

// TestContract_ThroughAPooler runs the suite through a pooler that gives each
// transaction another connection: nothing may outlive one, a prepared statement
// least of all.
func TestContract_ThroughAPooler(t *testing.T) {
	address := servers.Database(t)
	p, through := newPooler(t, address, 3, nil)
	open, reopen := fresh(t, through)
	storetest.Run(t, open, reopen)
	if n := p.transactions.Load(); n < 1000 {
		t.Errorf("%d transactions went through the pooler", n)
	}
	for range cap(p.servers) {
		h := <-p.servers
		if n := ask(t, h, "SELECT count(*) FROM pg_prepared_statements"); n != "0" {
			t.Errorf("%s statements are prepared on a connection of the pooler", n)
		}
		p.servers <- h
	}
}

// TestStore_PreparesWhereNoPoolerIs: the statements of a group are planned
// once for each connection, which is more than half of what a small one costs.
func TestStore_PreparesWhereNoPoolerIs(t *testing.T) {
	address := servers.Database(t)
	open(t, address, postgres.Options{Migrate: true})
	if mode := postgres.ModeOf(t.Context(), t, address); mode != pgx.QueryExecModeCacheStatement {
		t.Errorf("without a pooler: %v", mode)
	}
	if mode := postgres.ModeOf(t.Context(), t, address+"&default_query_exec_mode=exec"); mode != pgx.QueryExecModeExec {
		t.Errorf("as the address says: %v", mode)
	}
	_, through := newPooler(t, address, 1, nil)
	if mode := postgres.ModeOf(t.Context(), t, through); mode != pgx.QueryExecModeCacheDescribe {
		t.Errorf("through a pooler: %v", mode)
	}
}

// TestAppend_WhoseAnswerWasLost cuts the connection when the server has
// committed and before the client hears of it.
func TestAppend_WhoseAnswerWasLost(t *testing.T) {
	armed := make(chan struct{}, 1)
	_, through := newPooler(t, servers.Database(t), 3, func(m pgproto3.BackendMessage) bool {
		c, ok := m.(*pgproto3.CommandComplete)
		if !ok || string(c.CommandTag) != "COMMIT" {
			return false
		}
		select {
		case <-armed:
			return true
		default:
			return false
		}
	})
	s := open(t, through, postgres.Options{Migrate: true})
	lose := func(e store.Entry) {
		t.Helper()
		armed <- struct{}{}
		if rs, err := s.Append(t.Context(), e); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("append: %+v, %v, want unavailable", rs, err)
		}
		if len(armed) > 0 {
			t.Fatal("no answer was lost")
		}
	}
	lose(store.Entry{Events: []store.NewEvent{event("a", "lost")}})
	// Those who wait are told of it, though nobody was told that it was made.
	if err := s.Wait(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if rs := read(t, s, 0); len(rs) != 1 || rs[0].Event.ID != "lost" {
		t.Fatalf("the log holds %+v", rs)
	}

	// An owner that tries again is told that its step stands there already.
	c, err := s.Claim(t.Context(), "one", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	step := store.Entry{Scope: "a", Steps: []engine.Step{{Kind: engine.StepCall, Window: "w", Call: &engine.Call{Attempt: 1}}}, Fence: c.Fences[engine.Shard("a")]}
	lose(step)
	rs, err := s.Append(t.Context(), step)
	if err != nil || !errors.Is(rs[0].Err, store.ErrConflict) {
		t.Fatalf("again: %+v, %v, want a conflict", rs, err)
	}
	if rs := read(t, s, 1); len(rs) != 1 || rs[0].Step == nil {
		t.Fatalf("the log holds %+v", rs)
	}
}
