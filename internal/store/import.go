package store

import (
	"context"
	"errors"

	"attend/internal/engine"
)

// Errors of imports.
var (
	// ErrNotEmpty: only an empty store can be imported into.
	ErrNotEmpty = errors.New("the store is not empty")
	// ErrImporting: an import into the store was begun and not finished. What it
	// holds is not a log.
	ErrImporting = errors.New("an import into this store was not finished")
)

// Snapshot is everything that a store holds but its epoch, its secret and its
// fences, as it was at one instant, whatever is written meanwhile. It is read
// once, by one goroutine, and closed.
type Snapshot interface {
	// Head is the end of the log at that instant, with the epoch.
	Head(ctx context.Context) (Head, error)
	Kept(ctx context.Context) (Kept, error)
	// Covered is the lowest checkpoint.
	Covered(ctx context.Context) (engine.Position, error)
	Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error)
	Aside(ctx context.Context, after engine.Position, limit int) ([]engine.Position, error)
	Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error)
	// States returns rows with their blocks, by scope, after the scope given.
	States(ctx context.Context, after string, limit int) ([]StateRow, error)
	// Spaces returns the spaces that have rows, in order.
	Spaces(ctx context.Context) ([]string, error)
	Rows(ctx context.Context, space string) ([]Put, error)
	FieldNames(ctx context.Context, after string, limit int) ([]string, error)
	FieldChanges(ctx context.Context, name string, after int64, limit int) ([]FieldChange, error)
	Close() error
}

// Snapshotter is a store that can be read as it is at one instant.
type Snapshotter interface {
	Snapshot(ctx context.Context) (Snapshot, error)
}

// ImportPart is a part of another store. Records, and the events of the side
// table, come in order; rows in any order, where no value is an empty one; changes of a Field as an append
// would bring them.
type ImportPart struct {
	Records []engine.Record
	Aside   []engine.Record // events
	States  []StateRow
	Rows    []Put
	Fields  []FieldAppend
}

// ImportEnd is where the imported log ends and begins.
type ImportEnd struct {
	Position   engine.Position
	Stamp      engine.Time
	Kept       Kept
	Checkpoint engine.Position // the lowest, for every shard
}

// Importer is a store that can take over what another one holds: with its
// positions and stamps, and with an epoch of its own, so that cursors of the
// other are stale. Until FinishImport the store is marked, and refuses to be
// opened with ErrImporting.
type Importer interface {
	// BeginImport marks the store. ErrNotEmpty when it holds anything.
	BeginImport(ctx context.Context) error
	// Import writes one part in one commit.
	Import(ctx context.Context, part ImportPart) error
	// FinishImport sets the ends of the log and takes the mark away.
	FinishImport(ctx context.Context, end ImportEnd) error
}
