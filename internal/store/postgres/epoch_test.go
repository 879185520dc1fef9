package postgres_test

import (
	"errors"
	"testing"
	"time"

	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/postgres/pgtest"
)

// A log that was put back gets another epoch, once no replica is alive, and
// nothing else changes.
func TestNewEpoch(t *testing.T) {
	address := servers.Database(t)
	address = pgtest.With(t, address, "prefix=mine_")
	s := open(t, address, postgres.Options{Migrate: true})
	write(t, s, one("a", "1"))
	before, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	claim(t, s, "one", time.Minute)
	if err := s.NewEpoch(t.Context()); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("while a replica is alive: %v, want locked", err)
	}
	if err := s.Release(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	if err := s.NewEpoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Head(t.Context()); !errors.Is(err, store.ErrReplaced) {
		t.Errorf("who had it open is told %v, want replaced", err)
	}
	after, err := open(t, address, postgres.Options{}).Head(t.Context())
	if err != nil || after.Epoch == before.Epoch || after.Position != before.Position || after.Stamp < before.Stamp {
		t.Errorf("head %+v, %v; it was %+v", after, err, before)
	}
}
