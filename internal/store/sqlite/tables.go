package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"attend/internal/engine"
	"attend/internal/store"
)

// readers is how many connections read at a time.
const readers = 4

// tables reads what is stored, through a pool of connections that cannot
// write. Reads are short: a long one would keep the WAL from being reused.
type tables struct {
	db     *sql.DB
	closed atomic.Bool
}

// openTables opens the pool on a store whose schema is known.
func openTables(ctx context.Context, file string) (*tables, error) {
	return openTablesOf(ctx, file, readers)
}

// openTablesOf opens a pool of n connections.
func openTablesOf(ctx context.Context, file string, n int) (*tables, error) {
	db, err := openDB(dsn(file, "ro", "busy_timeout(5000)", "query_only(1)", "temp_store(MEMORY)"), n)
	if err != nil {
		return nil, err
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("connect: %w", err), db.Close())
	}
	return &tables{db: db}, nil
}

func (t *tables) close() error {
	t.closed.Store(true)
	return t.db.Close()
}

// enter refuses a read of a closed store.
func (t *tables) enter(op string) error {
	if t.closed.Load() {
		return store.Describe(op, store.ErrClosed)
	}
	return nil
}

// fail says what kind of failure a read met.
func (t *tables) fail(ctx context.Context, op string, err error) error {
	var format *engine.FormatError
	switch {
	case err == nil:
		return nil
	case t.closed.Load():
		return store.Describe(op, store.ErrClosed)
	case ctx.Err() != nil:
		return store.Describe(op, ctx.Err())
	case errors.Is(err, sql.ErrNoRows):
		return store.Describe(op, store.ErrNotFound)
	case errors.As(err, &format):
		return store.Describe(op, err)
	default:
		return fmt.Errorf("%s: %w: %w", op, store.ErrUnavailable, err)
	}
}

// readEnd returns the last position and stamp of the log: those of the tables,
// or those written down with the checkpoint, when what stood behind them has
// been deleted since.
func readEnd(ctx context.Context, q querier) (p engine.Position, stamp engine.Time, err error) {
	err = q.QueryRowContext(ctx, `
		SELECT max(position), max(stamp) FROM (
			SELECT * FROM (SELECT position, stamp FROM events ORDER BY position DESC LIMIT 1)
			UNION ALL
			SELECT * FROM (SELECT position, stamp FROM steps ORDER BY position DESC LIMIT 1)
			UNION ALL
			SELECT coalesce((SELECT value FROM meta WHERE key = 'head_position'), 0),
				coalesce((SELECT value FROM meta WHERE key = 'head_stamp'), 0))`).Scan(&p, &stamp)
	if err != nil {
		return 0, 0, fmt.Errorf("read the end of the log: %w", err)
	}
	return p, stamp, nil
}

// read returns records after a position and up to another, at most limit, in
// order. What is committed while it reads lies behind upto, so the two tables
// need no common snapshot.
func (t *tables) read(ctx context.Context, after, upto engine.Position, limit int) ([]engine.Record, error) {
	const where = " WHERE position > ? AND position <= ? ORDER BY position LIMIT ?"
	events, err := t.events(ctx, limit, "SELECT "+eventColumns+" FROM events"+where, int64(after), int64(upto), limit)
	if err != nil {
		return nil, err
	}
	if len(events) == limit {
		upto = events[limit-1].Position
	}
	steps, err := t.steps(ctx, "SELECT "+stepColumns+" FROM steps"+where, int64(after), int64(upto), limit)
	if err != nil {
		return nil, err
	}
	if len(steps) == 0 {
		return events, nil
	}
	merged := make([]engine.Record, 0, min(limit, len(events)+len(steps)))
	for len(merged) < limit && len(events)+len(steps) > 0 {
		from := &events
		if len(events) == 0 || (len(steps) > 0 && steps[0].Position < events[0].Position) {
			from = &steps
		}
		merged = append(merged, (*from)[0])
		*from = (*from)[1:]
	}
	return merged, nil
}

// events runs a query for events; about n are expected.
func (t *tables) events(ctx context.Context, n int, query string, args ...any) ([]engine.Record, error) {
	rows, err := t.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var (
		out                           = make([]engine.Record, 0, min(n, groupRecords))
		position, stamp, kind, policy int64
		shard, format                 int
		at                            sql.NullInt64
		txt                           sql.NullString
	)
	for rows.Next() {
		e := new(engine.Event)
		r := engine.Record{Event: e}
		if err := rows.Scan(&position, &stamp, &shard, &r.Scope, &e.ID, &e.Name, &kind, &policy, &at, &e.Data, &txt, &format); err != nil {
			return nil, fmt.Errorf("event at position %d: %w", position, err)
		}
		if err := engine.CheckFormat(format); err != nil {
			return nil, fmt.Errorf("event at position %d: %w", position, err)
		}
		r.Position, r.Stamp = engine.Position(position), engine.Time(stamp)
		e.Kind, e.Policy, e.Text = engine.Kind(kind), uint32(policy), txt.String //nolint:gosec // as they were written
		if at.Valid {
			sent := engine.Time(at.Int64)
			e.At = &sent
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// steps runs a query for steps.
func (t *tables) steps(ctx context.Context, query string, args ...any) ([]engine.Record, error) {
	rows, err := t.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []engine.Record
	for rows.Next() {
		var (
			r                    engine.Record
			position, stamp      int64
			shard, owned, format int
			kind                 string
			window, id, route    sql.NullString
			body                 []byte
		)
		if err := rows.Scan(&position, &stamp, &shard, &r.Scope, &kind, &window, &id, &route, &owned, &format, &body); err != nil {
			return nil, fmt.Errorf("step at position %d: %w", position, err)
		}
		if r.Step, err = engine.DecodeStep(body, format); err != nil {
			return nil, fmt.Errorf("step at position %d: %w", position, err)
		}
		r.Position, r.Stamp = engine.Position(position), engine.Time(stamp)
		out = append(out, r)
	}
	return out, rows.Err()
}

// pick adds the events at the positions given to found.
func (t *tables) pick(ctx context.Context, positions []engine.Position, found map[engine.Position]engine.Record) error {
	if len(positions) == 0 {
		return nil
	}
	list, err := json.Marshal(positions)
	if err != nil {
		return err
	}
	events, err := t.events(ctx, len(positions),
		"SELECT "+eventColumns+" FROM events WHERE position IN (SELECT value FROM json_each(?))", string(list))
	if err != nil {
		return err
	}
	for _, r := range events {
		found[r.Position] = r
	}
	if len(events) == len(positions) {
		return nil
	}
	// What was deleted since stands in the side table, if it stands anywhere.
	events, err = t.events(ctx, len(positions)-len(events),
		"SELECT "+eventColumns+" FROM aside WHERE position IN (SELECT value FROM json_each(?))", string(list))
	if err != nil {
		return err
	}
	for _, r := range events {
		found[r.Position] = r
	}
	return nil
}

// selectSteps answers a query from the table.
func (t *tables) selectSteps(ctx context.Context, q *store.StepQuery) ([]engine.Record, error) {
	query, args := stepQuery(q)
	return t.steps(ctx, query, args...)
}

// stepQuery writes the query so that rows come out of an index in order of
// position: one arm for each key of the index that there may be rows under,
// which SQLite merges. With a single arm and IN it would sort every row behind
// q.After for each page.
func stepQuery(q *store.StepQuery) (query string, args []any) {
	var where strings.Builder
	var common []any
	and := func(condition string, args ...any) {
		where.WriteString(" AND " + condition)
		common = append(common, args...)
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(q.Kinds)))
	if q.ID != "" {
		and("id = ?", q.ID)
	}
	if q.Window != "" {
		and("window_id = ?", q.Window)
	}
	if q.Scope != "" {
		and("scope = ?", q.Scope)
	}
	arms := [][]any{{}}
	arm := ""
	switch {
	case q.ID != "" || q.Window != "":
	case q.Scope != "":
		arm, arms = " AND owned = ?", [][]any{{0}, {1}}
	case len(kinds) > 0:
		arm, arms = " AND kind = ?", nil
		for _, k := range kinds {
			arms = append(arms, []any{string(k)})
		}
	}
	if len(kinds) > 0 && (q.ID != "" || q.Window != "" || q.Scope != "") {
		and("kind IN (?"+strings.Repeat(",?", len(kinds)-1)+")", anys(kinds)...)
	}
	selects := make([]string, len(arms))
	for i := range arms {
		selects[i] = "SELECT " + stepColumns + " FROM steps WHERE position > ?" + where.String() + arm
		args = append(append(append(args, int64(q.After)), common...), arms[i]...)
	}
	return strings.Join(selects, " UNION ALL ") + " ORDER BY position LIMIT ?", append(args, q.Count())
}

func anys(kinds []engine.StepKind) []any {
	out := make([]any, len(kinds))
	for i, k := range kinds {
		out[i] = string(k)
	}
	return out
}
