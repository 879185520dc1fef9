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
			return nil, fmt.Errorf("open %s: %w", s, err)
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
type ImportStore interface {
	store.Importer
	Close() error
}

// OpenImport opens a store for an import, and makes it where there is none.
func OpenImport(ctx context.Context, s config.Store, log *slog.Logger) (ImportStore, error) {
	opened, err := openAlone(ctx, s, postgres.Options{Logger: log, Migrate: true})
	if err != nil {
		return nil, err
	}
	to, ok := opened.(ImportStore)
	if !ok {
		return nil, errors.Join(fmt.Errorf("%s: nothing can be imported into this kind of store", s), opened.Close())
	}
	return to, nil
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
		return nil, fmt.Errorf("open %s: %w", s, err)
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
