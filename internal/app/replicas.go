package app

import (
	"crypto/rand"
	"os"

	"attend/internal/config"
	"attend/internal/store"
)

// leases share the work out among the daemons that use one store. They are nil
// where the store is this process's alone: a file is locked, and memory, which
// has leases too, is shared by runners of one process only in tests.
func (a *App) leases() store.Leases {
	switch a.cfg.Store.Kind {
	case config.StoreMemory, config.StoreSQLite:
		return nil
	default:
		shared, _ := a.store.(store.Leases)
		return shared
	}
}

// replicaName names this process among the replicas: for people by its host,
// and by a draw, since no two processes may ever go by one name. One that is
// started again therefore waits, as any other would, until the leases of the
// one before expire, if that was killed.
func replicaName() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "attend"
	}
	return host + "-" + rand.Text()[:10]
}
