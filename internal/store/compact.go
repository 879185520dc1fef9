package store

import (
	"context"
	"fmt"
	"slices"

	"attend/internal/engine"
)

// Kept is where a log that has been compacted begins. Every event at or before
// Events was deleted, and every step at or before Steps, but for those that
// [Standing] names; Steps is never above Events.
type Kept struct {
	Events engine.Position
	Steps  engine.Position
}

// Standing reports whether steps of a kind are never deleted: those of every
// scope, policies and silences, by which what is left is folded. They are few.
func Standing(k engine.StepKind) bool {
	return k == engine.StepPolicy || k == engine.StepSilence
}

// Compaction says what is to be deleted.
type Compaction struct {
	// Events and Steps are up to where events and steps are deleted. Neither may
	// be above the lowest checkpoint or the head, since what is behind it is still to be
	// folded, nor Steps above Events. A mark that stands higher already stays.
	Events, Steps engine.Position
	// Keep are positions of events, rising, that something still names. Those
	// that the call deletes from the log go into a side table first: Log.Events
	// finds them there, Log.Read does not.
	Keep []engine.Position
	// Release are positions, rising, that leave the side table.
	Release []engine.Position
	// Limit bounds the call: each mark moves by at most so many positions.
	Limit int
}

// Compacted is what one call of Compact did.
type Compacted struct {
	Kept     Kept // from now on
	Events   int  // deleted from the log
	Steps    int  // deleted
	Aside    int  // of the events, copied into the side table first
	Released int  // deleted from the side table
	Done     bool // both marks have reached what was asked for
}

// StateAt names a state row as it was read. Its row is another one once the
// position has changed.
type StateAt struct {
	Scope    string
	Position engine.Position
}

// Compactor is a store whose log can be shortened from its beginning. Position
// and stamp of the head stay what they are, even when nothing is left.
//
// An owner's entry is compared with the steps that are left: where both the
// scope's last numbered step and Entry.After stand at or before Kept.Steps, the
// entry follows (Entry.CheckAfterKept).
type Compactor interface {
	// Kept returns the marks. It costs nothing. A reader asks after it has read:
	// a mark that is not past where it began means that nothing was missing.
	Kept(ctx context.Context) (Kept, error)

	// Compact deletes a bounded part in one commit: copies, deletions and marks
	// together, so that a crash at any instant leaves either all of it or
	// nothing. The caller calls again until it is Done. The fence is that of a
	// shard, or of the store. Errors: ErrInvalid (Compaction.Check), ErrFenced.
	Compact(ctx context.Context, fence Fence, c Compaction) (Compacted, error)

	// Aside returns the positions in the side table after the one given, rising.
	Aside(ctx context.Context, after engine.Position, limit int) ([]engine.Position, error)

	// DropStates deletes the state rows, with their blocks, that still stand at
	// their positions, in one commit. Rows of a shard need the fence of theirs.
	// It returns how many there were.
	DropStates(ctx context.Context, fence Fence, rows []StateAt) (int, error)
}

// Check reports what is wrong with a compaction of a log whose lowest
// checkpoint is given.
func (c *Compaction) Check(checkpoint engine.Position) error {
	switch {
	case c.Limit < 1:
		return fmt.Errorf("%w: compaction by %d positions a call: want at least 1", ErrInvalid, c.Limit)
	case c.Events < 0 || c.Steps < 0:
		return fmt.Errorf("%w: compaction up to %d and %d: want 0 or more", ErrInvalid, c.Events, c.Steps)
	case c.Steps > c.Events:
		return fmt.Errorf("%w: compaction of steps up to %d, of events up to %d: steps are kept at least as long", ErrInvalid, c.Steps, c.Events)
	case c.Events > checkpoint:
		return fmt.Errorf("%w: compaction up to %d, and the lowest checkpoint is %d: what is behind it is still to be folded", ErrInvalid, c.Events, checkpoint)
	case !slices.IsSorted(c.Keep) || !slices.IsSorted(c.Release):
		return fmt.Errorf("%w: positions to keep and to release must rise", ErrInvalid)
	}
	return nil
}

// Next is how far one call moves the marks, and whether that is all.
func (c *Compaction) Next(now Kept) (next Kept, done bool) {
	step := engine.Position(c.Limit)
	next.Events = max(now.Events, min(c.Events, now.Events+step))
	next.Steps = max(now.Steps, min(c.Steps, now.Steps+step, next.Events))
	return next, next.Events >= c.Events && next.Steps >= c.Steps
}

// Keeps are the positions to keep after one and up to another.
func (c *Compaction) Keeps(after, upto engine.Position) []engine.Position {
	from, _ := slices.BinarySearch(c.Keep, after+1)
	to, _ := slices.BinarySearch(c.Keep, upto+1)
	return c.Keep[from:max(from, to)]
}

// CheckAfterKept is CheckAfter in a log that has been compacted: steps at or
// before the mark are gone, and nobody can be behind them, since no owner
// starts before a checkpoint.
func (e *Entry) CheckAfterKept(last engine.Position, kept Kept) error {
	if e.After <= kept.Steps && last <= kept.Steps {
		return nil
	}
	return e.CheckAfter(last)
}
