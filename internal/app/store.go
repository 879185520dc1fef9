package app

import (
	"context"
	"errors"
	"fmt"

	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
	"attend/internal/store/postgres"
	"attend/internal/store/sqlite"
)

// buildStore opens the store that the configuration names.
func (a *App) buildStore(ctx context.Context) error {
	st, err := a.openStore(ctx)
	if err != nil {
		return fmt.Errorf("open the store %s: %w", a.cfg.Store, unfinished(a.cfg.Store, err))
	}
	a.store = st
	a.cleanups.push("store", func(context.Context) error { return st.Close() })
	return nil
}

func (a *App) openStore(ctx context.Context) (store.Store, error) {
	switch s := a.cfg.Store; s.Kind {
	case config.StoreMemory:
		st := memory.New(memory.Options{})
		return st, st.Register(a.opt.Registry)
	case config.StoreSQLite:
		return sqlite.Open(ctx, s.File, sqlite.Options{Logger: a.log, Registerer: a.opt.Registry})
	case config.StorePostgres:
		return a.openPostgres(ctx)
	default:
		return nil, fmt.Errorf("there is no kind of store %q", s.Kind)
	}
}

// Log is a log opened for reading, beside the daemon that writes it.
type Log interface {
	// Read returns records with positions after `after`, in order, at most
	// limit. An empty result means that the end was reached.
	Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error)
	Close() error
}

// OpenLog opens the log of a store for reading.
func OpenLog(ctx context.Context, s config.Store) (Log, error) {
	switch s.Kind {
	case config.StoreSQLite:
		log, err := sqlite.OpenReader(ctx, s.File)
		if err != nil {
			return nil, fmt.Errorf("open the log of %s: %w", s, unfinished(s, err))
		}
		return log, nil
	case config.StorePostgres:
		log, err := postgres.Open(ctx, s.Address.Reveal(), postgres.Options{})
		if err != nil {
			return nil, fmt.Errorf("open the log of %s: %w", s, unfinished(s, err))
		}
		return log, nil
	case config.StoreMemory:
		return nil, errors.New("a memory store lives in the daemon's process alone: read it over HTTP")
	default:
		return nil, fmt.Errorf("there is no kind of store %q", s.Kind)
	}
}
