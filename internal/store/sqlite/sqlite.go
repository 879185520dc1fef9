// Package sqlite is a store in one file, for one daemon.
//
// # How it is fast
//
// Events are plain rows in the order of their arrival. One goroutine writes
// (writer): it takes whatever waits, gives positions and one stamp, and commits
// it as a group, with one fsync. Every committed group stays in memory for a
// while (tail), so a reader that keeps up never asks the database. The WAL is
// moved into the database beside the commits, not by them (checkpoints).
//
// # What it promises
//
// What Append has answered is on disk: the journal is a WAL with synchronous
// FULL, which survives a kill of the process and the loss of power. With NORMAL
// a kill loses nothing either, but the loss of power may undo the last commits.
//
// # One daemon
//
// A lock on a file beside the database (its name with .lock) keeps a second
// daemon away. The database file itself is opened by SQLite alone, since
// closing any other handle of it would drop SQLite's locks. Reading commands
// use OpenReader, beside a running daemon too.
//
// # Failures
//
// A failed write is answered with store.ErrUnavailable, and the connection is
// thrown away: a new one reads where the log ends now, since a commit whose
// answer was lost may have been made. Every later write is tried, so the store
// writes again as soon as the disk does. Before each write it is looked whether
// the lock and the database are still the files of their names.
package sqlite

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/engine"
	"attend/internal/store"
)

// Synchronous says when a commit counts as done.
type Synchronous string

// The values of Synchronous.
const (
	SynchronousFull   Synchronous = "full"   // when it is on disk
	SynchronousNormal Synchronous = "normal" // when the system has it; it reaches the disk in order, a little later
)

// Options of a store. The zero value is ready for use.
type Options struct {
	Now         func() time.Time      // the clock behind the stamps, which never fall; nil is time.Now
	Logger      *slog.Logger          // nil logs nothing
	Registerer  prometheus.Registerer // for the store's metrics; nil measures for nobody
	Synchronous Synchronous           // "" is SynchronousFull

	// For tests.
	noCheckpoints bool // leaves everything in the WAL
	walRestart    int  // in place of walRestart
	tailRecords   int  // in place of tailRecords
	onCommit      func(commit func() error) error
}

func (o *Options) complete() error {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.walRestart == 0 {
		o.walRestart = walRestart
	}
	if o.tailRecords == 0 {
		o.tailRecords = tailRecords
	}
	switch o.Synchronous {
	case "":
		o.Synchronous = SynchronousFull
	case SynchronousFull, SynchronousNormal:
	default:
		return fmt.Errorf("synchronous is %q: want full or normal", o.Synchronous)
	}
	return nil
}

// Store is a store.Store in an SQLite database. Use Open.
type Store struct {
	*tables
	file        string
	tail        *tail
	clock       *store.Clock
	epoch       string
	metrics     *store.Metrics
	writer      *writer
	checkpoints *checkpoints
	unlock      func() error
	close       func() error // once
}

var _ store.Store = (*Store)(nil)

// Open opens the store in the file at path, and makes it when there is none.
// Its folder must exist. It fails with store.ErrLocked while another daemon
// has the store, with a *SchemaError when a newer binary has written it, and
// leaves a file that is no store as it is. The context bounds the opening
// alone.
func Open(ctx context.Context, path string, o Options) (_ *Store, err error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	file, err := locate(path)
	if err != nil {
		return nil, err
	}
	schema, err := store.Migrations(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	var undo []func() error
	defer func() {
		for i := len(undo) - 1; err != nil && i >= 0; i-- {
			_ = undo[i]()
		}
	}()
	lock, err := acquire(file + ".lock")
	if err != nil {
		return nil, err
	}
	undo = append(undo, lock.release)
	if err := create(file); err != nil {
		return nil, err
	}
	opened, err := identifyFile(file)
	if err != nil {
		return nil, err
	}
	if readableByOthers(file) {
		o.Logger.Warn("the store can be read by others than its owner: chmod 600", "file", file)
	}
	if _, err := inspect(ctx, file, len(schema)); err != nil {
		return nil, err
	}
	connect := func(ctx context.Context) (*session, error) {
		s, err := openSession(ctx, dsn(file, "rw",
			"busy_timeout(5000)", "page_size(4096)", "journal_mode(WAL)", "synchronous("+string(o.Synchronous)+")",
			"temp_store(MEMORY)", "cache_size(-16384)", "wal_autocheckpoint(0)", fmt.Sprintf("journal_size_limit(%d)", walCeiling)), schema)
		if err == nil {
			s.onCommit = o.onCommit
		}
		return s, err
	}
	session, err := connect(ctx)
	if err != nil {
		return nil, err
	}
	undo = append(undo, func() error { session.close(); return nil })
	s, err := start(ctx, session, file, &o)
	if err != nil {
		return nil, err
	}
	s.unlock, s.writer.open = lock.release, connect
	s.writer.holds = func() error {
		if err := lock.keep(); err != nil {
			return err
		}
		return stillThere(file, opened)
	}
	go s.writer.run(context.Background())
	if !o.noCheckpoints {
		s.checkpoints.start()
	}
	return s, nil
}

// start reads what the store knows and puts its parts together. None of them
// runs yet.
func start(ctx context.Context, session *session, file string, o *Options) (*Store, error) {
	epoch, token, err := session.introduce(ctx)
	if err != nil {
		return nil, err
	}
	position, stamp, err := readEnd(ctx, session.conn)
	if err != nil {
		return nil, err
	}
	kept, err := readKept(ctx, session.conn)
	if err != nil {
		return nil, err
	}
	s := &Store{file: file, epoch: epoch, tail: newTail(position, stamp, o.tailRecords), clock: store.NewClock(o.Now, stamp)}
	s.metrics, err = store.NewMetrics(o.Registerer, func() engine.Position { p, _ := s.tail.end(); return p })
	if err != nil {
		return nil, err
	}
	if s.tables, err = openTables(ctx, file); err != nil {
		return nil, err
	}
	grew := make(chan struct{}, 1)
	s.writer = &writer{
		queue: newQueue(), tail: s.tail, clock: s.clock, log: o.Logger, grew: grew,
		session: session, done: make(chan struct{}),
	}
	s.writer.kept.Store(&kept)
	if token > 0 {
		s.writer.fence = store.Fence{Shard: -1, Token: token}
	}
	if s.checkpoints, err = newCheckpoints(file, grew, s.writer.queue, o); err != nil {
		return nil, errors.Join(err, s.tables.close())
	}
	s.close = sync.OnceValue(s.shut)
	return s, nil
}

// inspect refuses a file that holds something else than a store that this
// binary can read, before anything is written to it. It returns the version of
// the store's schema, 0 for an empty file.
func inspect(ctx context.Context, file string, known int) (version int, err error) {
	db, err := openDB(dsn(file, "ro", "busy_timeout(5000)"), 1)
	if err != nil {
		return 0, err
	}
	version, err = identify(ctx, db, known)
	return version, errors.Join(err, db.Close())
}

// introduce draws epoch and secret for a new store, and reads epoch and the
// token last given.
func (s *session) introduce(ctx context.Context) (epoch string, token int64, err error) {
	if err := checkImported(ctx, s.conn); err != nil {
		return "", 0, err
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	for key, value := range map[string]any{"epoch": rand.Text(), "secret": secret, "fence": int64(0)} {
		if _, err := s.conn.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO NOTHING", key, value); err != nil {
			return "", 0, fmt.Errorf("write %s: %w", key, err)
		}
	}
	err = s.conn.QueryRowContext(ctx, "SELECT (SELECT value FROM meta WHERE key = 'epoch'), (SELECT value FROM meta WHERE key = 'fence')").Scan(&epoch, &token)
	if err != nil {
		return "", 0, fmt.Errorf("read epoch and fence: %w", err)
	}
	return epoch, token, nil
}

// Now returns the time of the store's clock.
func (s *Store) Now() time.Time { return s.clock.Time() }

// Close writes what waits, moves the WAL into the database, and releases the
// lock. Calls afterwards fail with store.ErrClosed.
func (s *Store) Close() error { return s.close() }

func (s *Store) shut() error {
	s.writer.queue.close()
	<-s.writer.done
	s.tail.close()
	err := errors.Join(s.checkpoints.stop(), s.tables.close())
	if w := s.writer.session; w != nil {
		// The last connection would do this as it closes, and remove the file of
		// the WAL; but a reading command may still have one. What cannot be moved
		// stays in the WAL, and nothing is lost.
		_, _ = w.conn.ExecContext(context.Background(), "PRAGMA wal_checkpoint(PASSIVE)")
		w.close()
	}
	if err := errors.Join(err, s.unlock()); err != nil {
		return fmt.Errorf("close store: %w", err)
	}
	return nil
}

// do runs a task on the writer's connection, between two groups.
func (s *Store) do(ctx context.Context, op string, run func(context.Context, *session) error) error {
	if err := ctx.Err(); err != nil {
		return store.Describe(op, err)
	}
	t := &task{ended: ctx.Err, run: run, done: make(chan struct{})}
	if !s.writer.queue.pushTask(t) {
		return store.Describe(op, store.ErrClosed)
	}
	select {
	case <-t.done:
		return store.Describe(op, t.err)
	case <-ctx.Done():
		return store.Describe(op, ctx.Err())
	}
}

// Own implements store.Owner.
func (s *Store) Own(ctx context.Context) (store.Fence, error) {
	var fence store.Fence
	err := s.do(ctx, "own the store", func(ctx context.Context, w *session) error {
		var token int64
		if err := w.conn.QueryRowContext(ctx, "UPDATE meta SET value = value + 1 WHERE key = 'fence' RETURNING value").Scan(&token); err != nil {
			return fmt.Errorf("draw a token: %w", err)
		}
		s.writer.fence = store.Fence{Shard: -1, Token: token}
		fence = s.writer.fence
		return nil
	})
	if err != nil {
		return store.Fence{}, err
	}
	return fence, nil
}
