package sqlite

import (
	"context"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

var _ store.Importer = (*Store)(nil)

// checkImported refuses a store into which an import was begun and not finished.
func checkImported(ctx context.Context, q querier) error {
	var begun bool
	if err := q.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM meta WHERE key = ?)", metaImporting).Scan(&begun); err != nil {
		return fmt.Errorf("look for an import: %w", err)
	}
	if begun {
		return store.ErrImporting
	}
	return nil
}

// BeginImport implements store.Importer.
func (s *Store) BeginImport(ctx context.Context) error {
	return s.do(ctx, "begin the import", func(ctx context.Context, w *session) error {
		var holds bool
		err := w.conn.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM events) OR EXISTS (SELECT 1 FROM steps) OR EXISTS (SELECT 1 FROM aside)
			OR EXISTS (SELECT 1 FROM states) OR EXISTS (SELECT 1 FROM rows) OR EXISTS (SELECT 1 FROM fields)`).Scan(&holds)
		if err != nil {
			return fmt.Errorf("look for what it holds: %w", err)
		}
		if end, _ := s.tail.end(); holds || end > 0 || s.writer.importing {
			return store.ErrNotEmpty
		}
		if _, err := w.conn.ExecContext(ctx, "INSERT INTO meta (key, value) VALUES (?, 1)", metaImporting); err != nil {
			return fmt.Errorf("mark the store: %w", err)
		}
		s.writer.importing = true
		return nil
	})
}

// Import implements store.Importer.
func (s *Store) Import(ctx context.Context, part store.ImportPart) error {
	return s.do(ctx, "import", func(ctx context.Context, w *session) error {
		if !s.writer.importing {
			return fmt.Errorf("%w: no import was begun", store.ErrInvalid)
		}
		b, err := s.writer.importedFields(ctx, part.Fields)
		if err != nil {
			return err
		}
		return w.transaction(ctx, func() error {
			if err := w.importRecords(ctx, part.Records); err != nil {
				return err
			}
			if err := w.importAside(ctx, part.Aside); err != nil {
				return err
			}
			for i := range part.States {
				if err := w.save(ctx, &part.States[i]); err != nil {
					return fmt.Errorf("state of %q: %w", part.States[i].Scope, err)
				}
			}
			for i := range part.Rows {
				row := part.Rows[i]
				row.Value = blob(row.Value)
				if err := w.putRows(ctx, []store.Put{row}); err != nil {
					return err
				}
			}
			return w.insertChanges(ctx, b)
		})
	})
}

// importedFields makes a batch of changes.
func (w *writer) importedFields(ctx context.Context, fields []store.FieldAppend) (*batch, error) {
	b := new(batch)
	for i := range fields {
		p := &pending{Entry: store.Entry{Field: &fields[i]}}
		if err := p.Check(); err != nil {
			return nil, err
		}
		if err := w.admitField(ctx, p); err != nil {
			return nil, fmt.Errorf("%w: %w", store.ErrInvalid, err)
		}
		b.entries = append(b.entries, p)
		for j := range p.Field.Changes {
			b.changes = append(b.changes, changeRow{field: p.head, number: p.Field.After + 1 + int64(j), change: &p.Field.Changes[j]})
		}
		p.head.last = p.Field.Last()
	}
	return b, nil
}

func (s *session) importRecords(ctx context.Context, records []engine.Record) error {
	var events, steps []*engine.Record
	var bodies [][]byte
	for i := range records {
		r := &records[i]
		if r.Event != nil {
			events = append(events, r)
			continue
		}
		body, err := engine.EncodeStep(r.Step)
		if err != nil {
			return err
		}
		steps, bodies = append(steps, r), append(bodies, body)
	}
	err := s.events.insert(ctx, len(events), func(args []any, i int) []any { return importedEvent(args, events[i]) })
	if err != nil {
		return fmt.Errorf("insert events: %w", err)
	}
	err = s.steps.insert(ctx, len(steps), func(args []any, i int) []any {
		b := batch{stamp: steps[i].Stamp, steps: []stepRow{{position: steps[i].Position, scope: steps[i].Scope, step: steps[i].Step, body: bodies[i]}}}
		return b.stepRow(args, 0)
	})
	if err != nil {
		return fmt.Errorf("insert steps: %w", err)
	}
	return nil
}

func importedEvent(args []any, r *engine.Record) []any {
	b := batch{stamp: r.Stamp, events: []eventRow{{
		position: r.Position, shard: uint8(engine.Shard(r.Scope)), //nolint:gosec // there are 256 shards
		event: &store.NewEvent{Scope: r.Scope, Event: *r.Event},
	}}}
	return b.eventRow(args, 0)
}

func (s *session) importAside(ctx context.Context, records []engine.Record) error {
	if len(records) == 0 {
		return nil
	}
	aside, err := s.inserter(ctx, "aside", eventColumns, eventWidth)
	if err != nil {
		return err
	}
	err = aside.insert(ctx, len(records), func(args []any, i int) []any { return importedEvent(args, &records[i]) })
	if err != nil {
		return fmt.Errorf("insert into the side table: %w", err)
	}
	return nil
}

// FinishImport implements store.Importer.
func (s *Store) FinishImport(ctx context.Context, end store.ImportEnd) error {
	return s.do(ctx, "finish the import", func(ctx context.Context, w *session) error {
		if !s.writer.importing {
			return fmt.Errorf("%w: no import was begun", store.ErrInvalid)
		}
		position, _, err := readEnd(ctx, w.conn)
		if err != nil {
			return err
		}
		if position = max(position, end.Kept.Events); position != end.Position {
			return fmt.Errorf("%w: the log ends at %d, not at %d", store.ErrInvalid, position, end.Position)
		}
		err = w.transaction(ctx, func() error {
			err := w.raise(ctx, map[string]int64{
				"checkpoint": int64(end.Checkpoint), "head_position": int64(end.Position), "head_stamp": int64(end.Stamp),
				metaKeptEvents: int64(end.Kept.Events), metaKeptSteps: int64(end.Kept.Steps),
			})
			if err != nil {
				return err
			}
			if _, err := w.conn.ExecContext(ctx, "DELETE FROM meta WHERE key = ?", metaImporting); err != nil {
				return fmt.Errorf("take the mark away: %w", err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		s.writer.importing = false
		s.writer.numbered.reset()
		s.writer.kept.Store(&end.Kept)
		s.clock.Raise(end.Stamp)
		s.tail.restart(end.Position, end.Stamp)
		return nil
	})
}
