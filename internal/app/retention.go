package app

import (
	"attend/internal/retention"
	"attend/internal/store"
)

// buildRetention makes the keeper of the log, where the store can be shortened.
func (a *App) buildRetention() {
	keeps := a.cfg.Retention
	if keeps.Events == 0 {
		return
	}
	shortened, ok := a.store.(retentionStore)
	if !ok {
		a.log.Warn("the log of this store cannot be shortened: it is kept for ever", "store", a.cfg.Store.String())
		return
	}
	a.retention = retention.New(retention.Options{
		Store: shortened, Fence: a.runner.Fence,
		Events: keeps.Events, Steps: keeps.Steps, Every: keeps.Every,
		Logger: a.log, Registerer: a.opt.Registry,
	})
}

// retentionStore is a store that can be shortened.
type retentionStore interface {
	store.Store
	store.Compactor
}

// startRetention starts the keeper.
func (a *App) startRetention() {
	if a.retention != nil {
		a.runUntilStopped("retention", a.retention.Run)
	}
}
