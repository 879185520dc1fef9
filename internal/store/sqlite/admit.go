package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"attend/internal/engine"
	"attend/internal/store"
)

// brokenError is a comparison that could not be made.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// admit makes the comparisons that an entry asks for. In nearly all cases they
// are made in memory.
func (w *writer) admit(ctx context.Context, p *pending, stamp engine.Time) error {
	if w.importing {
		return store.ErrImporting
	}
	if p.Owned() {
		if err := w.admitOwned(ctx, p, stamp); err != nil {
			return err
		}
	}
	if p.Field != nil {
		return w.admitField(ctx, p)
	}
	return nil
}

// admitOwned makes the comparisons of an owner's entry.
func (w *writer) admitOwned(ctx context.Context, p *pending, stamp engine.Time) error {
	if err := p.CheckFence(w.fence); err != nil {
		return err
	}
	last, err := w.lastNumbered(ctx, p.Scope)
	if err != nil {
		return &brokenError{err}
	}
	if err := p.CheckAfterKept(last, *w.kept.Load()); err != nil {
		return err
	}
	if err := p.CheckDue(stamp); err != nil {
		return err
	}
	if p.Due == 0 {
		return nil
	}
	at, from := w.tail.forbids(&p.Entry)
	if at == 0 && p.Applied+1 < from {
		if at, err = w.session.forbids(ctx, &p.Entry, from); err != nil {
			return &brokenError{err}
		}
	}
	if at != 0 {
		return p.Unapplied(at)
	}
	return nil
}

// note remembers what the next comparisons need of an entry that is written:
// the scope's last numbered step, the Field's last change.
func (w *writer) note(p *pending) {
	for i := range p.Steps {
		if !p.Steps[i].Kind.Outside() {
			w.numbered.put(p.Scope, p.receipt.First+engine.Position(len(p.Events)+i))
		}
	}
	if p.Field != nil {
		p.head.last = p.Field.Last()
	}
}

// lastNumbered returns the position of the scope's last owner's step, 0 for
// none.
func (w *writer) lastNumbered(ctx context.Context, scope string) (engine.Position, error) {
	if p, ok := w.numbered.get(scope); ok {
		return p, nil
	}
	var p engine.Position
	err := w.session.lastNumbered.QueryRowContext(ctx, scope).Scan(&p)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read the scope's last step: %w", err)
	}
	w.numbered.put(scope, p)
	return p, nil
}

// forbids looks in the tables for a record that the entry passes over, before
// the position given; 0 for none. Stamps never fall along the log, so it stops
// at the first record that was stamped at the entry's due or later.
func (s *session) forbids(ctx context.Context, e *store.Entry, before engine.Position) (engine.Position, error) {
	for _, table := range []string{"events", "steps"} {
		var at engine.Position
		err := s.conn.QueryRowContext(ctx, `
			SELECT position FROM `+table+`
			WHERE position > ?1 AND position < coalesce(
				(SELECT position FROM `+table+` WHERE position > ?1 AND position < ?2 AND stamp >= ?3 ORDER BY position LIMIT 1), ?2)
			AND (scope = ?4 OR scope = '') ORDER BY position LIMIT 1`,
			int64(e.Applied), int64(before), int64(e.Due), e.Scope).Scan(&at)
		if err == nil {
			return at, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return 0, fmt.Errorf("look for unapplied %s: %w", table, err)
		}
	}
	return 0, nil
}

// recentMost is how many names one half of the memory holds.
const recentMost = 1 << 14

// recent remembers something of the names that were written last. It is
// bounded by halves: when the young one is full, it becomes the old one, and
// what was not asked for since is forgotten.
type recent[V any] struct{ young, old map[string]V }

func (r *recent[V]) get(name string) (V, bool) {
	if v, ok := r.young[name]; ok {
		return v, true
	}
	v, ok := r.old[name]
	if ok {
		r.put(name, v)
	}
	return v, ok
}

func (r *recent[V]) put(name string, v V) {
	if r.young == nil || len(r.young) >= recentMost {
		r.young, r.old = make(map[string]V), r.young
	}
	r.young[name] = v
}

func (r *recent[V]) reset() { r.young, r.old = nil, nil }
