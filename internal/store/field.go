package store

import (
	"context"
	"fmt"
)

// FieldAppend adds changes to a Field in the commit of the entry that carries
// it. A Field is the fold of its own log of changes, whose numbers (1, 2, 3 and
// so on, without gaps) are its own and no positions of the log. The first
// append makes the Field.
type FieldAppend struct {
	Name    string        // not empty
	After   int64         // the number of the Field's last change, 0 for none; compared
	Changes []FieldChange // at least one; they take the numbers After+1 and on
}

// FieldChange is one change of a Field. What is in it is the writer's affair.
type FieldChange struct {
	Number int64  // on the way in 0 will do, or the number that it is to take
	Format int    // of the body, from 1
	Body   []byte // not empty
}

// Fields are the logs of changes of the Fields, written by Entry.Field. What
// Append has answered is read by every call that begins afterwards.
type Fields interface {
	// FieldChanges returns changes of a Field with numbers after `after`, in
	// order, at most limit (> 0), perhaps fewer. An empty result means that the
	// Field ends there, or that there is none. The caller may keep the changes
	// but must not change them.
	FieldChanges(ctx context.Context, name string, after int64, limit int) ([]FieldChange, error)
	// FieldHead returns the number of the Field's last change, 0 for none.
	FieldHead(ctx context.Context, name string) (int64, error)
	// FieldNames returns the names of all Fields after the one given, in byte
	// order, at most limit.
	FieldNames(ctx context.Context, after string, limit int) ([]string, error)
}

// check reports what is wrong with an append whatever the Field holds.
func (a *FieldAppend) check() error {
	switch {
	case a.Name == "":
		return fmt.Errorf("%w: the field has no name", ErrInvalid)
	case a.After < 0:
		return fmt.Errorf("%w: field %q: follows change %d: want 0 or more", ErrInvalid, a.Name, a.After)
	case len(a.Changes) == 0:
		return fmt.Errorf("%w: field %q: there are no changes", ErrInvalid, a.Name)
	}
	for i := range a.Changes {
		c, number := &a.Changes[i], a.After+1+int64(i)
		switch {
		case c.Number != 0 && c.Number != number:
			return fmt.Errorf("%w: field %q: change %d of %d has number %d: want %d", ErrInvalid, a.Name, i+1, len(a.Changes), c.Number, number)
		case c.Format < 1:
			return fmt.Errorf("%w: field %q: change %d of %d has format %d: want 1 or more", ErrInvalid, a.Name, i+1, len(a.Changes), c.Format)
		case len(c.Body) == 0:
			return fmt.Errorf("%w: field %q: change %d of %d has no body", ErrInvalid, a.Name, i+1, len(a.Changes))
		}
	}
	return nil
}

// Last is the number that the append's last change takes.
func (a *FieldAppend) Last() int64 { return a.After + int64(len(a.Changes)) }

// CheckLast refuses an append that does not follow the Field's last change,
// which has the number last (0 for none).
func (a *FieldAppend) CheckLast(last int64) error {
	if a.After != last {
		return fmt.Errorf("field %q: %w: its last change is %d, the entry follows %d", a.Name, ErrConflict, last, a.After)
	}
	return nil
}
