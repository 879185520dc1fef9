package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"
)

const (
	// checkpointInterval is the least time between two rounds.
	checkpointInterval = 100 * time.Millisecond
	// checkpointFrames is how many pages must wait in the WAL to be worth a
	// round.
	checkpointFrames = 1000
	// walRestart is the size at which a WAL starts again from its beginning,
	// in bytes. SQLite does so by itself only when nobody has written between
	// the end of a checkpoint and the start of a commit; a writer that never
	// pauses would let the WAL grow, and growing a file is slower than writing
	// over it.
	walRestart = 8 << 20
	// walCeiling is the size at which a WAL that cannot start again is worth a
	// warning, and to which its file is cut once it can.
	walCeiling = 64 << 20
	// restPasses and restFrames bound how often a checkpoint is repeated, so
	// that hardly anything is left for the writer when it restarts the WAL.
	restPasses, restFrames = 4, 64
	// restartPatience is how long the WAL is left alone after a read kept it
	// from being restarted, and restartWait how long, in ms, the writer waits
	// for such a read.
	restartPatience = time.Second
	restartWait     = 10
	// frameBytes is what a page takes in the WAL.
	frameBytes = 4096 + 24
)

// checkpoints moves pages from the WAL into the database on a connection of
// its own, so that no commit has to wait for it.
type checkpoints struct {
	db      *sql.DB
	grew    <-chan struct{}
	queue   *queue
	log     *slog.Logger
	restart int       // bytes, walRestart
	ceiling int       // bytes, walCeiling
	refused time.Time // when a restart was last refused

	ending  chan struct{}
	running sync.WaitGroup
}

func newCheckpoints(file string, grew <-chan struct{}, q *queue, o *Options) (*checkpoints, error) {
	db, err := openDB(dsn(file, "rw", "busy_timeout(0)"), 1)
	if err != nil {
		return nil, err
	}
	return &checkpoints{db: db, grew: grew, queue: q, log: o.Logger, restart: o.walRestart, ceiling: walCeiling, ending: make(chan struct{})}, nil
}

func (c *checkpoints) start() {
	c.running.Go(func() { c.run(context.Background()) })
}

func (c *checkpoints) stop() error {
	close(c.ending)
	c.running.Wait()
	return c.db.Close()
}

// run makes a checkpoint a while after a commit; without commits it sleeps.
func (c *checkpoints) run(ctx context.Context) {
	failing := false
	for {
		select {
		case <-c.grew:
		case <-c.ending:
			return
		}
		select {
		case <-time.After(checkpointInterval):
		case <-c.ending:
			return
		}
		err := c.round(ctx)
		if err != nil && !failing {
			c.log.Error("the WAL cannot be moved into the database; it is tried anew", "error", err)
		}
		failing = err != nil
	}
}

// round moves what waits, when it is enough, and has a long WAL restarted by
// the writer, between two commits.
func (c *checkpoints) round(ctx context.Context) error {
	frames, moved, err := c.pragma(ctx, "NOOP")
	if err != nil {
		return err
	}
	long := func() bool { return frames*frameBytes >= c.restart }
	if frames-moved < checkpointFrames && !long() {
		return nil
	}
	for pass := 0; pass < restPasses && (pass == 0 || frames-moved > restFrames); pass++ {
		if _, _, err = c.pragma(ctx, "PASSIVE"); err != nil {
			return err
		}
		if frames, moved, err = c.pragma(ctx, "NOOP"); err != nil {
			return err
		}
	}
	if !long() || time.Since(c.refused) < restartPatience {
		return nil
	}
	t := &task{ended: ctx.Err, run: restartWAL, done: make(chan struct{})}
	if !c.queue.pushTask(t) {
		return nil // the store is being closed
	}
	<-t.done
	if !errors.Is(t.err, errPinned) {
		return t.err
	}
	c.refused = time.Now()
	if frames*frameBytes >= c.ceiling {
		c.log.Warn("the WAL grows: a long read keeps it from being restarted", "bytes", frames*frameBytes)
	}
	return nil
}

// pragma runs a checkpoint and returns how many frames the WAL holds, and how
// many of them are in the database.
func (c *checkpoints) pragma(ctx context.Context, mode string) (frames, moved int, err error) {
	var busy int
	if err := c.db.QueryRowContext(ctx, "PRAGMA wal_checkpoint("+mode+")").Scan(&busy, &frames, &moved); err != nil {
		return 0, 0, fmt.Errorf("checkpoint (%s): %w", mode, err)
	}
	return frames, moved, nil
}

// errPinned: the WAL cannot be reused, since somebody reads from it.
var errPinned = errors.New("the WAL is being read")

// restartWAL moves the rest of the WAL and makes the next commit start it from
// its beginning. It waits for readers only shortly: commits wait meanwhile.
// The file keeps its size, since writing over it is faster than growing it.
func restartWAL(ctx context.Context, s *session) error {
	if _, err := s.conn.ExecContext(ctx, "PRAGMA busy_timeout = "+strconv.Itoa(restartWait)); err != nil {
		return fmt.Errorf("restart the WAL: %w", err)
	}
	var busy, frames, moved int
	if err := s.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(RESTART)").Scan(&busy, &frames, &moved); err != nil {
		return fmt.Errorf("restart the WAL: %w", err)
	}
	if _, err := s.conn.ExecContext(ctx, "PRAGMA busy_timeout = 5000"); err != nil {
		return fmt.Errorf("restart the WAL: %w", err)
	}
	if busy != 0 {
		return errPinned
	}
	return nil
}
