package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
	"attend/internal/store"
)

// facts are what the comparisons of a group need, as they stand while the head
// is held.
type facts struct {
	base    engine.Position            // of the last record
	epoch   string                     // of the log
	kept    store.Kept                 // where the log begins
	stamp   int64                      // that the group will not fall behind
	tokens  map[int]int64              // of shards
	last    map[string]engine.Position // the last numbered step, by scope
	fields  map[string]int64           // number of the last change, by name
	behind  []engine.Record            // what the tail does not hold: place, stamp and scope alone
	forbids map[*pending]engine.Position
}

// question collects what a group asks the tables.
type question struct {
	shards []int16
	scopes [][]byte
	fields [][]byte

	due       int64    // the latest Due
	after     int64    // from here on the tables are looked at for what forbids an entry
	dueScopes [][]byte // "" and those of the entries
}

// compare takes the head, makes every comparison that the entries ask for, and
// returns those that pass. The transaction stays open.
func (w *writer) compare(ctx context.Context, conn *pgx.Conn, want expect, entries []*pending, v *verdict) ([]*pending, error) {
	f := &facts{forbids: make(map[*pending]engine.Position)}
	q := w.ask(entries, f)
	if err := w.learn(ctx, conn, q, f); err != nil {
		return nil, fmt.Errorf("compare: %w", err)
	}
	if err := w.tables.check(want, f.base, f.epoch); err != nil {
		return nil, err
	}
	passed := make([]*pending, 0, len(entries))
	end := f.base // of the log, once what passed is written
	for _, p := range entries {
		if err := f.admit(p); err != nil {
			v.refuse(p, err)
			continue
		}
		f.note(p, end)
		end += engine.Position(p.records())
		passed = append(passed, p)
	}
	return passed, nil
}

// ask collects the question. What the tail holds is looked at here and now:
// records are never changed.
func (w *writer) ask(entries []*pending, f *facts) *question {
	q := &question{after: -1}
	shards, scopes, fields, due := make(map[int]bool), make(map[string]bool), make(map[string]bool), map[string]bool{"": true}
	for _, p := range entries {
		if p.Field != nil {
			fields[p.Field.Name] = true
		}
		if !p.Owned() {
			continue
		}
		if p.Fence.Shard >= 0 && p.Fence.Shard < engine.Shards {
			shards[p.Fence.Shard] = true
		}
		scopes[p.Scope] = true
		if p.Due == 0 {
			continue
		}
		at, after, whole := w.tail.forbids(&p.Entry)
		if at != 0 {
			f.forbids[p] = at
			continue
		}
		if !whole {
			after = p.Applied
		}
		after = max(after, p.Applied, 0)
		if q.after < 0 || int64(after) < q.after {
			q.after = int64(after)
		}
		q.due = max(q.due, int64(p.Due))
		due[p.Scope] = true
	}
	for _, s := range slices.Sorted(maps.Keys(shards)) {
		q.shards = append(q.shards, int16(s)) //nolint:gosec // there are 256 shards
	}
	q.scopes, q.fields, q.dueScopes = keys(scopes), keys(fields), keys(due)
	return q
}

func keys(set map[string]bool) [][]byte {
	out := make([][]byte, 0, len(set))
	for _, s := range slices.Sorted(maps.Keys(set)) {
		out = append(out, []byte(s))
	}
	return out
}

// The questions. All of them are asked after the head was taken, in the same
// turn of the server.
const (
	askTokens = `SELECT shard, token FROM @shards WHERE shard = ANY($1::smallint[])`
	askLast   = `SELECT u.scope, s.position FROM unnest($1::bytea[]) AS u (scope) CROSS JOIN LATERAL
		(SELECT position FROM @steps WHERE scope = u.scope AND owned ORDER BY position DESC LIMIT 1) s`
	askFields = `SELECT u.name, c.number FROM unnest($1::bytea[]) AS u (name) CROSS JOIN LATERAL
		(SELECT number FROM @field_changes WHERE name = u.name ORDER BY number DESC LIMIT 1) c`
	askBehind = `SELECT position, stamp, scope FROM @events WHERE position > $1 AND stamp < $2 AND scope = ANY($3::bytea[])
		UNION ALL SELECT position, stamp, scope FROM @steps WHERE position > $1 AND stamp < $2 AND scope = ANY($3::bytea[])
		ORDER BY position`
)

// learn takes the head and asks.
func (w *writer) learn(ctx context.Context, conn *pgx.Conn, q *question, f *facts) error {
	f.tokens, f.last, f.fields = make(map[int]int64), make(map[string]engine.Position), make(map[string]int64)
	out := new(pgx.Batch)
	queueHead(w.tables.names, out)
	out.Queue(w.tables.names.sql(selectEnd), w.clock.stamp(), w.clock.real()).QueryRow(func(row pgx.Row) error { return row.Scan(&f.base, &f.stamp, &f.epoch) })
	w.tables.marks.queue(w.tables.names, out, &f.kept)
	if len(q.shards) > 0 {
		var shard int
		var token int64
		each(out, w.tables.names.sql(askTokens), []any{q.shards}, []any{&shard, &token}, func() { f.tokens[shard] = token })
	}
	if len(q.scopes) > 0 {
		var scope text
		var position int64
		each(out, w.tables.names.sql(askLast), []any{q.scopes}, []any{&scope, &position}, func() { f.last[string(scope)] = engine.Position(position) })
	}
	if len(q.fields) > 0 {
		var name text
		var number int64
		each(out, w.tables.names.sql(askFields), []any{q.fields}, []any{&name, &number}, func() { f.fields[string(name)] = number })
	}
	if q.after >= 0 {
		var position, stamp int64
		var scope text
		each(out, w.tables.names.sql(askBehind), []any{q.after, q.due, q.dueScopes}, []any{&position, &stamp, &scope}, func() {
			f.behind = append(f.behind, engine.Record{Position: engine.Position(position), Stamp: engine.Time(stamp), Scope: string(scope)})
		})
	}
	return conn.SendBatch(ctx, out).Close()
}

// each queues a query and scans its rows one after another into the same
// places.
func each(out *pgx.Batch, sql string, args, into []any, do func()) {
	out.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, into, func() error { do(); return nil })
		return err
	})
}

// admit makes the comparisons of one entry.
func (f *facts) admit(p *pending) error {
	if p.Owned() {
		if err := f.admitOwned(p); err != nil {
			return err
		}
	}
	if p.Field != nil {
		return p.Field.CheckLast(f.fields[p.Field.Name])
	}
	return nil
}

func (f *facts) admitOwned(p *pending) error {
	token, known := f.tokens[p.Fence.Shard]
	switch {
	case !known || p.Fence.Token < 1:
		return fmt.Errorf("scope %q: %w: there is no token %d of shard %d", p.Scope, store.ErrFenced, p.Fence.Token, p.Fence.Shard)
	case p.numbered() && p.shard != p.Fence.Shard:
		return fmt.Errorf("scope %q: %w: it is of shard %d, and the entry has a token of shard %d", p.Scope, store.ErrFenced, p.shard, p.Fence.Shard)
	}
	if err := p.CheckFence(store.Fence{Shard: p.Fence.Shard, Token: token}); err != nil {
		return err
	}
	if err := p.CheckAfterKept(f.last[p.Scope], f.kept); err != nil {
		return err
	}
	if err := p.CheckDue(engine.Time(f.stamp)); err != nil {
		return err
	}
	if p.Due == 0 {
		return nil
	}
	if at := f.forbids[p]; at != 0 {
		return p.Unapplied(at)
	}
	for i := range f.behind {
		if p.Concerns(&f.behind[i]) {
			return p.Unapplied(f.behind[i].Position)
		}
	}
	return nil
}

// numbered reports whether one of the entry's steps is the owner's.
func (p *pending) numbered() bool {
	return slices.ContainsFunc(p.Steps, func(s engine.Step) bool { return !s.Kind.Outside() })
}

// note remembers what the next comparisons of the group need of an entry that
// passed and goes behind the end.
func (f *facts) note(p *pending, end engine.Position) {
	for i := range p.Steps {
		if !p.Steps[i].Kind.Outside() {
			f.last[p.Scope] = end + engine.Position(len(p.Events)+i+1)
		}
	}
	if p.Field != nil {
		f.fields[p.Field.Name] = p.Field.Last()
	}
}
