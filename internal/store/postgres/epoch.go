package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
	"attend/internal/store"
)

// NewEpoch draws another epoch, so that every cursor that was given out is
// stale. A database that was put back to an earlier moment needs one: its log
// goes on otherwise than the one that cursors were given out of. It is refused
// with store.ErrLocked while replicas are alive. Afterwards the store is of the
// epoch before, and good for nothing but to be closed.
func (s *Store) NewEpoch(ctx context.Context) error {
	const op = "draw an epoch"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	err := s.holdingHead(ctx, func(tx pgx.Tx, _ engine.Position, now int64, _ string) error {
		var alive []string
		var name text
		var until, last int64
		out := new(pgx.Batch)
		each(out, s.names.sql("SELECT name, until FROM @replicas WHERE until > $1 ORDER BY name"), []any{now}, []any{&name, &until}, func() {
			alive, last = append(alive, fmt.Sprintf("%q", string(name))), max(last, until)
		})
		if err := tx.SendBatch(ctx, out).Close(); err != nil {
			return fmt.Errorf("look for replicas: %w", err)
		}
		if len(alive) > 0 {
			return fmt.Errorf("%w: replicas are alive: %s: stop them first; one that was killed counts for %s more",
				store.ErrLocked, strings.Join(alive, ", "), (time.Duration(last-now) * time.Millisecond).Round(time.Second))
		}
		if _, err := tx.Exec(ctx, s.names.sql("UPDATE @head SET epoch = $1"), rand.Text()); err != nil {
			return fmt.Errorf("write the epoch: %w", err)
		}
		return nil
	})
	return s.fail(ctx, op, err)
}
