package app

import (
	"context"
	"fmt"

	"attend/internal/fields"
)

// buildFields makes the service that keeps the Fields. It is closed after the
// last request has been answered, and before the store.
func (a *App) buildFields() error {
	service, err := fields.New(fields.Options{
		Store:      a.store,
		Settings:   a.cfg.Field.Settings,
		Ingest:     a.cfg.Field.Ingest,
		Policy:     a.runner.Policy,
		PushEvery:  a.cfg.Field.PushEvery,
		Shared:     a.leases != nil,
		Logger:     a.log,
		Registerer: a.opt.Registry,
	})
	if err != nil {
		return fmt.Errorf("build the Fields: %w", err)
	}
	a.fields = service
	a.cleanups.push("fields", func(context.Context) error {
		service.Close()
		return nil
	})
	return nil
}
