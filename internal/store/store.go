// Package store holds the contract of the log and of what is stored beside it.
//
// There is one log for a daemon, or for all replicas of one: one sequence of
// positions over two tables, events and steps. Positions have no gaps, commit
// order is position order, stamps never fall along the log, so every reader
// may trust the head. What else is stored (state rows, dedup blocks, rows of
// consumers) can be rebuilt from the log or is written in the same commit as
// the records that it belongs to. Fields have logs of their own, each with its
// own numbers, written in the commit of an entry too.
//
// A store with one writer (memory, SQLite) gives positions and stamps as it
// seals a group. A store with many writers gives them from one head row that
// is held to commit. Callers see no difference.
package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attend/internal/engine"
)

// Errors of every store. They are wrapped with what was being done.
var (
	// ErrUnavailable: the database did not answer or refused to write. Nothing
	// is known of the entries in flight: the owner reads the log, a producer
	// sends again.
	ErrUnavailable = errors.New("store unavailable")
	// ErrReplaced: the log is not the one that was opened. It was restored to an
	// earlier moment, or a standby without its last records took over, and gives
	// positions anew that this process knows; or it has another epoch. The store
	// does nothing more, and the daemon must end: what it has folded is of
	// another log. It is an ErrUnavailable too, for producers, who send again.
	ErrReplaced = fmt.Errorf("%w: the log is not the one that was opened", ErrUnavailable)
	// ErrFenced: the fence's token is no longer the shard's. The owner must stop.
	ErrFenced = errors.New("fenced: another owner has taken over")
	// ErrConflict: Entry.After is not the scope's last numbered step, or
	// FieldAppend.After not the Field's last change. The writer reads on and
	// decides again.
	ErrConflict = errors.New("conflict: more has been written than the writer knows")
	// ErrBehind: a record of the scope stamped before Entry.Due stands behind
	// Entry.Applied, or the log's stamp has not reached Entry.Due. The owner
	// reads on and decides again.
	ErrBehind = errors.New("behind: the log holds what the owner has not applied")
	// ErrNotFound: there is no such row.
	ErrNotFound = errors.New("not found")
	// ErrLocked: another daemon has the database.
	ErrLocked = errors.New("locked: another attend daemon has this store")
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("store closed")
	// ErrInvalid: the call breaks the contract (Entry.Check). It is a fault of
	// the caller and fails the same way each time.
	ErrInvalid = errors.New("invalid entry")
)

// Fence is the right to write the steps of a shard: the token of the lease
// under which it is owned. A store with one owner for all has one fence, of
// shard -1. The zero Fence is nobody's.
type Fence struct {
	Shard int
	Token int64
}

// NewEvent is an event on its way into the log.
type NewEvent struct {
	Scope string
	engine.Event
}

// Put writes one small row in the commit of the entry that carries it: a
// consumer's position, a source's cursor. A nil Value deletes the row.
type Put struct {
	Space, Key string
	Value      []byte
}

// Spaces of rows.
const (
	SpaceConsumer = "consumer"
	// Of webhooks: what was granted, by whoever answered, and how far delivery
	// has come, by the owner of the subscription's shard.
	SpaceWebhook         = "webhook"
	SpaceWebhookProgress = "webhookProgress"
	// SpaceSource holds the cursors of sources, by the owner of each one's shard.
	SpaceSource = "source"
)

// Entry is what is written whole or not at all. A group commit takes many.
type Entry struct {
	Events []NewEvent    // in the order given
	Steps  []engine.Step // after the events
	Scope  string        // of the steps; "" for steps of every scope
	Puts   []Put
	Field  *FieldAppend // nil for none

	// For the owner's steps (those that are not engine.StepKind.Outside).
	Fence   Fence           // compared with the shard's token
	After   engine.Position // the position of the scope's last owner's step, 0 for none; compared
	Applied engine.Position // the owner has applied every record up to here
	Due     engine.Time     // not to be written at a stamp before this, nor over an unapplied record of the scope (or of every scope) stamped before this
}

// Owned reports whether the entry is written under a fence.
func (e *Entry) Owned() bool { return e.Fence != Fence{} }

// Receipt tells where an entry stands in the log: Events then Steps take the
// positions First to Last. An entry without any (Puts, Field) has no
// positions.
type Receipt struct {
	First, Last engine.Position
	Stamp       engine.Time
	Err         error // nil, or one of the errors above, wrapped; then nothing of the entry was written, unless it is ErrUnavailable
}

// Head is the end of the log.
type Head struct {
	Position engine.Position
	Stamp    engine.Time
	Epoch    string // drawn at creation and at restore: cursors of another epoch are stale
}

// Log is the ordered, durable record of everything that happens.
type Log interface {
	// Append writes entries durably and returns a receipt for each, in order.
	// Entries of one call stand in the log in the order given, each contiguous.
	// It returns when they are durable. Owner's entries go before others that
	// wait. An error concerns the call as a whole (ErrUnavailable, ErrClosed, or
	// the context's); then every receipt's outcome is unknown.
	//
	// The store keeps what the entries point to, and hands it out again by Read:
	// the caller must not change it afterwards, whatever the outcome. Strings
	// are kept byte for byte, zero bytes too; empty Data counts as absent.
	Append(ctx context.Context, entries ...Entry) ([]Receipt, error)

	// Head returns the end of what has been committed.
	Head(ctx context.Context) (Head, error)

	// Read returns committed records with positions after `after`, in order,
	// at most limit (> 0). An empty result means that the head was reached. The
	// caller may keep the records but must not change them.
	Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error)

	// Wait returns nil as soon as the head is past after, or the context's
	// error. It may return early; the caller reads and waits again.
	Wait(ctx context.Context, after engine.Position) error

	// Events returns the events at the positions given, in that order.
	// Positions that hold no event (any longer) are left out.
	Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error)

	// Steps returns steps in order, by query.
	Steps(ctx context.Context, q StepQuery) ([]engine.Record, error)
}

// StepQuery selects steps. Zero fields select everything.
type StepQuery struct {
	After  engine.Position
	Kinds  []engine.StepKind
	Scope  string // exact
	Window string // steps that concern this window id
	ID     string // the step with this decision or dead letter id
	Limit  int    // at most this many; 0 is 1,000
}

// StateRow is the stored fold of one scope. It covers every record of the
// scope up to Position.
type StateRow struct {
	Scope    string
	Position engine.Position
	WakeAt   engine.Time // when the clock alone makes something due; 0 for never
	Live     bool        // something is open, held, being judged or not yet recorded
	Format   int
	Body     []byte
	// Blocks are dedup blocks sealed since the row was last written (on write),
	// or all that are kept (on read), by rising Seq. A block is never rewritten.
	Blocks []Block
	// DropBlocksBefore deletes blocks of the scope with a Seq below it (on write).
	DropBlocksBefore int64
}

// Block is an append-only run of remembered event ids.
type Block struct {
	Seq  int64 // of its first id
	Body []byte
}

// States are the stored folds. They are hints: deleting all of them and the
// checkpoint loses nothing while the log is whole.
type States interface {
	// SaveStates writes rows and, if checkpoint is not 0, the checkpoint of the
	// fence's shard: every scope's row covers the log up to it, or the scope
	// has no records after its row. One commit. A row with a lower Position
	// than the stored one is ignored. Nothing is saved into a log that
	// ends before what this process has read or written of it: ErrReplaced.
	SaveStates(ctx context.Context, fence Fence, rows []StateRow, checkpoint engine.Position) error
	// LoadState returns a scope's row with its blocks, or ErrNotFound.
	LoadState(ctx context.Context, scope string) (StateRow, error)
	// LiveStates returns rows that are Live or have a WakeAt, without blocks,
	// ordered by scope, after the scope given.
	LiveStates(ctx context.Context, after string, limit int) ([]StateRow, error)
	// ScopeNames returns the names of all stored scopes after the one given.
	ScopeNames(ctx context.Context, after string, limit int) ([]string, error)
	// Checkpoint returns the checkpoint of the fence's shard, 0 for none.
	Checkpoint(ctx context.Context, fence Fence) (engine.Position, error)
}

// Rows are the small rows that entries put.
type Rows interface {
	// Row returns the value, or ErrNotFound.
	Row(ctx context.Context, space, key string) ([]byte, error)
	// Rows returns all rows of a space, by key.
	Rows(ctx context.Context, space string) ([]Put, error)
}

// Owner hands out the right to write steps.
type Owner interface {
	// Own takes the store's one fence, or (with many replicas) is refused
	// where leases rule. It fences every earlier owner.
	Own(ctx context.Context) (Fence, error)
}

// Store is all of it.
type Store interface {
	Log
	States
	Rows
	Fields
	Owner
	// Secret is 32 random bytes drawn once for the store.
	Secret(ctx context.Context) ([]byte, error)
	// Now is the store's clock, which gives the stamps.
	Now() time.Time
	Close() error
}

// Describe adds what was being done to an error, keeping it comparable.
func Describe(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", op, err)
}
