package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"

	"attend/internal/engine"
	"attend/internal/store"
)

// states are the stored folds, with their names in order.
type states struct {
	rows   map[string]*state
	names  []string // of rows; the last ones may be out of order
	sorted bool
}

// state is a row, and its dedup blocks by rising Seq.
type state struct {
	row    store.StateRow // without blocks
	blocks []store.Block
}

func (s *states) save(row *store.StateRow) {
	old := s.rows[row.Scope]
	if old == nil {
		old = new(state)
		s.rows[row.Scope] = old
		s.names, s.sorted = append(s.names, row.Scope), false
	} else if row.Position < old.row.Position {
		return
	}
	old.row = *row
	old.row.Body = bytes.Clone(row.Body)
	old.row.Blocks, old.row.DropBlocksBefore = nil, 0
	for _, b := range row.Blocks {
		at, known := slices.BinarySearchFunc(old.blocks, b.Seq, func(b store.Block, seq int64) int { return cmp.Compare(b.Seq, seq) })
		if !known { // a block is never rewritten
			old.blocks = slices.Insert(old.blocks, at, store.Block{Seq: b.Seq, Body: bytes.Clone(b.Body)})
		}
	}
	old.blocks = slices.DeleteFunc(old.blocks, func(b store.Block) bool { return b.Seq < row.DropBlocksBefore })
}

// after returns the names behind the one given, in order.
func (s *states) after(name string) []string {
	if !s.sorted {
		slices.Sort(s.names)
		s.sorted = true
	}
	at, found := slices.BinarySearch(s.names, name)
	if found {
		at++
	}
	return s.names[at:]
}

// SaveStates implements store.States.
func (s *Store) SaveStates(ctx context.Context, fence store.Fence, rows []store.StateRow, checkpoint engine.Position) error {
	if err := s.lock(ctx, "save states"); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if err := s.checkFence(fence); err != nil {
		return store.Describe("save states", err)
	}
	for i := range rows {
		s.states.save(&rows[i])
	}
	at := s.checkpointOf(fence.Shard)
	*at = max(*at, checkpoint)
	return nil
}

// LoadState implements store.States.
func (s *Store) LoadState(ctx context.Context, scope string) (store.StateRow, error) {
	if err := s.lock(ctx, "load state"); err != nil {
		return store.StateRow{}, err
	}
	defer s.mu.Unlock()
	st := s.states.rows[scope]
	if st == nil {
		return store.StateRow{}, store.Describe("load state", store.ErrNotFound)
	}
	if err := engine.CheckFormat(st.row.Format); err != nil {
		return store.StateRow{}, store.Describe("load state", err)
	}
	row := st.row
	row.Blocks = slices.Clone(st.blocks)
	return row, nil
}

// LiveStates implements store.States.
func (s *Store) LiveStates(ctx context.Context, after string, limit int) ([]store.StateRow, error) {
	if err := s.lock(ctx, "load live states"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.StateRow
	for _, name := range s.states.after(after) {
		if len(out) >= limit {
			break
		}
		row := s.states.rows[name].row
		if !row.Live && row.WakeAt == 0 {
			continue
		}
		if err := engine.CheckFormat(row.Format); err != nil {
			return nil, store.Describe("load live states", err)
		}
		out = append(out, row)
	}
	return out, nil
}

// ScopeNames implements store.States.
func (s *Store) ScopeNames(ctx context.Context, after string, limit int) ([]string, error) {
	if err := s.lock(ctx, "list scopes"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	names := s.states.after(after)
	return slices.Clone(names[:min(len(names), max(limit, 0))]), nil
}

// Checkpoint implements store.States.
func (s *Store) Checkpoint(ctx context.Context, fence store.Fence) (engine.Position, error) {
	if err := s.lock(ctx, "read checkpoint"); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return *s.checkpointOf(fence.Shard), nil
}

func (s *Store) put(p *store.Put) {
	if p.Value == nil {
		delete(s.rows[p.Space], p.Key)
		return
	}
	if s.rows[p.Space] == nil {
		s.rows[p.Space] = make(map[string][]byte)
	}
	s.rows[p.Space][p.Key] = bytes.Clone(p.Value)
}

// Row implements store.Rows.
func (s *Store) Row(ctx context.Context, space, key string) ([]byte, error) {
	if err := s.lock(ctx, "read row"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	v, ok := s.rows[space][key]
	if !ok {
		return nil, store.Describe("read row", store.ErrNotFound)
	}
	return bytes.Clone(v), nil
}

// Rows implements store.Rows.
func (s *Store) Rows(ctx context.Context, space string) ([]store.Put, error) {
	if err := s.lock(ctx, "read rows"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.Put
	for _, key := range slices.Sorted(maps.Keys(s.rows[space])) {
		out = append(out, store.Put{Space: space, Key: key, Value: bytes.Clone(s.rows[space][key])})
	}
	return out, nil
}

// Own implements store.Owner.
func (s *Store) Own(ctx context.Context) (store.Fence, error) {
	if err := s.lock(ctx, "own the store"); err != nil {
		return store.Fence{}, err
	}
	defer s.mu.Unlock()
	if err := s.leases.end(s.clock.Time()); err != nil {
		return store.Fence{}, store.Describe("own the store", err)
	}
	s.fence = store.Fence{Shard: -1, Token: s.fence.Token + 1}
	return s.fence, nil
}

// Secret implements store.Store.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	if err := s.lock(ctx, "read secret"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return bytes.Clone(s.secret), nil
}
