package sqlite

import (
	"context"
	"errors"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

var _ store.Snapshotter = (*Store)(nil)

// Snapshot is the store as it was at one instant. While it is open the WAL
// cannot be restarted, and grows with what is written.
type Snapshot struct{ Reader }

var _ store.Snapshot = (*Snapshot)(nil)

// OpenSnapshot opens what a store holds now, beside a running daemon too. It
// fails as OpenReader does.
func OpenSnapshot(ctx context.Context, path string) (*Snapshot, error) {
	r, err := OpenReader(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := r.close(); err != nil {
		return nil, fmt.Errorf("close the reader: %w", err)
	}
	file, err := locate(path)
	if err != nil {
		return nil, err
	}
	return openSnapshot(ctx, file)
}

// Snapshot implements store.Snapshotter.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	const op = "take a snapshot"
	if err := s.look(ctx, op); err != nil {
		return nil, err
	}
	snapshot, err := openSnapshot(ctx, s.file)
	if err != nil {
		return nil, s.fail(ctx, op, err)
	}
	return snapshot, nil
}

// openSnapshot begins a transaction on the one connection of a pool of its own:
// every read is part of it.
func openSnapshot(ctx context.Context, file string) (*Snapshot, error) {
	t, err := openTablesOf(ctx, file, 1)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Reader{tables: t}}
	if _, err := t.db.ExecContext(ctx, "BEGIN"); err != nil {
		return nil, errors.Join(fmt.Errorf("begin: %w", err), t.close())
	}
	// The first read is what the snapshot is of.
	if err := t.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'epoch'").Scan(&s.epoch); err != nil {
		return nil, errors.Join(fmt.Errorf("read the epoch: %w", err), t.close())
	}
	return s, nil
}

// Covered implements store.Snapshot.
func (s *Snapshot) Covered(ctx context.Context) (engine.Position, error) {
	return s.Checkpoint(ctx, store.Fence{Shard: -1})
}

// Spaces implements store.Snapshot.
func (s *Snapshot) Spaces(ctx context.Context) ([]string, error) {
	return list(ctx, s.tables, "list the spaces", func(scan func(...any) error) (space string, err error) {
		err = scan(&space)
		return space, err
	}, "SELECT DISTINCT space FROM rows ORDER BY space")
}

// States implements store.Snapshot.
func (s *Snapshot) States(ctx context.Context, after string, limit int) ([]store.StateRow, error) {
	rows, err := list(ctx, s.tables, "read states", func(scan func(...any) error) (store.StateRow, error) { return scanState(scan) },
		"SELECT "+stateColumns+" FROM states WHERE scope > ? ORDER BY scope LIMIT ?", after, max(limit, 0))
	if err != nil || len(rows) == 0 {
		return rows, err
	}
	type block struct {
		scope string
		store.Block
	}
	blocks, err := list(ctx, s.tables, "read blocks", func(scan func(...any) error) (b block, err error) {
		err = scan(&b.scope, &b.Seq, &b.Body)
		return b, err
	}, "SELECT scope, seq, body FROM blocks WHERE scope > ? AND scope <= ? ORDER BY scope, seq", after, rows[len(rows)-1].Scope)
	i := 0
	for _, b := range blocks {
		for i < len(rows) && rows[i].Scope < b.scope {
			i++
		}
		if i < len(rows) && rows[i].Scope == b.scope {
			rows[i].Blocks = append(rows[i].Blocks, b.Block)
		}
	}
	return rows, err
}
