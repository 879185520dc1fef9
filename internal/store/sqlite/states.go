package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// SaveStates implements store.States.
func (s *Store) SaveStates(ctx context.Context, fence store.Fence, rows []store.StateRow, checkpoint engine.Position) error {
	return s.do(ctx, "save states", func(ctx context.Context, w *session) error {
		if err := s.writer.checkFence(fence); err != nil {
			return err
		}
		return w.transaction(ctx, func() error {
			for i := range rows {
				if err := w.save(ctx, &rows[i]); err != nil {
					return fmt.Errorf("state of %q: %w", rows[i].Scope, err)
				}
			}
			if checkpoint == 0 {
				return nil
			}
			position, stamp := s.tail.end()
			return w.raise(ctx, map[string]int64{"checkpoint": int64(checkpoint), "head_position": int64(position), "head_stamp": int64(stamp)})
		})
	})
}

// save writes a row and its blocks, unless a later row is there.
func (s *session) save(ctx context.Context, row *store.StateRow) error {
	result, err := s.saveState.ExecContext(ctx, row.Scope, int64(row.Position), int64(row.WakeAt), row.Live, row.Format, blob(row.Body))
	if err != nil {
		return err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return err
	}
	for i := range row.Blocks {
		if _, err := s.addBlock.ExecContext(ctx, row.Scope, row.Blocks[i].Seq, blob(row.Blocks[i].Body)); err != nil {
			return fmt.Errorf("add block: %w", err)
		}
	}
	if row.DropBlocksBefore > 0 {
		if _, err := s.dropBlocks.ExecContext(ctx, row.Scope, row.DropBlocksBefore); err != nil {
			return fmt.Errorf("drop blocks: %w", err)
		}
	}
	return nil
}

const stateColumns = "scope, position, wake_at, live, format, body"

func scanState(scan func(...any) error) (row store.StateRow, err error) {
	var position, wake int64
	if err := scan(&row.Scope, &position, &wake, &row.Live, &row.Format, &row.Body); err != nil {
		return store.StateRow{}, err
	}
	if err := engine.CheckFormat(row.Format); err != nil {
		return store.StateRow{}, fmt.Errorf("state of %q: %w", row.Scope, err)
	}
	row.Position, row.WakeAt = engine.Position(position), engine.Time(wake)
	return row, nil
}

// LoadState implements store.States.
func (t *tables) LoadState(ctx context.Context, scope string) (store.StateRow, error) {
	const op = "load state"
	if err := t.enter(op); err != nil {
		return store.StateRow{}, err
	}
	row, err := t.loadState(ctx, scope)
	return row, t.fail(ctx, op, err)
}

// loadState reads row and blocks in one snapshot: a block holds what the row
// of before held.
func (t *tables) loadState(ctx context.Context, scope string) (row store.StateRow, err error) {
	tx, err := t.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return row, err
	}
	defer tx.Rollback() //nolint:errcheck // nothing was written
	if row, err = scanState(tx.QueryRowContext(ctx, "SELECT "+stateColumns+" FROM states WHERE scope = ?", scope).Scan); err != nil {
		return row, err
	}
	blocks, err := tx.QueryContext(ctx, "SELECT seq, body FROM blocks WHERE scope = ? ORDER BY seq", scope)
	if err != nil {
		return row, err
	}
	defer blocks.Close()
	for blocks.Next() {
		var b store.Block
		if err := blocks.Scan(&b.Seq, &b.Body); err != nil {
			return row, err
		}
		row.Blocks = append(row.Blocks, b)
	}
	return row, blocks.Err()
}

// LiveStates implements store.States.
func (t *tables) LiveStates(ctx context.Context, after string, limit int) ([]store.StateRow, error) {
	return list(ctx, t, "load live states", func(scan func(...any) error) (store.StateRow, error) { return scanState(scan) },
		"SELECT "+stateColumns+" FROM states WHERE (live <> 0 OR wake_at <> 0) AND scope > ? ORDER BY scope LIMIT ?", after, limit)
}

// ScopeNames implements store.States.
func (t *tables) ScopeNames(ctx context.Context, after string, limit int) ([]string, error) {
	return list(ctx, t, "list scopes", func(scan func(...any) error) (name string, err error) {
		err = scan(&name)
		return name, err
	}, "SELECT scope FROM states WHERE scope > ? ORDER BY scope LIMIT ?", after, limit)
}

const checkpointQuery = "SELECT coalesce((SELECT value FROM meta WHERE key = 'checkpoint'), 0)"

// Checkpoint implements store.States.
func (t *tables) Checkpoint(ctx context.Context, _ store.Fence) (engine.Position, error) {
	const op = "read checkpoint"
	if err := t.enter(op); err != nil {
		return 0, err
	}
	var p engine.Position
	err := t.db.QueryRowContext(ctx, checkpointQuery).Scan(&p)
	return p, t.fail(ctx, op, err)
}

// Row implements store.Rows.
func (t *tables) Row(ctx context.Context, space, key string) ([]byte, error) {
	const op = "read row"
	if err := t.enter(op); err != nil {
		return nil, err
	}
	var v []byte
	err := t.db.QueryRowContext(ctx, "SELECT value FROM rows WHERE space = ? AND key = ?", space, key).Scan(&v)
	return v, t.fail(ctx, op, err)
}

// Rows implements store.Rows.
func (t *tables) Rows(ctx context.Context, space string) ([]store.Put, error) {
	return list(ctx, t, "read rows", func(scan func(...any) error) (store.Put, error) {
		p := store.Put{Space: space}
		err := scan(&p.Key, &p.Value)
		return p, err
	}, "SELECT key, value FROM rows WHERE space = ? ORDER BY key", space)
}

// Secret implements store.Store.
func (t *tables) Secret(ctx context.Context) ([]byte, error) {
	const op = "read secret"
	if err := t.enter(op); err != nil {
		return nil, err
	}
	var v []byte
	err := t.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'secret'").Scan(&v)
	return v, t.fail(ctx, op, err)
}

// list collects the rows of a query.
func list[T any](ctx context.Context, t *tables, op string, one func(scan func(...any) error) (T, error), query string, args ...any) ([]T, error) {
	if err := t.enter(op); err != nil {
		return nil, err
	}
	rows, err := t.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, t.fail(ctx, op, err)
	}
	defer rows.Close()
	var out []T
	for rows.Next() {
		v, err := one(rows.Scan)
		if err != nil {
			return nil, t.fail(ctx, op, err)
		}
		out = append(out, v)
	}
	return out, t.fail(ctx, op, rows.Err())
}
