package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// checkpointInterval is the least time between two checkpoints.
	checkpointInterval = 100 * time.Millisecond
	// checkpointFrames is how many pages must wait in the WAL to be worth one.
	checkpointFrames = 1000
	// walCeiling is how large the WAL may grow while the writer never pauses:
	// it can be reused only when nobody writes between the end of a checkpoint
	// and the start of a commit.
	walCeiling = 64 << 20
	// frameBytes is what a page takes in the WAL.
	frameBytes = 4096 + 24
	// ceilingPatience is how long a refused ceiling is left alone: a long read
	// pins the WAL, and each try holds the writer up.
	ceilingPatience = time.Second
)

// checkpoints moves pages from the WAL into the database on a connection of
// its own, so that no commit has to wait for it.
type checkpoints struct {
	db      *sql.DB
	grew    <-chan struct{}
	queue   *queue
	log     *slog.Logger
	ceiling int       // bytes
	refused time.Time // when the ceiling was last refused

	ending  chan struct{}
	running sync.WaitGroup
}

func newCheckpoints(file string, grew <-chan struct{}, q *queue, o *Options) (*checkpoints, error) {
	db, err := openDB(dsn(file, "rw", "busy_timeout(0)"), 1)
	if err != nil {
		return nil, err
	}
	return &checkpoints{db: db, grew: grew, queue: q, log: o.Logger, ceiling: o.walCeiling, ending: make(chan struct{})}, nil
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

// round makes a checkpoint when there is enough to move. A WAL that is over
// the ceiling all the same is then emptied by the writer, between two commits.
func (c *checkpoints) round(ctx context.Context) error {
	frames, moved, err := c.pragma(ctx, "NOOP")
	if err != nil {
		return err
	}
	if frames-moved < checkpointFrames && frames*frameBytes < c.ceiling {
		return nil
	}
	if frames, _, err = c.pragma(ctx, "PASSIVE"); err != nil {
		return err
	}
	if frames*frameBytes < c.ceiling || time.Since(c.refused) < ceilingPatience {
		return nil
	}
	t := &task{ended: ctx.Err, run: restartWAL, done: make(chan struct{})}
	if !c.queue.pushTask(t) {
		return nil // the store is being closed
	}
	<-t.done
	if errors.Is(t.err, errPinned) {
		c.refused = time.Now()
		c.log.Warn("the WAL is over its ceiling and grows, a long read pins it", "bytes", frames*frameBytes)
		return nil
	}
	return t.err
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
	if _, err := s.conn.ExecContext(ctx, "PRAGMA busy_timeout = 50"); err != nil {
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
