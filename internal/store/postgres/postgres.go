// Package postgres is a store in a PostgreSQL database, for one daemon or for
// many replicas of it.
//
// # One log, many writers
//
// Whoever appends holds the one row of the table head, FOR UPDATE, until its
// commit. The statement that takes it is one of its own: the statements behind
// it see, by their younger snapshot, everything that was committed while it
// waited. So positions have no gaps, the order of commits is the order of
// positions, and whoever sees a position sees all before it. Each replica
// gathers what its producers append while a commit is on its way and writes it
// as the next group, so the row changes hands once a group.
//
// # Comparisons
//
// What the owner of a scope and the writer of a Field compare (the token of the
// shard, the scope's last step, what is not applied, the Field's last change)
// is read behind the head in the same turn of the server, and what passes is
// written in a second one. A group that compares nothing is one turn.
//
// # One clock
//
// Stamps are the database's clock_timestamp() under the head, never less than
// the stamp before. Now is an estimate of that clock. Leases end by it too.
//
// # Failures
//
// A connection on which something failed is closed. When an answer is lost
// behind a COMMIT nobody knows whether it was made: the callers get
// store.ErrUnavailable, and nothing is written twice. What the server is known
// to have rolled back for another's sake is tried again. A server that only
// reads is as good as none: with several hosts in the address the next one is
// tried.
//
// # Poolers
//
// A pooler may give each transaction another connection: no setting outlives
// its transaction, and where a pooler stands between, no statement is prepared
// by name (default_query_exec_mode in the address decides otherwise). LISTEN
// needs a connection of its own; where that cannot be had, or nothing is heard
// on it, the log is looked at ten times a second.
package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/store"
)

// Options of a store. The zero value is ready for use on tables that are there.
type Options struct {
	Prefix     string                // of the tables: lowercase letters, digits and underscores; "" is the address's (prefix=), or DefaultPrefix
	Migrate    bool                  // makes the tables, or brings them up to date; else the user needs only to SELECT, INSERT, UPDATE and DELETE
	Logger     *slog.Logger          // nil logs nothing
	Registerer prometheus.Registerer // for the store's metrics; nil measures for nobody

	// Now is a clock in place of the database's, for tests: replicas of one
	// database must share it.
	Now func() time.Time

	// For tests.
	tailRecords int    // in place of tailRecords
	onCommit    func() // before a group's last turn is sent
}

// Store is a store.Store, and store.Leases, in a PostgreSQL database. Use Open.
type Store struct {
	*tables
	pool     *pgxpool.Pool // for what needs no group
	clock    *clock
	metrics  *store.Metrics
	writer   *writer
	follower *follower
	close    func() error // once
}

var (
	_ store.Store  = (*Store)(nil)
	_ store.Leases = (*Store)(nil)
)

// Open opens the store in the database at the address: a URL
// (postgres://user@host/database?search_path=app) or a list of key=value. Of
// its own parameters, prefix names the tables and listen=off does without
// LISTEN; pool_max_conns bounds the connections that read (4), beside which
// there are one that writes and one that listens. The connection's search_path
// says in which schema the tables are.
//
// It fails with a *SchemaError when the tables are missing or of another
// schema. The context bounds the opening alone.
func Open(ctx context.Context, address string, o Options) (_ *Store, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.tailRecords == 0 {
		o.tailRecords = tailRecords
	}
	t, err := parse(address, o.Prefix)
	if err != nil {
		return nil, err
	}
	if err := t.inspect(ctx, o.Migrate); err != nil {
		return nil, err
	}
	// The pools live on when the opening has ended.
	alive := context.WithoutCancel(ctx)
	reads, err := t.connect(alive, 0)
	if err != nil {
		return nil, err
	}
	writes, err := t.connect(alive, 1)
	if err != nil {
		reads.Close()
		return nil, err
	}
	s, err := start(ctx, t, reads, writes, &o)
	if err != nil {
		reads.Close()
		writes.Close()
		return nil, err
	}
	s.follower.start(alive)
	go s.writer.run(alive)
	return s, nil
}

// start reads what the store knows and puts its parts together. None of them
// runs yet.
func start(ctx context.Context, t *target, reads, writes *pgxpool.Pool, o *Options) (*Store, error) {
	s := &Store{pool: reads, tables: &tables{db: reads, names: t.names, tail: newTail(0, o.tailRecords)}}
	var format int
	var importing bool
	if err := reads.QueryRow(ctx, t.names.sql("SELECT epoch, format, importing FROM @head")).Scan(&s.epoch, &format, &importing); err != nil {
		return nil, fmt.Errorf("read the head: %w", err)
	}
	if importing {
		return nil, store.ErrImporting
	}
	if err := engine.CheckFormat(format); err != nil {
		return nil, err
	}
	// Channels are the database's, whatever the schema: the epoch is the log's.
	channel := "attend_" + strings.ToLower(s.epoch)
	s.clock = newClock()
	s.follower = &follower{
		tables: s.tables, tail: s.tail, clock: s.clock, log: o.Logger, target: t, channel: channel,
		kicks: make(chan struct{}, 1),
	}
	position, stamp, err := s.follower.end(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the end of the log: %w", err)
	}
	s.tail.restart(position)
	if o.Now != nil {
		s.clock.fixed = store.NewClock(o.Now, stamp)
	}
	s.metrics, err = store.NewMetrics(o.Registerer, func() engine.Position { known, _ := s.tail.end(); return known })
	if err != nil {
		return nil, err
	}
	s.writer = &writer{
		queue: newQueue(), tail: s.tail, clock: s.clock, log: o.Logger, tables: s.tables, channel: channel,
		pool: writes, kick: s.follower.kick, onCommit: o.onCommit, done: make(chan struct{}),
	}
	s.close = sync.OnceValue(s.shut)
	return s, nil
}

// Now estimates the time of the database's clock. It never falls.
func (s *Store) Now() time.Time { return s.clock.read() }

// Close writes what waits and gives the connections back. It releases no
// leases. Calls afterwards fail with store.ErrClosed.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	s.writer.queue.close()
	<-s.writer.done
	s.tables.closed.Store(true)
	s.tail.close()
	s.follower.stop()
	s.writer.pool.Close()
	s.pool.Close()
	return nil
}
