package memory

import (
	"context"
	"maps"
	"slices"

	"attend/internal/store"
)

// change adds the changes of an append that was admitted.
func (s *Store) change(a *store.FieldAppend) {
	changes := s.fields[a.Name]
	for _, c := range a.Changes {
		c.Number = int64(len(changes)) + 1
		changes = append(changes, c)
	}
	s.fields[a.Name] = changes
}

// FieldChanges implements store.Fields.
func (s *Store) FieldChanges(ctx context.Context, name string, after int64, limit int) ([]store.FieldChange, error) {
	if err := s.lock(ctx, "read field"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	changes := s.fields[name]
	end := int64(len(changes))
	from := min(max(after, 0), end)
	to := from + min(int64(max(limit, 0)), end-from)
	// As with the records of the log, the caller may share what never changes.
	return changes[from:to:to], nil
}

// FieldHead implements store.Fields.
func (s *Store) FieldHead(ctx context.Context, name string) (int64, error) {
	if err := s.lock(ctx, "read field's head"); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return int64(len(s.fields[name])), nil
}

// FieldNames implements store.Fields.
func (s *Store) FieldNames(ctx context.Context, after string, limit int) ([]string, error) {
	if err := s.lock(ctx, "list fields"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	names := slices.Sorted(maps.Keys(s.fields))
	from, found := slices.BinarySearch(names, after)
	if found {
		from++
	}
	return names[from : from+min(max(limit, 0), len(names)-from)], nil
}
