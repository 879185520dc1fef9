package memory_test

import (
	"errors"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
	"attend/internal/store/storetest"
)

func TestLeases(t *testing.T) {
	storetest.RunLeases(t, func(_ *testing.T, now func() time.Time) store.Store {
		return memory.New(memory.Options{Now: now})
	})
}

// TestLeases_OrOneOwner: the two ways to share out the right to write exclude
// each other.
func TestLeases_OrOneOwner(t *testing.T) {
	clock := storetest.NewClock(1000)
	s := memory.New(memory.Options{Now: clock.Now})
	one, err := s.Own(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	many, err := s.Claim(t.Context(), "r", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.SaveStates(t.Context(), one, nil, 1); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the one owner writes beside replicas: %v", err)
	}
	if _, err := s.Own(t.Context()); !errors.Is(err, store.ErrLocked) {
		t.Errorf("the store is owned while a replica is alive: %v", err)
	}
	clock.Set(1000 + engine.Time(time.Second.Milliseconds()))
	if one, err = s.Own(t.Context()); err != nil {
		t.Fatalf("the store is not owned though no replica is alive: %v", err)
	}
	if err := s.SaveStates(t.Context(), many.Fences[0], nil, 1); !errors.Is(err, store.ErrFenced) {
		t.Errorf("a replica writes beside the one owner: %v", err)
	}
	if err := s.SaveStates(t.Context(), one, nil, 1); err != nil {
		t.Error(err)
	}
}
