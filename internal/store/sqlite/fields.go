package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attend/internal/store"
)

const (
	fieldChangesQuery = `SELECT number, format, body FROM changes
		WHERE field = (SELECT id FROM fields WHERE name = ?) AND number > ? ORDER BY number LIMIT ?`
	fieldHeadQuery  = "SELECT coalesce(max(number), 0) FROM changes WHERE field = (SELECT id FROM fields WHERE name = ?)"
	fieldNamesQuery = "SELECT name FROM fields WHERE name > ? ORDER BY name LIMIT ?"
	findFieldQuery  = "SELECT id, (SELECT max(number) FROM changes WHERE field = id) FROM fields WHERE name = ?" // for the writer
)

// fieldHead is a Field as the writer knows it.
type fieldHead struct {
	id   int64 // in the table fields, 0 until its first change is inserted
	last int64 // number of its last change
}

// admitField refuses an append that does not follow the Field's last change.
func (w *writer) admitField(ctx context.Context, p *pending) error {
	head, err := w.fieldHead(ctx, p.Field.Name)
	if err != nil {
		return &brokenError{err}
	}
	p.head = head
	return p.Field.CheckLast(head.last)
}

// fieldHead returns what is known of a Field, an empty head when there is none.
func (w *writer) fieldHead(ctx context.Context, name string) (*fieldHead, error) {
	if h, ok := w.fields.get(name); ok {
		return h, nil
	}
	h := new(fieldHead)
	err := w.session.findField.QueryRowContext(ctx, name).Scan(&h.id, &h.last)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("read the field's last change: %w", err)
	}
	w.fields.put(name, h)
	return h, nil
}

// insertChanges writes the changes of a batch, and the Fields that begin with
// them.
func (s *session) insertChanges(ctx context.Context, b *batch) error {
	for _, p := range b.entries {
		if p.Field == nil || p.head.id != 0 {
			continue
		}
		result, err := s.addField.ExecContext(ctx, p.Field.Name)
		if err != nil {
			return fmt.Errorf("add field: %w", err)
		}
		if p.head.id, err = result.LastInsertId(); err != nil {
			return fmt.Errorf("add field: %w", err)
		}
	}
	if err := s.changes.insert(ctx, len(b.changes), b.changeRow); err != nil {
		return fmt.Errorf("insert changes of fields: %w", err)
	}
	return nil
}

// FieldChanges implements store.Fields.
func (t *tables) FieldChanges(ctx context.Context, name string, after int64, limit int) ([]store.FieldChange, error) {
	return list(ctx, t, "read field", func(scan func(...any) error) (c store.FieldChange, err error) {
		err = scan(&c.Number, &c.Format, &c.Body)
		return c, err
	}, fieldChangesQuery, name, after, max(limit, 0))
}

// FieldHead implements store.Fields.
func (t *tables) FieldHead(ctx context.Context, name string) (int64, error) {
	const op = "read field's head"
	if err := t.enter(op); err != nil {
		return 0, err
	}
	var last int64
	err := t.db.QueryRowContext(ctx, fieldHeadQuery, name).Scan(&last)
	return last, t.fail(ctx, op, err)
}

// FieldNames implements store.Fields.
func (t *tables) FieldNames(ctx context.Context, after string, limit int) ([]string, error) {
	return list(ctx, t, "list fields", func(scan func(...any) error) (name string, err error) {
		err = scan(&name)
		return name, err
	}, fieldNamesQuery, after, max(limit, 0))
}
