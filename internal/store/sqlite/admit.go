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

// admit makes the comparisons that an owner's entry asks for. In nearly all
// cases they are made in memory.
func (w *writer) admit(ctx context.Context, p *pending, stamp engine.Time) error {
	if !p.Owned() {
		return nil
	}
	if err := p.CheckFence(w.fence); err != nil {
		return err
	}
	last, err := w.lastNumbered(ctx, p.Scope)
	if err != nil {
		return &brokenError{err}
	}
	if err := p.CheckAfter(last); err != nil {
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

// note remembers the scope's last numbered step of an entry that is written.
func (w *writer) note(p *pending) {
	for i := range p.Steps {
		if !p.Steps[i].Kind.Outside() {
			w.numbered.put(p.Scope, p.receipt.First+engine.Position(len(p.Events)+i))
		}
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

// numberedMost is how many scopes one half of the memory holds.
const numberedMost = 1 << 14

// numbered remembers the last numbered step of the scopes that were written
// last. It is bounded by halves: when the young one is full, it becomes the
// old one, and what was not asked for since is forgotten.
type numbered struct{ young, old map[string]engine.Position }

func (n *numbered) get(scope string) (engine.Position, bool) {
	if p, ok := n.young[scope]; ok {
		return p, true
	}
	p, ok := n.old[scope]
	if ok {
		n.put(scope, p)
	}
	return p, ok
}

func (n *numbered) put(scope string, p engine.Position) {
	if n.young == nil || len(n.young) >= numberedMost {
		n.young, n.old = make(map[string]engine.Position), n.young
	}
	n.young[scope] = p
}

func (n *numbered) reset() { n.young, n.old = nil, nil }
