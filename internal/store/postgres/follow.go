package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
)

const (
	// pollDeaf is how often the log is looked at while nobody says that it has
	// grown, and pollHearing how often beside what is said.
	pollDeaf, pollHearing = 100 * time.Millisecond, time.Second
	// listenAgain is how long a listener that failed waits to try again.
	listenAgain = time.Second
	// listenCheck is how long a silent listener waits to see whether its
	// connection is there.
	listenCheck = 15 * time.Second
	// followPage is how many records it reads at a time.
	followPage = 2000
)

// follower keeps the tail up with what other replicas commit. It is told by
// NOTIFY, and looks by itself besides: a connection through a pooler may listen
// and never hear.
type follower struct {
	tables  *tables
	tail    *tail
	clock   *clock
	log     *slog.Logger
	target  *target
	channel string

	kicks   chan struct{}
	told    atomic.Bool // a notification came since the last look
	hears   atomic.Bool // notifications come before the log is looked at
	failing bool
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (f *follower) start(ctx context.Context) {
	ctx, f.cancel = context.WithCancel(ctx)
	f.running.Go(func() { f.run(ctx) })
	if f.target.listen {
		f.running.Go(func() { f.listen(ctx) })
	}
}

func (f *follower) stop() {
	f.cancel()
	f.running.Wait()
}

// kick has the log looked at at once.
func (f *follower) kick() {
	select {
	case f.kicks <- struct{}{}:
	default: // it is going to look anyway
	}
}

func (f *follower) run(ctx context.Context) {
	timer := time.NewTimer(pollDeaf)
	defer timer.Stop()
	for {
		polled := false
		select {
		case <-ctx.Done():
			return
		case <-f.kicks:
		case <-timer.C:
			polled = true
		}
		told := f.told.Swap(false)
		grown, err := f.look(ctx, !told)
		switch {
		case err != nil && !f.failing && ctx.Err() == nil:
			f.log.Error("the log cannot be read; it is tried anew", "error", err)
		case err == nil && f.failing:
			f.log.Info("the log can be read again")
		}
		f.failing = err != nil
		if told {
			f.hears.Store(true)
		} else if polled && grown {
			f.hears.Store(false)
		}
		if f.hears.Load() {
			timer.Reset(pollHearing)
		} else {
			timer.Reset(pollDeaf)
		}
	}
}

// look reads what the tail does not hold; grown when there was something. It
// asks where the log ends, or goes as far as was told.
func (f *follower) look(ctx context.Context, ask bool) (grown bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if ask {
		if _, _, err := f.end(ctx); err != nil {
			return false, err
		}
	}
	if known, at := f.tail.end(); known-at > tailRecords {
		f.tail.restart(known - tailRecords/2)
	}
	for {
		known, at := f.tail.end()
		if known <= at {
			return grown, nil
		}
		records, err := f.tables.read(ctx, at, known, followPage)
		if err != nil {
			return grown, err
		}
		grown = true
		if len(records) == 0 || !f.tail.add(records) {
			// What should follow has been deleted from the log.
			f.tail.restart(known)
		}
	}
}

// end asks where the log ends, and what the database's clock shows.
func (f *follower) end(ctx context.Context) (engine.Position, engine.Time, error) {
	var position, stamp, now int64
	var epoch string
	var last *int64
	want := f.tables.expect()
	b := new(pgx.Batch)
	b.Queue(f.tables.names.sql(`SELECT position, stamp, floor(extract(epoch FROM clock_timestamp()) * 1000000)::bigint, epoch, `+selectStamp+` FROM (`+selectEnd+`) e`), 0, false, int64(want.last)).
		QueryRow(func(row pgx.Row) error { return row.Scan(&position, &stamp, &now, &epoch, &last) })
	if err := f.tables.ask(ctx, b); err != nil {
		return 0, 0, err
	}
	if err := f.tables.check(want, engine.Position(position), epoch); err != nil {
		return 0, 0, err
	}
	if err := f.tables.checkRecord(want, last); err != nil {
		return 0, 0, err
	}
	f.clock.observe(max(time.Duration(now)*time.Microsecond, time.Duration(stamp)*time.Millisecond))
	if f.tail.learn(engine.Position(position)) {
		f.kick()
	}
	return engine.Position(position), engine.Time(stamp), nil
}

// listen hears of commits until the context ends.
func (f *follower) listen(ctx context.Context) {
	failing := false
	for {
		err := f.hear(ctx)
		if ctx.Err() != nil {
			return
		}
		f.hears.Store(false)
		if !failing {
			f.log.Warn("the database cannot tell of commits; the log is looked at ten times a second meanwhile", "error", err)
		}
		failing = true
		select {
		case <-time.After(listenAgain):
		case <-ctx.Done():
			return
		}
	}
}

// hear listens on a connection of its own until that fails.
func (f *follower) hear(ctx context.Context) error {
	conn, err := pgx.ConnectConfig(ctx, f.target.pool.ConnConfig.Copy())
	if err != nil {
		return err
	}
	defer func() {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(late)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+f.channel); err != nil {
		return err
	}
	// Whether anything is heard here is seen at once, and not at the next commit.
	if _, err := f.tables.db.Exec(ctx, "SELECT pg_notify($1, '0')", f.channel); err != nil {
		return err
	}
	for {
		silent, cancel := context.WithTimeout(ctx, listenCheck)
		said, err := conn.WaitForNotification(silent)
		ended := silent.Err() != nil
		cancel()
		switch {
		case err == nil:
			if err := f.hearOf(said.Payload); err != nil {
				return err
			}
		case ended && ctx.Err() == nil && !conn.IsClosed():
			if err := conn.Ping(ctx); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// hearOf takes in a notification: up to where the log goes now. What this
// replica has committed itself it knows already.
func (f *follower) hearOf(payload string) error {
	position, err := strconv.ParseInt(payload, 10, 64)
	if err != nil {
		return fmt.Errorf("a notification says %q: want a position", payload)
	}
	f.told.Store(true)
	if f.tail.learn(engine.Position(position)) {
		f.kick()
	}
	return nil
}
