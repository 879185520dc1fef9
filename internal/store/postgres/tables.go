package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"attend/internal/engine"
	"attend/internal/store"
)

// asker is a pool, or one transaction.
type asker interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// tables reads what is stored.
type tables struct {
	db       asker
	names    names
	tail     *tail
	marks    marks
	epoch    string
	replaced atomic.Pointer[error] // why the log is not the one that was opened
	closed   atomic.Bool
}

// enter refuses a call on a closed store, on one whose log was replaced, or
// with an ended context.
func (t *tables) enter(ctx context.Context, op string) error {
	if t.closed.Load() {
		return store.Describe(op, store.ErrClosed)
	}
	if why := t.replaced.Load(); why != nil {
		return store.Describe(op, *why)
	}
	return store.Describe(op, ctx.Err())
}

// fail says what kind of failure a call met.
func (t *tables) fail(ctx context.Context, op string, err error) error {
	var format *engine.FormatError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrFenced), errors.Is(err, store.ErrInvalid), errors.Is(err, store.ErrNotEmpty), errors.Is(err, store.ErrReplaced), errors.Is(err, store.ErrLocked), errors.As(err, &format):
		return store.Describe(op, err)
	case t.closed.Load():
		return store.Describe(op, store.ErrClosed)
	case ctx.Err() != nil:
		return store.Describe(op, ctx.Err())
	case errors.Is(err, pgx.ErrNoRows):
		return store.Describe(op, store.ErrNotFound)
	default:
		return fmt.Errorf("%s: %w: %w", op, store.ErrUnavailable, err)
	}
}

// text scans what a string is stored as, byte for byte; null is "".
type text string

// ScanBytes implements pgtype.BytesScanner.
func (t *text) ScanBytes(b []byte) error {
	*t = text(b)
	return nil
}

// Columns as rows are read.
const (
	eventColumnsSelect = "SELECT position, stamp, scope, id, name, kind, policy, at, data, text, format FROM "
	eventSelect        = eventColumnsSelect + "@events"
	stepSelect         = "SELECT position, stamp, scope, format, body FROM @steps"
)

// scanEvent makes a function that scans one row of eventSelect after another.
func scanEvent() (into []any, record func() (engine.Record, error)) {
	var (
		position, stamp, policy int64
		kind, format            int
		at                      *int64
		scope, id, name, txt    text
		data                    []byte
	)
	into = []any{&position, &stamp, &scope, &id, &name, &kind, &policy, &at, &data, &txt, &format}
	return into, func() (engine.Record, error) {
		if err := engine.CheckFormat(format); err != nil {
			return engine.Record{}, fmt.Errorf("event at position %d: %w", position, err)
		}
		e := &engine.Event{ID: string(id), Name: string(name), Kind: engine.Kind(kind), Policy: uint32(policy), Data: data, Text: string(txt)} //nolint:gosec // as they were written
		if at != nil {
			sent := engine.Time(*at)
			e.At = &sent
		}
		return engine.Record{Position: engine.Position(position), Stamp: engine.Time(stamp), Scope: string(scope), Event: e}, nil
	}
}

// scanStep makes a function that scans one row of stepSelect after another.
func scanStep() (into []any, record func() (engine.Record, error)) {
	var (
		position, stamp int64
		format          int
		scope           text
		body            []byte
	)
	into = []any{&position, &stamp, &scope, &format, &body}
	return into, func() (engine.Record, error) {
		step, err := engine.DecodeStep(body, format)
		if err != nil {
			return engine.Record{}, fmt.Errorf("step at position %d: %w", position, err)
		}
		return engine.Record{Position: engine.Position(position), Stamp: engine.Time(stamp), Scope: string(scope), Step: step}, nil
	}
}

// queueRecords queues a query whose rows are added to out.
func queueRecords(b *pgx.Batch, scan func() ([]any, func() (engine.Record, error)), out *[]engine.Record, sql string, args ...any) {
	into, record := scan()
	b.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, into, func() error {
			r, err := record()
			if err == nil {
				*out = append(*out, r)
			}
			return err
		})
		return err
	})
}

// read returns records after a position and up to another, at most limit, in
// order. What is committed while it reads lies behind upto, so the two tables
// need no common snapshot.
func (t *tables) read(ctx context.Context, after, upto engine.Position, limit int) ([]engine.Record, error) {
	const where = " WHERE position > $1 AND position <= $2 ORDER BY position LIMIT $3"
	var events, steps []engine.Record
	b := new(pgx.Batch)
	queueRecords(b, scanEvent, &events, t.names.sql(eventSelect+where), int64(after), int64(upto), limit)
	queueRecords(b, scanStep, &steps, t.names.sql(stepSelect+where), int64(after), int64(upto), limit)
	if err := t.ask(ctx, b); err != nil {
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

// pick adds the events at the positions given to found.
func (t *tables) pick(ctx context.Context, positions []engine.Position, found map[engine.Position]engine.Record) error {
	if len(positions) == 0 {
		return nil
	}
	asked := make([]int64, len(positions))
	for i, p := range positions {
		asked[i] = int64(p)
	}
	// What was deleted stands in the side table, if it stands anywhere. That is
	// asked second, so that what moves there meanwhile is not missed.
	var events []engine.Record
	b := new(pgx.Batch)
	for _, table := range []string{"@events", "@aside"} {
		queueRecords(b, scanEvent, &events, t.names.sql(eventColumnsSelect+table+" WHERE position = ANY($1::bigint[])"), asked)
	}
	if err := t.ask(ctx, b); err != nil {
		return err
	}
	for _, r := range events {
		found[r.Position] = r
	}
	return nil
}

// selectSteps answers a query from the table.
func (t *tables) selectSteps(ctx context.Context, q *store.StepQuery) ([]engine.Record, error) {
	sql, args := stepQuery(q)
	var steps []engine.Record
	b := new(pgx.Batch)
	queueRecords(b, scanStep, &steps, t.names.sql(sql), args...)
	return steps, t.ask(ctx, b)
}

// stepQuery writes the query so that rows come out of an index in order of
// position: one arm for each key of the index that there may be rows under,
// which Postgres merges. With a single arm and ANY it would sort every row
// behind q.After for each page.
func stepQuery(q *store.StepQuery) (sql string, args []any) {
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	where := " WHERE position > " + arg(int64(q.After))
	if q.ID != "" {
		where += " AND id = " + arg([]byte(q.ID))
	}
	if q.Window != "" {
		where += " AND window_id = " + arg([]byte(q.Window))
	}
	if q.Scope != "" {
		where += " AND scope = " + arg([]byte(q.Scope))
	}
	kinds := slices.Compact(slices.Sorted(slices.Values(q.Kinds)))
	arms := []string{""}
	switch {
	case q.ID != "" || q.Window != "":
	case q.Scope != "":
		arms = []string{" AND owned", " AND NOT owned"}
	case len(kinds) > 0:
		arms = nil
		for _, k := range kinds {
			arms = append(arms, " AND kind = "+arg([]byte(k)))
		}
	}
	if len(kinds) > 0 && (q.ID != "" || q.Window != "" || q.Scope != "") {
		names := make([][]byte, len(kinds))
		for i, k := range kinds {
			names[i] = []byte(k)
		}
		where += " AND kind = ANY(" + arg(names) + "::bytea[])"
	}
	for i := range arms {
		arms[i] = stepSelect + where + arms[i]
	}
	return strings.Join(arms, " UNION ALL ") + " ORDER BY position LIMIT " + arg(q.Count()), args
}

// list collects the rows of a query.
func list[T any](ctx context.Context, t *tables, op string, into []any, one func() (T, error), sql string, args ...any) ([]T, error) {
	if err := t.enter(ctx, op); err != nil {
		return nil, err
	}
	rows, err := t.db.Query(ctx, t.names.sql(sql), args...)
	if err != nil {
		return nil, t.fail(ctx, op, err)
	}
	var out []T
	_, err = pgx.ForEachRow(rows, into, func() error {
		v, err := one()
		if err == nil {
			out = append(out, v)
		}
		return err
	})
	if err != nil {
		return nil, t.fail(ctx, op, err)
	}
	return out, nil
}

// one reads one row; store.ErrNotFound when there is none.
func (t *tables) one(ctx context.Context, op, sql string, args []any, into ...any) error {
	if err := t.enter(ctx, op); err != nil {
		return err
	}
	return t.fail(ctx, op, t.db.QueryRow(ctx, t.names.sql(sql), args...).Scan(into...))
}
