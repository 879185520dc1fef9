package sqlite_test

import (
	"path/filepath"
	"testing"
	"time"

	"attend/internal/store"
	"attend/internal/store/sqlite"
	"attend/internal/store/storetest"
)

func open(t *testing.T, path string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestContract(t *testing.T) {
	paths := make(map[store.Store]string)
	storetest.Run(t, func(t *testing.T, now func() time.Time) store.Store {
		path := filepath.Join(t.TempDir(), "attend.db")
		s := open(t, path, sqlite.Options{Now: now})
		paths[s] = path
		return s
	}, storetest.Reopen(func(t *testing.T, s store.Store, now func() time.Time) store.Store {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, paths[s], sqlite.Options{Now: now})
		paths[again] = paths[s]
		return again
	}))
}

// TestFaults: whichever call of a daemon fails, the store comes out the same.
func TestFaults(t *testing.T) {
	storetest.Faults(t, func(t *testing.T, now func() time.Time) store.Store {
		return open(t, filepath.Join(t.TempDir(), "attend.db"), sqlite.Options{Now: now})
	})
}

// TestDiffer compares the store with the memory store under random calls.
func TestDiffer(t *testing.T) {
	paths := make(map[store.Store]string)
	storetest.Differ(t, storetest.Contend("sqlite", func(t *testing.T, now func() time.Time) store.Store {
		path := filepath.Join(t.TempDir(), "attend.db")
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: now, Synchronous: sqlite.SynchronousNormal})
		if err != nil {
			t.Fatal(err)
		}
		paths[s] = path
		return s
	}, storetest.Reopen(func(t *testing.T, s store.Store, now func() time.Time) store.Store {
		path := paths[s]
		delete(paths, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := sqlite.Open(t.Context(), path, sqlite.Options{Now: now, Synchronous: sqlite.SynchronousNormal})
		if err != nil {
			t.Fatal(err)
		}
		paths[again] = path
		return again
	})))
}
