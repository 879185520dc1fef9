package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
	"attend/internal/store"
)

// SaveStates implements store.States. It holds the shard, not the head: a
// take-over waits for it, appends do not.
func (s *Store) SaveStates(ctx context.Context, fence store.Fence, rows []store.StateRow, checkpoint engine.Position) error {
	const op = "save states"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	for i := range rows {
		if len(rows[i].Scope) > maxKey {
			return fmt.Errorf("%s: %w: the scope is %d bytes long: want at most %d", op, store.ErrInvalid, len(rows[i].Scope), maxKey)
		}
	}
	err := pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		if err := s.holdShard(ctx, tx, fence); err != nil {
			return err
		}
		if err := s.unchanged(ctx, tx); err != nil {
			return err
		}
		out := new(pgx.Batch)
		for len(rows) > 0 {
			rows = s.queueStates(out, rows)
		}
		if checkpoint > 0 {
			out.Queue(s.names.sql("UPDATE @shards SET checkpoint = greatest(checkpoint, $2) WHERE shard = $1"), int16(fence.Shard), int64(checkpoint)) //nolint:gosec // it is a shard's
		}
		return tx.SendBatch(ctx, out).Close()
	})
	return s.fail(ctx, op, err)
}

// unchanged sees that the log is the one that the states were folded from, and
// goes as far: else they would cover records that are still to come, and those
// would never be folded.
func (s *Store) unchanged(ctx context.Context, tx pgx.Tx) error {
	want := s.expect()
	var end engine.Position
	var epoch string
	if err := tx.QueryRow(ctx, s.names.sql(selectEnd), 0, false).Scan(&end, nil, &epoch); err != nil {
		return fmt.Errorf("read the end of the log: %w", err)
	}
	return s.check(want, end, epoch)
}

// holdShard compares the fence and keeps the shard from changing hands until
// the transaction ends.
func (s *Store) holdShard(ctx context.Context, tx pgx.Tx, fence store.Fence) error {
	if fence.Token < 1 || fence.Shard < 0 || fence.Shard >= engine.Shards {
		return notInForce(fence)
	}
	tag, err := tx.Exec(ctx, s.names.sql("SELECT "+settings+" FROM @shards WHERE shard = $1 AND token = $2 FOR UPDATE"), int16(fence.Shard), fence.Token) //nolint:gosec // checked above
	if err == nil && tag.RowsAffected() == 0 {
		return notInForce(fence)
	}
	return err
}

func notInForce(f store.Fence) error {
	return fmt.Errorf("%w: token %d of shard %d is not in force", store.ErrFenced, f.Token, f.Shard)
}

// writeStates saves rows, adds the blocks and drops those that are old, of the
// rows that were not older than what is stored.
const writeStates = `
	WITH saved AS (
		INSERT INTO @states (scope, position, wake_at, live, format, body)
		SELECT * FROM unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::boolean[], $5::integer[], $6::bytea[])
		ON CONFLICT (scope) DO UPDATE SET position = excluded.position, wake_at = excluded.wake_at, live = excluded.live,
			format = excluded.format, body = excluded.body WHERE excluded.position >= @states.position
		RETURNING scope
	), added AS (
		INSERT INTO @blocks (scope, seq, body)
		SELECT u.scope, u.seq, u.body FROM unnest($7::bytea[], $8::bigint[], $9::bytea[]) AS u (scope, seq, body) JOIN saved USING (scope)
		ON CONFLICT DO NOTHING
	)
	DELETE FROM @blocks b USING unnest($1::bytea[], $10::bigint[]) AS u (scope, before)
	WHERE b.scope = u.scope AND b.seq < u.before AND u.scope IN (SELECT scope FROM saved)`

// queueStates queues the rows up to the first of a scope that is among them
// already, and returns the others: one statement cannot write a row twice.
func (s *Store) queueStates(out *pgx.Batch, rows []store.StateRow) (rest []store.StateRow) {
	var (
		scopes, bodies, blockScopes, blocks [][]byte
		positions, wakes, drops, seqs       []int64
		lives                               []bool
		formats                             []int32
		among                               = make(map[string]bool, len(rows))
	)
	for i := range rows {
		r := &rows[i]
		if among[r.Scope] {
			rest = rows[i:]
			break
		}
		among[r.Scope] = true
		scope := []byte(r.Scope)
		scopes, positions, wakes = append(scopes, scope), append(positions, int64(r.Position)), append(wakes, int64(r.WakeAt))
		lives, formats, bodies = append(lives, r.Live), append(formats, int32(r.Format)), append(bodies, notNull(r.Body)) //nolint:gosec // counted by hand
		drops = append(drops, r.DropBlocksBefore)
		had := make(map[int64]bool, len(r.Blocks))
		for j := range r.Blocks {
			// Of two blocks in one place the first counts, and what the row drops is
			// not added first: the statement has no order of its own.
			b := &r.Blocks[j]
			if b.Seq >= r.DropBlocksBefore && !had[b.Seq] {
				blockScopes, seqs, blocks = append(blockScopes, scope), append(seqs, b.Seq), append(blocks, notNull(b.Body))
			}
			had[b.Seq] = true
		}
	}
	out.Queue(s.names.sql(writeStates), scopes, positions, wakes, lives, formats, bodies, blockScopes, seqs, blocks, drops)
	return rest
}

// notNull is what a column that may not be null holds.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

const stateSelect = "SELECT scope, position, wake_at, live, format, body FROM @states"

// scanState makes a function that scans one row of stateSelect after another.
func scanState() (into []any, one func() (store.StateRow, error)) {
	var (
		scope          text
		position, wake int64
		live           bool
		format         int
		body           []byte
	)
	into = []any{&scope, &position, &wake, &live, &format, &body}
	return into, func() (store.StateRow, error) {
		if err := engine.CheckFormat(format); err != nil {
			return store.StateRow{}, fmt.Errorf("state of %q: %w", scope, err)
		}
		return store.StateRow{Scope: string(scope), Position: engine.Position(position), WakeAt: engine.Time(wake), Live: live, Format: format, Body: body}, nil
	}
}

// LoadState implements store.States.
func (s *Store) LoadState(ctx context.Context, scope string) (row store.StateRow, err error) {
	const op = "load state"
	if err := s.enter(ctx, op); err != nil {
		return store.StateRow{}, err
	}
	// One snapshot for both: a block holds what the row of before held.
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		into, one := scanState()
		if err := tx.QueryRow(ctx, s.names.sql(stateSelect+" WHERE scope = $1"), []byte(scope)).Scan(into...); err != nil {
			return err
		}
		if row, err = one(); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, s.names.sql("SELECT seq, body FROM @blocks WHERE scope = $1 ORDER BY seq"), []byte(scope))
		if err != nil {
			return err
		}
		row.Blocks, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (b store.Block, err error) {
			err = r.Scan(&b.Seq, &b.Body)
			return b, err
		})
		return err
	})
	if err != nil {
		return store.StateRow{}, s.fail(ctx, op, err)
	}
	return row, nil
}

// LiveStates implements store.States.
func (t *tables) LiveStates(ctx context.Context, after string, limit int) ([]store.StateRow, error) {
	into, one := scanState()
	return list(ctx, t, "load live states", into, one,
		stateSelect+" WHERE (live OR wake_at <> 0) AND scope > $1 ORDER BY scope LIMIT $2", []byte(after), limit)
}

// ScopeNames implements store.States.
func (t *tables) ScopeNames(ctx context.Context, after string, limit int) ([]string, error) {
	return t.strings(ctx, "list scopes", "SELECT scope FROM @states WHERE scope > $1 ORDER BY scope LIMIT $2", []byte(after), limit)
}

// strings collects the one column of a query.
func (t *tables) strings(ctx context.Context, op, sql string, args ...any) ([]string, error) {
	var name text
	return list(ctx, t, op, []any{&name}, func() (string, error) { return string(name), nil }, sql, args...)
}

// Checkpoint implements store.States.
func (t *tables) Checkpoint(ctx context.Context, fence store.Fence) (engine.Position, error) {
	var p int64
	err := t.one(ctx, "read checkpoint", "SELECT coalesce((SELECT checkpoint FROM @shards WHERE shard = $1), 0)", []any{fence.Shard}, &p)
	return engine.Position(p), err
}

// Row implements store.Rows.
func (t *tables) Row(ctx context.Context, space, key string) ([]byte, error) {
	var v []byte
	err := t.one(ctx, "read row", "SELECT value FROM @rows WHERE space = $1 AND key = $2", []any{[]byte(space), []byte(key)}, &v)
	return v, err
}

// Rows implements store.Rows.
func (t *tables) Rows(ctx context.Context, space string) ([]store.Put, error) {
	var key text
	var value []byte
	return list(ctx, t, "read rows", []any{&key, &value}, func() (store.Put, error) {
		return store.Put{Space: space, Key: string(key), Value: value}, nil
	}, "SELECT key, value FROM @rows WHERE space = $1 ORDER BY key", []byte(space))
}

// Secret implements store.Store.
func (t *tables) Secret(ctx context.Context) ([]byte, error) {
	var v []byte
	err := t.one(ctx, "read secret", "SELECT secret FROM @head", nil, &v)
	return v, err
}

// FieldChanges implements store.Fields.
func (t *tables) FieldChanges(ctx context.Context, name string, after int64, limit int) ([]store.FieldChange, error) {
	var c store.FieldChange
	return list(ctx, t, "read field", []any{&c.Number, &c.Format, &c.Body}, func() (store.FieldChange, error) { return c, nil },
		"SELECT number, format, body FROM @field_changes WHERE name = $1 AND number > $2 ORDER BY number LIMIT $3", []byte(name), after, max(limit, 0))
}

// FieldHead implements store.Fields.
func (t *tables) FieldHead(ctx context.Context, name string) (int64, error) {
	var last int64
	err := t.one(ctx, "read field's head", "SELECT coalesce(max(number), 0) FROM @field_changes WHERE name = $1", []any{[]byte(name)}, &last)
	return last, err
}

// FieldNames implements store.Fields.
func (t *tables) FieldNames(ctx context.Context, after string, limit int) ([]string, error) {
	return t.strings(ctx, "list fields", "SELECT name FROM @fields WHERE name > $1 ORDER BY name LIMIT $2", []byte(after), max(limit, 0))
}
