package sqlite_test

import (
	"errors"
	"path/filepath"
	"testing"

	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// A log that was brought back gets another epoch, and nothing else changes.
func TestNewEpoch(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attend.db")
	s := open(t, path, sqlite.Options{})
	mustAppend(t, s, store.Entry{Events: []store.NewEvent{event("a", "1")}})
	before, err := s.Head(t.Context())
	if err == nil {
		err = errors.Join(s.NewEpoch(t.Context()), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	again := open(t, path, sqlite.Options{})
	after, err := again.Head(t.Context())
	if err != nil || after.Epoch == before.Epoch || after.Position != before.Position || after.Stamp != before.Stamp {
		t.Errorf("head %+v, %v; it was %+v", after, err, before)
	}
}

// A store with half an import in it is opened by nobody.
func TestOpen_RefusesHalfAnImport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attend.db")
	s := open(t, path, sqlite.Options{})
	err := s.BeginImport(t.Context())
	if err == nil {
		err = errors.Join(s.Import(t.Context(), store.ImportPart{Rows: []store.Put{{Space: "x", Key: "k"}}}), s.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); !errors.Is(err, store.ErrImporting) {
		t.Errorf("open: %v", err)
	}
	if _, err := sqlite.OpenReader(t.Context(), path); !errors.Is(err, store.ErrImporting) {
		t.Errorf("open for reading: %v", err)
	}
	if _, err := sqlite.OpenSnapshot(t.Context(), path); !errors.Is(err, store.ErrImporting) {
		t.Errorf("open a snapshot: %v", err)
	}
}
