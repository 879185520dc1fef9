package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"attend/internal/config"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/sqlite"
)

// OpenSnapshot opens everything that a store holds as it is at this instant,
// beside the daemon that writes it.
func OpenSnapshot(ctx context.Context, s config.Store) (store.Snapshot, error) {
	if s.Kind == config.StoreSQLite {
		snapshot, err := sqlite.OpenSnapshot(ctx, s.File)
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", s, unfinished(s, err))
		}
		return snapshot, nil
	}
	opened, err := openAlone(ctx, s, postgres.Options{})
	if err != nil {
		return nil, err
	}
	from, ok := opened.(store.Snapshotter)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s: this kind of store cannot be exported whole", s), opened.Close())
	}
	snapshot, err := from.Snapshot(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", s, err), opened.Close())
	}
	return alone{snapshot, opened}, nil
}

// alone is a snapshot that closes its store with it.
type alone struct {
	store.Snapshot
	store store.Store
}

func (a alone) Close() error { return errors.Join(a.Snapshot.Close(), a.store.Close()) }

// ImportStore is a store that is imported into.
type ImportStore struct {
	store.Importer
	opened store.Store
	from   config.Store
	begun  bool
}

// BeginImport implements store.Importer.
func (s *ImportStore) BeginImport(ctx context.Context) error {
	err := s.Importer.BeginImport(ctx)
	s.begun = !errors.Is(err, store.ErrNotEmpty)
	return err
}

// Close closes the store. It explains a failure of the import that was made
// meanwhile: what has become of the store, and how it is mended.
func (s *ImportStore) Close(failure error) error {
	failure = errors.Join(failure, s.opened.Close())
	switch {
	case failure == nil:
		return nil
	case errors.Is(failure, store.ErrNotEmpty) && s.from.Kind == config.StorePostgres:
		return fmt.Errorf("%s holds something already: import into a store that is new, as with another prefix: add prefix=copy_ to the address", s.from)
	case errors.Is(failure, store.ErrNotEmpty):
		return fmt.Errorf("%s holds something already: import into a store that is new, as sqlite:copy.db", s.from)
	case !s.begun:
		return fmt.Errorf("nothing was imported into %s: %w", s.from, failure)
	default:
		return fmt.Errorf("the import broke off, and %s cannot be used: %w\nRemove it, and import again: %s", s.from, failure, removing(s.from))
	}
}

// OpenImport opens a store for an import, and makes it where there is none.
func OpenImport(ctx context.Context, s config.Store, log *slog.Logger) (*ImportStore, error) {
	opened, err := openAlone(ctx, s, postgres.Options{Logger: log, Migrate: true})
	if err != nil {
		return nil, err
	}
	to, ok := opened.(store.Importer)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s: nothing can be imported into this kind of store", s), opened.Close())
	}
	return &ImportStore{Importer: to, opened: opened, from: s}, nil
}

// unfinished says, of a store into which an import was not finished, how it is
// removed.
func unfinished(s config.Store, err error) error {
	if !errors.Is(err, store.ErrImporting) {
		return err
	}
	return fmt.Errorf("%w: remove it, and import again: %s", err, removing(s))
}

// removing says how a store is removed.
func removing(s config.Store) string {
	if s.Kind == config.StorePostgres {
		if drop, err := postgres.Drop(s.Address.Reveal()); err == nil {
			return drop
		}
	}
	return fmt.Sprintf("rm %[1]s %[1]s-wal %[1]s-shm", s.File)
}

// openAlone opens a store without a daemon.
func openAlone(ctx context.Context, s config.Store, o postgres.Options) (opened store.Store, err error) {
	switch s.Kind {
	case config.StoreSQLite:
		opened, err = sqlite.Open(ctx, s.File, sqlite.Options{Logger: o.Logger})
	case config.StorePostgres:
		opened, err = postgres.Open(ctx, s.Address.Reveal(), o)
	case config.StoreMemory:
		return nil, errors.New("a memory store lives in the daemon's process alone")
	default:
		return nil, fmt.Errorf("there is no kind of store %q", s.Kind)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s, unfinished(s, err))
	}
	return opened, nil
}

// NewEpoch gives the log of a store another epoch. No daemon may have it open.
func NewEpoch(ctx context.Context, s config.Store) error {
	if s.Kind == config.StoreSQLite {
		if _, err := os.Stat(s.File); err != nil { // opening would make it
			return fmt.Errorf("open %s: %w", s, err)
		}
	}
	opened, err := openAlone(ctx, s, postgres.Options{})
	if err != nil {
		return err
	}
	epochs, ok := opened.(interface {
		NewEpoch(ctx context.Context) error
	})
	if !ok {
		return errors.Join(fmt.Errorf("%s: the epoch of this kind of store cannot be changed", s), opened.Close())
	}
	return errors.Join(epochs.NewEpoch(ctx), opened.Close())
}
