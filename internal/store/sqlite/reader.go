package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// pollInterval is how often a Reader looks whether the log has grown: another
// process writes it, and SQLite tells nobody.
const pollInterval = 100 * time.Millisecond

// Reader reads a store without owning it, beside a running daemon or without
// one. It takes no lock, writes nothing, and does not bring an old schema up
// to date.
type Reader struct {
	*tables
	epoch string
}

// OpenReader opens the store at path for reading. It fails when there is none,
// and with a *SchemaError when its schema is not this binary's.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	file, err := locate(path)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no store at %s: %w", path, fs.ErrNotExist)
	}
	schema, err := store.Migrations(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	version, err := inspect(ctx, file, len(schema))
	if err != nil {
		return nil, err
	}
	if version < len(schema) {
		return nil, fmt.Errorf("the store has schema %d, and this binary reads %d: start the daemon once to bring it up to date", version, len(schema))
	}
	t, err := openTables(ctx, file)
	if err != nil {
		return nil, err
	}
	r := &Reader{tables: t}
	if err := checkImported(ctx, t.db); err != nil {
		return nil, errors.Join(err, t.close())
	}
	if err := t.db.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = 'epoch'").Scan(&r.epoch); err != nil {
		return nil, errors.Join(fmt.Errorf("read the epoch: %w", err), t.close())
	}
	return r, nil
}

// Close ends the reader. It does not touch the store.
func (r *Reader) Close() error { return r.close() }

// Head returns the end of what has been committed.
func (r *Reader) Head(ctx context.Context) (store.Head, error) {
	const op = "read head"
	if err := r.enter(op); err != nil {
		return store.Head{}, err
	}
	position, stamp, err := readEnd(ctx, r.db)
	if err != nil {
		return store.Head{}, r.fail(ctx, op, err)
	}
	return store.Head{Position: position, Stamp: stamp, Epoch: r.epoch}, nil
}

// Read returns records as store.Log says.
func (r *Reader) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	records, err := r.read(ctx, after, head.Position, max(limit, 1))
	return records, r.fail(ctx, "read log", err)
}

// Wait waits as store.Log says; it looks ten times a second.
func (r *Reader) Wait(ctx context.Context, after engine.Position) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		head, err := r.Head(ctx)
		if err != nil || head.Position > after {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return store.Describe("wait for the log", ctx.Err())
		}
	}
}

// Events returns events as store.Log says.
func (r *Reader) Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error) {
	const op = "read events"
	if err := r.enter(op); err != nil {
		return nil, err
	}
	found := make(map[engine.Position]engine.Record, len(positions))
	if err := r.pick(ctx, positions, found); err != nil {
		return nil, r.fail(ctx, op, err)
	}
	return store.Arrange(positions, found), nil
}

// Steps returns steps as store.Log says.
func (r *Reader) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	const op = "read steps"
	if err := r.enter(op); err != nil {
		return nil, err
	}
	records, err := r.selectSteps(ctx, &q)
	return records, r.fail(ctx, op, err)
}
