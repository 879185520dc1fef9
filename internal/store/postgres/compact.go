package postgres

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
	"attend/internal/store"
)

var _ store.Compactor = (*Store)(nil)

// marks is where the log is known to begin. Whoever reads the tables reads the
// marks behind it, so that what was found missing is told by them.
type marks struct {
	mu   sync.Mutex
	kept store.Kept
}

func (m *marks) read() store.Kept {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept
}

// learn takes in marks, which never fall; true when they rose.
func (m *marks) learn(k store.Kept) (rose bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rose = k.Events > m.kept.Events || k.Steps > m.kept.Steps
	m.kept.Events, m.kept.Steps = max(m.kept.Events, k.Events), max(m.kept.Steps, k.Steps)
	return rose
}

// queue asks the tables for the marks.
func (m *marks) queue(n names, out *pgx.Batch, k *store.Kept) {
	out.Queue(n.sql("SELECT kept_events, kept_steps FROM @head")).QueryRow(func(row pgx.Row) error { return row.Scan(&k.Events, &k.Steps) })
}

// ask sends questions to the tables, and asks for the marks behind them.
func (t *tables) ask(ctx context.Context, b *pgx.Batch) error {
	var k store.Kept
	t.marks.queue(t.names, b, &k)
	if err := t.db.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	t.begins(k)
	return nil
}

// begins takes in where the log begins now.
func (t *tables) begins(k store.Kept) {
	if t.marks.learn(k) {
		t.tail.cut(k.Events)
	}
}

// Kept implements store.Compactor.
func (s *Store) Kept(ctx context.Context) (store.Kept, error) {
	if err := s.enter(ctx, "read the marks"); err != nil {
		return store.Kept{}, err
	}
	return s.marks.read(), nil
}

// Compact implements store.Compactor. It takes the head for its last moment
// alone: appends go on while rows are deleted.
func (s *Store) Compact(ctx context.Context, fence store.Fence, c store.Compaction) (done store.Compacted, err error) {
	const op = "compact the log"
	if err := s.enter(ctx, op); err != nil {
		return store.Compacted{}, err
	}
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		done = store.Compacted{}
		return s.compact(ctx, tx, fence, &c, &done)
	})
	if err != nil {
		return store.Compacted{}, s.fail(ctx, op, err)
	}
	s.begins(done.Kept)
	return done, nil
}

// compact does one call's work inside a transaction.
func (s *Store) compact(ctx context.Context, tx pgx.Tx, fence store.Fence, c *store.Compaction, done *store.Compacted) error {
	var before store.Kept
	var checkpoint, token, position, stamp int64
	out := new(pgx.Batch)
	s.marks.queue(s.names, out, &before)
	out.Queue(s.names.sql("SELECT min(checkpoint), coalesce((SELECT token FROM @shards WHERE shard = $1::integer), 0) FROM @shards"), fence.Shard).
		QueryRow(func(row pgx.Row) error { return row.Scan(&checkpoint, &token) })
	out.Queue(s.names.sql(selectEnd), 0, false).QueryRow(func(row pgx.Row) error { return row.Scan(&position, &stamp, nil) }) // before the last record goes
	if err := tx.SendBatch(ctx, out).Close(); err != nil {
		return fmt.Errorf("read the marks: %w", err)
	}
	if fence.Token < 1 || fence.Token != token {
		return notInForce(fence)
	}
	if err := c.Check(engine.Position(min(checkpoint, position))); err != nil {
		return err
	}
	done.Kept, done.Done = c.Next(before)

	out = new(pgx.Batch)
	count := func(rows *int, sql string, args ...any) {
		out.Queue(s.names.sql("WITH done AS ("+sql+" RETURNING 1) SELECT count(*) FROM done"), args...).QueryRow(func(row pgx.Row) error { return row.Scan(rows) })
	}
	count(&done.Aside, "INSERT INTO @aside SELECT * FROM @events WHERE position = ANY($1::bigint[]) ON CONFLICT DO NOTHING", numbers(c.Keeps(before.Events, done.Kept.Events)))
	count(&done.Events, "DELETE FROM @events WHERE position <= $1", int64(done.Kept.Events))
	count(&done.Steps, "DELETE FROM @steps WHERE position > $1 AND position <= $2 AND kind <> ALL($3::bytea[])",
		int64(before.Steps), int64(done.Kept.Steps), [][]byte{[]byte(engine.StepPolicy), []byte(engine.StepSilence)})
	count(&done.Released, "DELETE FROM @aside WHERE position = ANY($1::bigint[])", numbers(c.Release))
	// The head goes before the shard, as in a claim: the other way round each
	// would wait for the other.
	out.Queue(s.names.sql(`UPDATE @head SET position = greatest(position, $1), stamp = greatest(stamp, $2),
		kept_events = greatest(kept_events, $3), kept_steps = greatest(kept_steps, $4)`), position, stamp, int64(done.Kept.Events), int64(done.Kept.Steps))
	if err := tx.SendBatch(ctx, out).Close(); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	return s.holdShard(ctx, tx, fence)
}

func numbers(positions []engine.Position) []int64 {
	out := make([]int64, len(positions))
	for i, p := range positions {
		out[i] = int64(p)
	}
	return out
}

// Aside implements store.Compactor.
func (t *tables) Aside(ctx context.Context, after engine.Position, limit int) ([]engine.Position, error) {
	var p int64
	return list(ctx, t, "list the side table", []any{&p}, func() (engine.Position, error) { return engine.Position(p), nil },
		"SELECT position FROM @aside WHERE position > $1 ORDER BY position LIMIT $2", int64(after), max(limit, 0))
}

// DropStates implements store.Compactor. All rows are of the fence's shard.
func (s *Store) DropStates(ctx context.Context, fence store.Fence, rows []store.StateAt) (dropped int, err error) {
	const op = "drop states"
	if err := s.enter(ctx, op); err != nil {
		return 0, err
	}
	scopes, positions := make([][]byte, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		if shard := engine.Shard(r.Scope); shard != fence.Shard {
			return 0, fmt.Errorf("%s: scope %q: %w: it is of shard %d, and the token of shard %d", op, r.Scope, store.ErrFenced, shard, fence.Shard)
		}
		scopes[i], positions[i] = []byte(r.Scope), int64(r.Position)
	}
	err = pgx.BeginTxFunc(ctx, s.pool, pgx.TxOptions{BeginQuery: begin}, func(tx pgx.Tx) error {
		if err := s.holdShard(ctx, tx, fence); err != nil {
			return err
		}
		return tx.QueryRow(ctx, s.names.sql(`
			WITH gone AS (
				DELETE FROM @states s USING unnest($1::bytea[], $2::bigint[]) AS u (scope, position)
				WHERE s.scope = u.scope AND s.position = u.position RETURNING s.scope
			), blocks AS (
				DELETE FROM @blocks WHERE scope IN (SELECT scope FROM gone)
			)
			SELECT count(*) FROM gone`), scopes, positions).Scan(&dropped)
	})
	if err != nil {
		return 0, s.fail(ctx, op, err)
	}
	return dropped, nil
}
