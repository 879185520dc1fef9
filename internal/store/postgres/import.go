package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
	"attend/internal/store"
)

var _ store.Importer = (*Store)(nil)

// BeginImport implements store.Importer. No other replica may have the store.
func (s *Store) BeginImport(ctx context.Context) error {
	const op = "begin the import"
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	err := s.holdingHead(ctx, func(tx pgx.Tx, end engine.Position, _ int64, _ string) error {
		var holds bool
		err := tx.QueryRow(ctx, s.names.sql(`SELECT EXISTS (SELECT FROM @aside) OR EXISTS (SELECT FROM @states) OR EXISTS (SELECT FROM @rows)
			OR EXISTS (SELECT FROM @fields) OR (SELECT importing FROM @head)`)).Scan(&holds)
		if err != nil {
			return fmt.Errorf("look for what it holds: %w", err)
		}
		if holds || end > 0 {
			return store.ErrNotEmpty
		}
		_, err = tx.Exec(ctx, s.names.sql("UPDATE @head SET importing = true"))
		return err
	})
	if err == nil {
		s.writer.importing.Store(true)
	}
	return s.fail(ctx, op, err)
}

// importing runs a part of an import in a transaction that holds the head.
func (s *Store) importing(ctx context.Context, op string, f func(tx pgx.Tx, end engine.Position) error) error {
	if err := s.enter(ctx, op); err != nil {
		return err
	}
	if !s.writer.importing.Load() {
		return fmt.Errorf("%s: %w: no import was begun", op, store.ErrInvalid)
	}
	err := s.holdingHead(ctx, func(tx pgx.Tx, end engine.Position, _ int64, _ string) error { return f(tx, end) })
	return s.fail(ctx, op, err)
}

// Import implements store.Importer.
func (s *Store) Import(ctx context.Context, part store.ImportPart) error {
	return s.importing(ctx, "import", func(tx pgx.Tx, _ engine.Position) error {
		out := new(pgx.Batch)
		for table, records := range map[string][]engine.Record{"@events": part.Records, "@aside": part.Aside} { //arch:sorted each table is written by itself
			if err := s.queueImported(out, table, records); err != nil {
				return err
			}
		}
		for rows := part.States; len(rows) > 0; {
			rows = s.queueStates(out, rows)
		}
		b := &batch{puts: make(map[rowKey][]byte, len(part.Rows))}
		for _, r := range part.Rows {
			b.puts[rowKey{r.Space, r.Key}] = notNull(r.Value)
		}
		if err := s.importFields(ctx, tx, b, part.Fields); err != nil {
			return err
		}
		b.queuePuts(s.names, out)
		b.queueChanges(s.names, out)
		return tx.SendBatch(ctx, out).Close()
	})
}

// importFields makes columns of changes, each Field's behind what it has.
func (s *Store) importFields(ctx context.Context, tx pgx.Tx, b *batch, fields []store.FieldAppend) error {
	last := make(map[string]int64)
	for i := range fields {
		f := &fields[i]
		if err := (&store.Entry{Field: f}).Check(); err != nil {
			return err
		}
		if _, ok := last[f.Name]; !ok {
			var n int64
			if err := tx.QueryRow(ctx, s.names.sql("SELECT coalesce(max(number), 0) FROM @field_changes WHERE name = $1"), []byte(f.Name)).Scan(&n); err != nil {
				return fmt.Errorf("field %q: %w", f.Name, err)
			}
			last[f.Name] = n
		}
		if err := f.CheckLast(last[f.Name]); err != nil {
			return fmt.Errorf("%w: %w", store.ErrInvalid, err)
		}
		last[f.Name] = f.Last()
		b.change(f)
	}
	return nil
}

// queueImported writes records with their positions and stamps: events into
// the table named, steps into theirs.
func (s *Store) queueImported(out *pgx.Batch, table string, records []engine.Record) error {
	if len(records) == 0 {
		return nil
	}
	b := new(batch)
	base := records[0].Position
	var eventStamps, stepStamps []int64
	for i := range records {
		r := &records[i]
		place, shard := int32(r.Position-base), engine.Shard(r.Scope) //nolint:gosec // a part holds less
		if r.Event != nil {
			b.event(&store.NewEvent{Scope: r.Scope, Event: *r.Event}, int16(shard)) //nolint:gosec // there are 256 shards
			b.events.place[len(b.events.place)-1] = place
			eventStamps = append(eventStamps, int64(r.Stamp))
			continue
		}
		body, err := engine.EncodeStep(r.Step)
		if err != nil {
			return fmt.Errorf("step at position %d: %w", r.Position, err)
		}
		b.step(r.Scope, shard, r.Step, body)
		b.steps.place[len(b.steps.place)-1] = place
		stepStamps = append(stepStamps, int64(r.Stamp))
	}
	e, p := &b.events, &b.steps
	out.Queue(s.names.sql(`INSERT INTO `+table+` (position, stamp, format, shard, kind, policy, at, scope, id, name, data, text)
		SELECT $1::bigint + u.place, u.stamp, $2::smallint, u.shard, u.kind, u.policy, u.at, u.scope, u.id, u.name, u.data, u.text
		FROM unnest($3::integer[], $4::bigint[], $5::smallint[], $6::smallint[], $7::bigint[], $8::bigint[],
			$9::bytea[], $10::bytea[], $11::bytea[], $12::bytea[], $13::bytea[])
			AS u (place, stamp, shard, kind, policy, at, scope, id, name, data, text)`),
		int64(base), int16(engine.Format), e.place, eventStamps, e.shard, e.kind, e.policy, e.at, e.scope, e.id, e.name, e.data, e.text)
	out.Queue(s.names.sql(`INSERT INTO @steps (position, stamp, format, shard, owned, scope, kind, window_id, id, body)
		SELECT $1::bigint + u.place, u.stamp, $2::smallint, u.shard, u.owned, u.scope, u.kind, u.window_id, u.id, u.body
		FROM unnest($3::integer[], $4::bigint[], $5::smallint[], $6::boolean[], $7::bytea[], $8::bytea[], $9::bytea[], $10::bytea[], $11::bytea[])
			AS u (place, stamp, shard, owned, scope, kind, window_id, id, body)`),
		int64(base), int16(engine.Format), p.place, stepStamps, p.shard, p.owned, p.scope, p.kind, p.window, p.id, p.body)
	return nil
}

// FinishImport implements store.Importer.
func (s *Store) FinishImport(ctx context.Context, end store.ImportEnd) error {
	err := s.importing(ctx, "finish the import", func(tx pgx.Tx, position engine.Position) error {
		if position = max(position, end.Kept.Events); position != end.Position {
			return fmt.Errorf("%w: the log ends at %d, not at %d", store.ErrInvalid, position, end.Position)
		}
		out := new(pgx.Batch)
		out.Queue(s.names.sql("UPDATE @head SET position = $1, stamp = $2, kept_events = $3, kept_steps = $4, importing = false"),
			int64(end.Position), int64(end.Stamp), int64(end.Kept.Events), int64(end.Kept.Steps))
		out.Queue(s.names.sql("UPDATE @shards SET checkpoint = greatest(checkpoint, $1)"), int64(end.Checkpoint))
		return tx.SendBatch(ctx, out).Close()
	})
	if err != nil {
		return err
	}
	s.clock.raise(end.Stamp)
	s.tail.restart(end.Position)
	s.begins(end.Kept)
	s.writer.importing.Store(false)
	return nil
}
