package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

var _ store.Compactor = (*Store)(nil)

// Keys of meta.
const (
	metaKeptEvents = "kept_events"
	metaKeptSteps  = "kept_steps"
	metaImporting  = "importing"
)

// readKept reads the marks.
func readKept(ctx context.Context, q querier) (k store.Kept, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce((SELECT value FROM meta WHERE key = ?), 0),
		coalesce((SELECT value FROM meta WHERE key = ?), 0)`, metaKeptEvents, metaKeptSteps).Scan(&k.Events, &k.Steps)
	if err != nil {
		return k, fmt.Errorf("read the marks: %w", err)
	}
	return k, nil
}

// raise writes facts of meta that never fall.
func (s *session) raise(ctx context.Context, facts map[string]int64) error {
	for key, value := range facts { //arch:sorted each is written by itself
		if _, err := s.raiseMeta.ExecContext(ctx, key, value); err != nil {
			return fmt.Errorf("write %s: %w", key, err)
		}
	}
	return nil
}

// Kept implements store.Compactor.
func (s *Store) Kept(ctx context.Context) (store.Kept, error) {
	if err := s.look(ctx, "read the marks"); err != nil {
		return store.Kept{}, err
	}
	return *s.writer.kept.Load(), nil
}

// checkFence refuses a right that is not the one in force.
func (w *writer) checkFence(fence store.Fence) error {
	if fence != w.fence || fence == (store.Fence{}) {
		return fmt.Errorf("%w: token %d, in force is %d", store.ErrFenced, fence.Token, w.fence.Token)
	}
	return nil
}

// Compact implements store.Compactor.
func (s *Store) Compact(ctx context.Context, fence store.Fence, c store.Compaction) (done store.Compacted, err error) {
	err = s.do(ctx, "compact the log", func(ctx context.Context, w *session) (err error) {
		if err := s.writer.checkFence(fence); err != nil {
			return err
		}
		var checkpoint engine.Position
		if err := w.conn.QueryRowContext(ctx, checkpointQuery).Scan(&checkpoint); err != nil {
			return fmt.Errorf("read the checkpoint: %w", err)
		}
		end, _ := s.tail.end()
		if err := c.Check(min(checkpoint, end)); err != nil {
			return err
		}
		before := *s.writer.kept.Load()
		done = store.Compacted{}
		done.Kept, done.Done = c.Next(before)
		// Readers learn of it first: one that finds something missing must find
		// the mark moved, and not the other way round.
		s.writer.kept.Store(&done.Kept)
		s.tail.cut(done.Kept.Events)
		return w.transaction(ctx, func() error { return w.compact(ctx, &c, before, &done) })
	})
	if err != nil {
		return store.Compacted{}, err
	}
	return done, nil
}

// compact does one call's work inside a transaction.
func (s *session) compact(ctx context.Context, c *store.Compaction, before store.Kept, done *store.Compacted) error {
	position, stamp, err := readEnd(ctx, s.conn) // before the last record goes
	if err != nil {
		return err
	}
	keep, err := json.Marshal(c.Keeps(before.Events, done.Kept.Events))
	if err != nil {
		return err
	}
	release, err := json.Marshal(c.Release)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		rows  *int
		query string
		args  []any
	}{
		{&done.Aside, "INSERT INTO aside (" + eventColumns + ") SELECT " + eventColumns + " FROM events WHERE position IN (SELECT value FROM json_each(?))", []any{string(keep)}},
		{&done.Events, "DELETE FROM events WHERE position <= ?", []any{int64(done.Kept.Events)}},
		{
			&done.Steps, "DELETE FROM steps WHERE position > ? AND position <= ? AND kind NOT IN (?, ?)",
			[]any{int64(before.Steps), int64(done.Kept.Steps), string(engine.StepPolicy), string(engine.StepSilence)},
		},
		{&done.Released, "DELETE FROM aside WHERE position IN (SELECT value FROM json_each(?))", []any{string(release)}},
	} {
		result, err := s.conn.ExecContext(ctx, x.query, x.args...)
		if err != nil {
			return fmt.Errorf("%.24s: %w", x.query, err)
		}
		n, err := result.RowsAffected()
		if err != nil {
			return err
		}
		*x.rows = int(n)
	}
	return s.raise(ctx, map[string]int64{
		metaKeptEvents: int64(done.Kept.Events), metaKeptSteps: int64(done.Kept.Steps),
		"head_position": int64(position), "head_stamp": int64(stamp),
	})
}

// Kept returns the marks.
func (r *Reader) Kept(ctx context.Context) (store.Kept, error) {
	const op = "read the marks"
	if err := r.enter(op); err != nil {
		return store.Kept{}, err
	}
	k, err := readKept(ctx, r.db)
	return k, r.fail(ctx, op, err)
}

// Aside implements store.Compactor.
func (t *tables) Aside(ctx context.Context, after engine.Position, limit int) ([]engine.Position, error) {
	return list(ctx, t, "list the side table", func(scan func(...any) error) (p engine.Position, err error) {
		err = scan(&p)
		return p, err
	}, "SELECT position FROM aside WHERE position > ? ORDER BY position LIMIT ?", int64(after), max(limit, 0))
}

// DropStates implements store.Compactor.
func (s *Store) DropStates(ctx context.Context, fence store.Fence, rows []store.StateAt) (dropped int, err error) {
	err = s.do(ctx, "drop states", func(ctx context.Context, w *session) error {
		if err := s.writer.checkFence(fence); err != nil {
			return err
		}
		dropped = 0
		return w.transaction(ctx, func() error {
			for _, at := range rows {
				result, err := w.conn.ExecContext(ctx, "DELETE FROM states WHERE scope = ? AND position = ?", at.Scope, int64(at.Position))
				if err != nil {
					return fmt.Errorf("state of %q: %w", at.Scope, err)
				}
				if n, err := result.RowsAffected(); err != nil || n == 0 {
					continue
				}
				dropped++
				if _, err := w.conn.ExecContext(ctx, "DELETE FROM blocks WHERE scope = ?", at.Scope); err != nil {
					return fmt.Errorf("blocks of %q: %w", at.Scope, err)
				}
			}
			return nil
		})
	})
	if err != nil {
		return 0, err
	}
	return dropped, nil
}
