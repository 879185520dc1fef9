package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"attend/internal/engine"
	"attend/internal/store"
)

var _ store.Importer = (*Store)(nil)

// snapshot is a store that nobody writes to.
type snapshot struct{ *Store }

// Snapshot implements store.Snapshotter.
func (s *Store) Snapshot(ctx context.Context) (store.Snapshot, error) {
	if err := s.lock(ctx, "take a snapshot"); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	still := &Store{
		clock: s.clock, epoch: s.epoch, secret: s.secret, mu: sync.Mutex{}, changed: make(chan struct{}), log: s.log,
		fence: s.fence, leases: s.leases, checkpoint: s.checkpoint,
		states: states{rows: make(map[string]*state)},
		rows:   make(map[string]map[string][]byte), fields: maps.Clone(s.fields),
	}
	for _, name := range s.states.after("") {
		st := *s.states.rows[name]
		st.blocks = slices.Clone(st.blocks)
		still.states.rows[name] = &st
		still.states.names = append(still.states.names, name)
	}
	for space, rows := range s.rows { //arch:sorted each is copied by itself
		still.rows[space] = maps.Clone(rows)
	}
	return snapshot{still}, nil
}

// Covered implements store.Snapshot.
func (s snapshot) Covered(context.Context) (engine.Position, error) {
	if s.fence.Token == 0 || len(s.leases.alive) > 0 {
		return max(s.checkpoint, s.lowest(0)), nil
	}
	return s.checkpoint, nil
}

// States implements store.Snapshot.
func (s snapshot) States(ctx context.Context, after string, limit int) ([]store.StateRow, error) {
	names, err := s.ScopeNames(ctx, after, limit)
	rows := make([]store.StateRow, len(names))
	for i := range names {
		if err == nil {
			rows[i], err = s.LoadState(ctx, names[i])
		}
	}
	return rows, err
}

// Spaces implements store.Snapshot.
func (s snapshot) Spaces(context.Context) ([]string, error) {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(s.rows)), func(space string) bool { return len(s.rows[space]) == 0 }), nil
}

// importing is what an import has brought so far of the log.
type importing struct{ records, aside []engine.Record }

// BeginImport implements store.Importer.
func (s *Store) BeginImport(ctx context.Context) error {
	const op = "begin the import"
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.importing != nil {
		return store.Describe(op, store.ErrImporting)
	}
	if s.log.head() > 0 || len(s.states.rows) > 0 || len(s.rows) > 0 || len(s.fields) > 0 {
		return store.Describe(op, store.ErrNotEmpty)
	}
	s.importing = new(importing)
	return nil
}

// Import implements store.Importer.
func (s *Store) Import(ctx context.Context, part store.ImportPart) error {
	const op = "import"
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.importing == nil {
		return store.Describe(op, fmt.Errorf("%w: no import was begun", store.ErrInvalid))
	}
	s.importing.records = append(s.importing.records, part.Records...)
	s.importing.aside = append(s.importing.aside, part.Aside...)
	for i := range part.States {
		s.states.save(&part.States[i])
	}
	for _, row := range part.Rows {
		if row.Value == nil {
			row.Value = []byte{}
		}
		s.put(&row)
	}
	for i := range part.Fields {
		if err := part.Fields[i].CheckLast(int64(len(s.fields[part.Fields[i].Name]))); err != nil {
			return store.Describe(op, err)
		}
		s.change(&part.Fields[i])
	}
	return nil
}

// FinishImport implements store.Importer.
func (s *Store) FinishImport(ctx context.Context, end store.ImportEnd) error {
	const op = "finish the import"
	if err := s.lock(ctx, op); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.importing == nil {
		return store.Describe(op, fmt.Errorf("%w: no import was begun", store.ErrInvalid))
	}
	from := search(s.importing.records, end.Kept.Events)
	l := log{
		stamp: end.Stamp, base: end.Kept.Events, stepsMark: end.Kept.Steps,
		old: s.importing.records[:from:from], records: s.importing.records[from:], aside: s.importing.aside,
	}
	for i := range s.importing.records {
		r := &s.importing.records[i]
		if i >= from && r.Position != l.base+engine.Position(i-from)+1 {
			return store.Describe(op, fmt.Errorf("%w: the record at %d follows a gap", store.ErrInvalid, r.Position))
		}
		if r.Step == nil {
			continue
		}
		if i >= from {
			l.steps = append(l.steps, r.Position)
		}
		if !r.Step.Kind.Outside() {
			s.numbered[r.Scope] = r.Position
		}
	}
	if l.head() != end.Position {
		return store.Describe(op, fmt.Errorf("%w: the log ends at %d, not at %d", store.ErrInvalid, l.head(), end.Position))
	}
	s.log, s.checkpoint, s.importing = l, end.Checkpoint, nil
	for i := range s.leases.shards {
		s.leases.shards[i].checkpoint = end.Checkpoint
	}
	s.clock.Raise(end.Stamp)
	close(s.changed)
	s.changed = make(chan struct{})
	return nil
}
