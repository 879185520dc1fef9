package store

import (
	"fmt"

	"attend/internal/engine"
)

// Check reports what is wrong with an entry whatever the log holds: an event
// without a scope, an owner's step in an entry that carries no fence, a change
// of a Field that is none. Every store refuses such an entry alone, with an
// error that wraps ErrInvalid.
func (e *Entry) Check() error {
	for i := range e.Events {
		if e.Events[i].Scope == "" {
			return fmt.Errorf("%w: event %d of %d has no scope", ErrInvalid, i+1, len(e.Events))
		}
	}
	for i := range e.Steps {
		kind := e.Steps[i].Kind
		if kind == "" {
			return fmt.Errorf("%w: step %d of %d has no kind", ErrInvalid, i+1, len(e.Steps))
		}
		if !kind.Outside() && !e.Owned() {
			return fmt.Errorf("%w: a %s step is the owner's, and the entry has no fence: take one with Own", ErrInvalid, kind)
		}
	}
	for i := range e.Puts {
		if e.Puts[i].Space == "" {
			return fmt.Errorf("%w: row %d of %d has no space", ErrInvalid, i+1, len(e.Puts))
		}
	}
	if e.Field != nil {
		return e.Field.check()
	}
	return nil
}

// CheckFence refuses an owned entry whose fence is not the one in force for
// its shard, or is that of another shard than its scope's.
func (e *Entry) CheckFence(inForce Fence) error {
	if of := e.Fence.Shard; of >= 0 && e.Scope != "" && of != engine.Shard(e.Scope) {
		return fmt.Errorf("scope %q: %w: it is of shard %d, and the entry has the fence of shard %d", e.Scope, ErrFenced, engine.Shard(e.Scope), of)
	}
	if e.Fence != inForce {
		return fmt.Errorf("scope %q: %w: the entry has token %d of shard %d, in force is token %d of shard %d",
			e.Scope, ErrFenced, e.Fence.Token, e.Fence.Shard, inForce.Token, inForce.Shard)
	}
	return nil
}

// CheckAfter refuses an owned entry that does not follow the scope's last
// owner's step, which stands at last (0 for none).
func (e *Entry) CheckAfter(last engine.Position) error {
	if e.After != last {
		return fmt.Errorf("scope %q: %w: its last numbered step is at %d, the entry follows %d", e.Scope, ErrConflict, last, e.After)
	}
	return nil
}

// CheckDue refuses an owned entry before its time; stamp is what it would be
// written under.
func (e *Entry) CheckDue(stamp engine.Time) error {
	if stamp < e.Due {
		return fmt.Errorf("scope %q: %w: due at %d, and the log is at %d", e.Scope, ErrBehind, e.Due, stamp)
	}
	return nil
}

// Concerns reports whether a record that the owner has not applied forbids the
// entry: one of its scope or of every scope, stamped before Due.
func (e *Entry) Concerns(r *engine.Record) bool {
	return r.Position > e.Applied && r.Stamp < e.Due && (r.Scope == e.Scope || r.Scope == "")
}

// Unapplied is the error for an entry that the record at the position forbids.
func (e *Entry) Unapplied(at engine.Position) error {
	return fmt.Errorf("scope %q: %w: the record at %d was stamped before %d, and the owner has applied up to %d", e.Scope, ErrBehind, at, e.Due, e.Applied)
}
