package app

import (
	"testing"

	"attend/internal/config"
	"attend/internal/store/memory"
)

func TestLeases_NotWhereTheStoreIsThisProcessAlone(t *testing.T) {
	a := &App{cfg: &config.Config{Store: config.Store{Kind: config.StoreMemory}}, store: memory.New(memory.Options{})}
	if a.leases() != nil {
		t.Error("the memory store is shared out by leases")
	}
	a.cfg.Store.Kind = config.StorePostgres
	if a.leases() == nil {
		t.Error("a store that is shared is not shared out by leases")
	}
}

func TestReplicaName_IsOfOneProcess(t *testing.T) {
	if a, b := replicaName(), replicaName(); a == b {
		t.Errorf("two processes on a host are both %q", a)
	}
}
