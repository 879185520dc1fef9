package runner

import (
	"container/heap"
	"container/list"
	"context"
	"errors"
	"fmt"
	"hash/maphash"

	"attend/internal/engine"
	"attend/internal/store"
)

// scope is what the runner keeps of one scope in memory. Its state is nil when
// only the time to wake is known; it is then loaded from its row. There may be
// millions of these: every byte counts.
type scope struct {
	name  string
	state *engine.State
	wake  engine.Time   // when to look at it, 0 for never
	used  *list.Element // in the order of use; nil when the state is not loaded
	call  *call         // a judge call that runs in this process
	shed  *shedding     // dropped events that no step tells yet; nil when there are none
	index int32         // in the heap of wake times; -1 when it is not there: nobody waits, or another replica does
	shard uint8
	dirty bool // the state differs from its row
	tell  bool // tell what was dropped now
	taken bool // it stands on the list of this pass
}

// memory holds the scopes. The runner's loop alone changes it, under the
// runner's lock where others read.
type memory struct {
	byName map[string]*scope
	wakes  wakeHeap
	recent *list.List // loaded scopes, the longest idle first
	open   int        // scopes with an open window

	// stored are the scopes that may have a row, by a hash of their names: a
	// scope that is new costs no look into the store.
	stored map[uint64]struct{}
	seed   maphash.Seed
}

func newMemory() memory {
	return memory{
		byName: make(map[string]*scope), recent: list.New(),
		stored: make(map[uint64]struct{}), seed: maphash.MakeSeed(),
	}
}

func (m *memory) hasRow(name string) bool {
	_, ok := m.stored[maphash.String(m.seed, name)]
	return ok
}

func (m *memory) rowWritten(name string) { m.stored[maphash.String(m.seed, name)] = struct{}{} }

// add makes a scope that is not in memory, without its state.
func (m *memory) add(name string) *scope {
	s := &scope{name: name, shard: uint8(engine.Shard(name)), index: -1}
	m.byName[name] = s
	return s
}

// wakeAt (re)arms the time at which the scope must be looked at.
func (m *memory) wakeAt(s *scope, at engine.Time, armed bool) {
	switch {
	case !armed:
		m.park(s, 0)
	case armed && s.index < 0:
		s.wake = at
		heap.Push(&m.wakes, s)
	case armed && s.wake != at:
		s.wake = at
		heap.Fix(&m.wakes, int(s.index))
	}
}

// park notes when the scope must be looked at, by whoever then owns it; nobody
// waits for it here.
func (m *memory) park(s *scope, at engine.Time) {
	if s.index >= 0 {
		heap.Remove(&m.wakes, int(s.index))
	}
	s.wake = at
}

// due takes a scope whose time to wake has come.
func (m *memory) due(now engine.Time) *scope {
	if len(m.wakes) == 0 || m.wakes[0].wake > now {
		return nil
	}
	return heap.Pop(&m.wakes).(*scope) //nolint:forcetypeassert // the heap holds nothing else
}

func (m *memory) touch(s *scope) {
	if s.used == nil {
		s.used = m.recent.PushBack(s)
		return
	}
	m.recent.MoveToBack(s.used)
}

// forget drops the state of a scope whose row covers it. The time to wake
// stays: a scope leaves memory, it never settles for want of memory.
func (m *memory) forget(s *scope) {
	m.recent.Remove(s.used)
	s.used, s.state = nil, nil
	if s.wake == 0 && s.call == nil {
		delete(m.byName, s.name)
	}
}

type wakeHeap []*scope

func (h wakeHeap) Len() int           { return len(h) }
func (h wakeHeap) Less(i, j int) bool { return h[i].wake < h[j].wake }
func (h wakeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i), int32(j) //nolint:gosec // that many scopes do not fit
}

func (h *wakeHeap) Push(x any) {
	s := x.(*scope)          //nolint:forcetypeassert // the heap holds nothing else
	s.index = int32(len(*h)) //nolint:gosec // that many scopes do not fit
	*h = append(*h, s)
}

func (h *wakeHeap) Pop() any {
	old := *h
	s := old[len(old)-1]
	s.index, old[len(old)-1] = -1, nil
	*h = old[:len(old)-1]
	return s
}

// load returns the scope with its state, from memory, from its row, or new.
func (r *Runner) load(ctx context.Context, name string) (*scope, error) {
	s := r.mem.byName[name]
	if s != nil && s.state != nil {
		return s, nil
	}
	state, err := r.readState(ctx, name)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s == nil {
		s = r.mem.add(name)
	}
	s.state = state
	if len(state.Open.Events) > 0 {
		r.mem.open++
	}
	r.mem.touch(s)
	return s, nil
}

// readState reads a scope's row. A row is a hint: one that is damaged is made
// again from the log.
func (r *Runner) readState(ctx context.Context, name string) (*engine.State, error) {
	if !r.mem.hasRow(name) {
		return engine.NewState(name), nil
	}
	row, err := r.store.LoadState(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return engine.NewState(name), nil
	}
	if err != nil {
		return nil, fmt.Errorf("load the state of %q: %w", name, err)
	}
	end, err := r.logEnd(ctx, &row)
	if err != nil {
		return nil, fmt.Errorf("load the state of %q: %w", name, err)
	}
	state, err := r.decodeState(&row, end)
	var newer *engine.FormatError
	if errors.As(err, &newer) {
		return nil, fmt.Errorf("load the state of %q: %w", name, err)
	}
	if err != nil {
		r.log.Error("a stored state is damaged; it is made again from what the log still holds", "scope", name, "error", err)
		return r.refold(ctx, name)
	}
	return state, nil
}

// logEnd is where the log ends, as far as it matters for a row. The replica
// that owns the scope may be further on than this one: then the rules that its
// row was made with are read ahead, as at a start.
func (r *Runner) logEnd(ctx context.Context, row *store.StateRow) (engine.Position, error) {
	end := max(r.liveFrom, engine.Position(r.applied.Load()))
	if r.opt.Leases == nil || row.Position <= end {
		return end, nil
	}
	head, err := r.store.Head(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the head: %w", err)
	}
	return head.Position, r.restoreRules(ctx)
}

func (r *Runner) decodeState(row *store.StateRow, end engine.Position) (*engine.State, error) {
	state, err := engine.DecodeState(r.rules, row.Body, row.Format, func(yield func(int64, []byte) error) error {
		for _, b := range row.Blocks {
			if err := yield(b.Seq, b.Body); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if state.Scope != row.Scope || state.Position != row.Position || state.Position > end {
		return nil, fmt.Errorf("the row of %q at %d holds the state of %q at %d, and the log ends at %d",
			row.Scope, row.Position, state.Scope, state.Position, end)
	}
	return state, nil
}

// refold makes a scope's state from all of its records that have been applied.
func (r *Runner) refold(ctx context.Context, name string) (*engine.State, error) {
	state := engine.NewState(name)
	for at, end := engine.Position(0), engine.Position(r.applied.Load()); at < end; {
		recs, err := r.store.Read(ctx, at, readLimit)
		if err != nil {
			return nil, fmt.Errorf("make the state of %q again: %w", name, err)
		}
		if len(recs) == 0 {
			break
		}
		for i := range recs {
			at = recs[i].Position
			if at <= end && recs[i].Scope == name {
				if err := r.fill(ctx, &recs[i], state); err != nil {
					return nil, fmt.Errorf("make the state of %q again: %w", name, err)
				}
				state.Apply(r.rules, &recs[i])
			}
		}
	}
	return state, nil
}
