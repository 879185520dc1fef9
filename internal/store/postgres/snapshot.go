package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
	"attend/internal/store"
)

var _ store.Snapshotter = (*Store)(nil)

// Snapshot is the store as it was at one instant, on a connection of its own.
// While it is open Postgres keeps what is deleted or replaced meanwhile.
type Snapshot struct {
	*tables
	conn  *pgx.Conn // its own
	epoch string
}

var _ store.Snapshot = (*Snapshot)(nil)

// Snapshot implements store.Snapshotter.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	const op = "take a snapshot"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, s.follower.target.pool.ConnConfig.Copy())
	if err != nil {
		return nil, s.fail(ctx, op, err)
	}
	// The first question is what the snapshot is of.
	shot := &Snapshot{conn: conn, epoch: s.epoch, tables: &tables{db: conn, names: s.names, tail: newTail(0, 0)}}
	if _, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err == nil {
		_, _, err = shot.end(ctx)
	}
	if err != nil {
		_ = conn.Close(context.WithoutCancel(ctx))
		return nil, s.fail(ctx, op, err)
	}
	return shot, nil
}

// Close ends the connection, and with it the transaction.
func (s *Snapshot) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := s.conn.Close(context.Background()); err != nil {
		return fmt.Errorf("end the snapshot: %w", err)
	}
	return nil
}

func (s *Snapshot) end(ctx context.Context) (position, stamp int64, err error) {
	err = s.db.QueryRow(ctx, s.names.sql(selectEnd), 0, false).Scan(&position, &stamp, nil)
	return position, stamp, err
}

// Head implements store.Snapshot.
func (s *Snapshot) Head(ctx context.Context) (store.Head, error) {
	const op = "read head"
	if err := s.enter(ctx, op); err != nil {
		return store.Head{}, err
	}
	position, stamp, err := s.end(ctx)
	if err != nil {
		return store.Head{}, s.fail(ctx, op, err)
	}
	return store.Head{Position: engine.Position(position), Stamp: engine.Time(stamp), Epoch: s.epoch}, nil
}

// Kept implements store.Snapshot.
func (s *Snapshot) Kept(ctx context.Context) (store.Kept, error) {
	const op = "read the marks"
	if err := s.enter(ctx, op); err != nil {
		return store.Kept{}, err
	}
	err := s.ask(ctx, new(pgx.Batch))
	return s.marks.read(), s.fail(ctx, op, err)
}

// Covered implements store.Snapshot.
func (s *Snapshot) Covered(ctx context.Context) (engine.Position, error) {
	var p int64
	err := s.one(ctx, "read the lowest checkpoint", "SELECT min(checkpoint) FROM @shards", nil, &p)
	return engine.Position(p), err
}

// Read implements store.Snapshot.
func (s *Snapshot) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	head, err := s.Head(ctx)
	if err != nil {
		return nil, err
	}
	records, err := s.read(ctx, after, head.Position, max(limit, 1))
	return records, s.fail(ctx, "read log", err)
}

// Events implements store.Snapshot.
func (s *Snapshot) Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error) {
	const op = "read events"
	if err := s.enter(ctx, op); err != nil {
		return nil, err
	}
	found := make(map[engine.Position]engine.Record, len(positions))
	if err := s.pick(ctx, positions, found); err != nil {
		return nil, s.fail(ctx, op, err)
	}
	return store.Arrange(positions, found), nil
}

// Spaces implements store.Snapshot.
func (s *Snapshot) Spaces(ctx context.Context) ([]string, error) {
	return s.strings(ctx, "list the spaces", "SELECT DISTINCT space FROM @rows ORDER BY space")
}

// States implements store.Snapshot.
func (s *Snapshot) States(ctx context.Context, after string, limit int) ([]store.StateRow, error) {
	into, one := scanState()
	rows, err := list(ctx, s.tables, "read states", into, one, stateSelect+" WHERE scope > $1 ORDER BY scope LIMIT $2", []byte(after), max(limit, 0))
	if err != nil || len(rows) == 0 {
		return rows, err
	}
	var scope text
	var block store.Block
	i := 0
	_, err = list(ctx, s.tables, "read blocks", []any{&scope, &block.Seq, &block.Body}, func() (struct{}, error) {
		for rows[i].Scope < string(scope) && i < len(rows)-1 {
			i++
		}
		if rows[i].Scope == string(scope) {
			rows[i].Blocks = append(rows[i].Blocks, block)
		}
		return struct{}{}, nil
	}, "SELECT scope, seq, body FROM @blocks WHERE scope > $1 AND scope <= $2 ORDER BY scope, seq", []byte(after), []byte(rows[len(rows)-1].Scope))
	return rows, err
}
