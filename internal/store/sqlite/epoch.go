package sqlite

import (
	"context"
	"crypto/rand"
	"fmt"
)

// NewEpoch draws another epoch, so that every cursor that was given out is
// stale. A store that was brought back from a copy of its file needs one: its
// log goes on otherwise than the one that cursors were given out of.
func (s *Store) NewEpoch(ctx context.Context) error {
	return s.do(ctx, "draw an epoch", func(ctx context.Context, w *session) error {
		if _, err := w.conn.ExecContext(ctx, "UPDATE meta SET value = ? WHERE key = 'epoch'", rand.Text()); err != nil {
			return fmt.Errorf("write the epoch: %w", err)
		}
		return nil
	})
}
