package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"attend/internal/engine"
	"attend/internal/store"
)

const (
	// writeTimeout ends a write that the server does not answer.
	writeTimeout = 30 * time.Second
	// writeAttempts is how often a group is tried that the server refused for a
	// reason that passes: another time it would have gone through.
	writeAttempts = 3
)

// A writer's transaction begins with these. Read committed is what gives the
// statements after them a younger snapshot than the wait for the head. A
// replica that stops in the middle loses the head after a while, and where the
// database was told to commit in memory, the log is committed to disk all the
// same.
const (
	begin    = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
	takeHead = "SELECT " + settings + " FROM @head FOR UPDATE"
	settings = "set_config('idle_in_transaction_session_timeout', '5s', true)," +
		" CASE WHEN current_setting('synchronous_commit') = 'off' THEN set_config('synchronous_commit', 'on', true) END"
)

// queueHead puts the beginning of a transaction into a batch of statements.
func queueHead(n names, out *pgx.Batch) {
	out.Queue(begin)
	out.Queue(n.sql(takeHead))
}

// writer is the one goroutine that writes: it takes what is waiting and
// commits it as a group. It waits for no company: while one group is being
// committed, the next one gathers.
type writer struct {
	queue   *queue
	tail    *tail
	clock   *clock
	log     *slog.Logger
	tables  *tables
	channel string
	pool    *pgxpool.Pool
	kick    func() // has the follower look at once

	importing atomic.Bool // an import is not finished: nothing else is written

	onCommit func() // before a commit is sent, in tests
	failing  bool   // the last write failed, and somebody was told
	done     chan struct{}
}

// run works until the queue is closed and empty.
func (w *writer) run(ctx context.Context) {
	defer close(w.done)
	for {
		g := w.queue.take()
		if g == nil {
			return
		}
		w.write(ctx, g)
	}
}

// write commits a group, and answers each of its entries.
func (w *writer) write(ctx context.Context, g *group) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	var v *verdict
	var err error
	for range writeAttempts {
		v, err = w.attempt(ctx, g)
		if err == nil || !passing(err) {
			break
		}
	}
	if err != nil {
		err = w.failed(err)
		for _, p := range g.entries {
			p.settle(store.Receipt{Err: store.Describe("append", err)})
		}
		return
	}
	w.succeeded()
	for i, p := range v.refused {
		p.settle(store.Receipt{Err: store.Describe("append", v.errs[i])})
	}
	if v.batch == nil {
		return
	}
	if len(v.batch.records) > 0 && !w.tail.add(v.batch.records) {
		w.kick()
	}
	for _, p := range v.batch.entries {
		p.settle(*p.receipt)
	}
}

// verdict is what became of a group.
type verdict struct {
	batch   *batch // what was written, nil for nothing
	refused []*pending
	errs    []error // of the refused
}

func (v *verdict) refuse(p *pending, err error) {
	v.refused, v.errs = append(v.refused, p), append(v.errs, err)
}

// attempt writes a group in one transaction. With an error nothing is known of
// it, unless aborted says so.
func (w *writer) attempt(ctx context.Context, g *group) (v *verdict, err error) {
	v = new(verdict)
	entries := make([]*pending, 0, len(g.entries))
	for _, p := range g.entries {
		err := p.call.ended()
		if why := w.tables.replaced.Load(); why != nil {
			return nil, *why
		}
		if err == nil && w.importing.Load() {
			err = store.ErrImporting
		}
		if err != nil {
			v.refuse(p, err)
		} else {
			entries = append(entries, p)
		}
	}
	if len(entries) == 0 {
		return v, nil
	}
	want := w.tables.expect()
	conn, err := w.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { release(conn, err) }()
	out := new(pgx.Batch)
	if g.compares {
		if entries, err = w.compare(ctx, conn.Conn(), want, entries, v); err != nil {
			return nil, err
		}
		if len(entries) == 0 {
			_, err = conn.Exec(ctx, "ROLLBACK")
			return v, err
		}
	} else {
		queueHead(w.tables.names, out)
	}
	b := newBatch(entries, g.records)
	var base, stamp int64
	b.queue(w.tables.names, w.channel, out, w.clock, want, &base, &stamp)
	out.Queue("COMMIT").Exec(committed)
	if w.onCommit != nil {
		w.onCommit()
	}
	if err := conn.SendBatch(ctx, out).Close(); err != nil {
		return nil, fmt.Errorf("write: %w", w.tables.guarded(want, err))
	}
	b.written(engine.Position(base), engine.Time(stamp))
	w.clock.observeStamp(engine.Time(stamp))
	v.batch = b
	return v, nil
}

// committed sees that a COMMIT did not roll back.
func committed(tag pgconn.CommandTag) error {
	if tag.String() != "COMMIT" {
		return fmt.Errorf("commit: the server answered %s", tag)
	}
	return nil
}

// release gives a connection back; after an error it is closed first, so that
// nothing of a half-done transaction outlives the failure, and another
// connection may reach another server.
func release(conn *pgxpool.Conn, err error) {
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		_ = conn.Conn().Close(ctx)
		cancel()
	}
	conn.Release()
}

// passing reports whether a failure is known to have left nothing behind, and
// may be gone the next time: the server rolled back to let another through, or
// nothing was sent, or the server no longer writes and another may.
func passing(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		switch refused.Code {
		case "40001", "40P01", "25006": // serialization failure, deadlock, read-only transaction
			return refused.SeverityUnlocalized == "ERROR"
		}
		return false
	}
	return pgconn.SafeToRetry(err)
}

// failed tells, once, that the store cannot write.
func (w *writer) failed(err error) error {
	if errors.Is(err, store.ErrReplaced) {
		return err // whoever hears of it ends the daemon, and says why
	}
	if !w.failing {
		w.failing = true
		w.log.Error("the store cannot write; every write is tried anew", "error", err)
	}
	w.kick() // the commit may have been made
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

func (w *writer) succeeded() {
	if w.failing {
		w.failing = false
		w.log.Info("the store writes again")
	}
}
