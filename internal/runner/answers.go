package runner

import (
	"context"
	"sort"
	"sync"

	"attend/internal/engine"
)

// answers keeps what the fold said of records that somebody waits for:
// producers ask which events were duplicates, callers what a flush marked.
type answers struct {
	mu         sync.Mutex
	changed    chan struct{} // closed when the fold has gone on
	duplicates []engine.Position
	marks      map[engine.Position][]string
	marked     []engine.Position // keys of marks, oldest first
}

// keptAnswers bounds what is kept. Who waits asks within moments.
const keptAnswers = 1 << 16

func (a *answers) init() {
	a.changed = make(chan struct{})
	a.marks = make(map[engine.Position][]string)
}

// note keeps what one record brought. It comes before the record counts as
// applied.
func (a *answers) note(rec *engine.Record, out *engine.Outcome) {
	flush := rec.Step != nil && rec.Step.Kind == engine.StepFlush
	if !out.Duplicate && !flush {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if out.Duplicate {
		if len(a.duplicates) >= 2*keptAnswers {
			a.duplicates = append([]engine.Position(nil), a.duplicates[keptAnswers:]...)
		}
		a.duplicates = append(a.duplicates, rec.Position)
		return
	}
	if len(a.marked) >= keptAnswers {
		delete(a.marks, a.marked[0])
		a.marked = a.marked[1:]
	}
	a.marks[rec.Position] = out.Marked
	a.marked = append(a.marked, rec.Position)
}

// progress wakes those who wait for the fold.
func (a *answers) progress() {
	a.mu.Lock()
	defer a.mu.Unlock()
	close(a.changed)
	a.changed = make(chan struct{})
}

// reach waits until the fold has applied everything up to a position.
func (r *Runner) reach(ctx context.Context, p engine.Position) error {
	for {
		r.answers.mu.Lock()
		changed := r.answers.changed
		r.answers.mu.Unlock()
		if engine.Position(r.applied.Load()) >= p {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// Duplicates waits until the fold has applied the events first to last, and
// returns how many of them were duplicates.
func (r *Runner) Duplicates(ctx context.Context, first, last engine.Position) (int, error) {
	if err := r.reach(ctx, last); err != nil {
		return 0, err
	}
	r.answers.mu.Lock()
	defer r.answers.mu.Unlock()
	d := r.answers.duplicates
	from := sort.Search(len(d), func(i int) bool { return d[i] >= first })
	to := sort.Search(len(d), func(i int) bool { return d[i] > last })
	return to - from, nil
}

// Marked waits until the fold has applied the flush call at a position, and
// returns what it marked: a subset of open, held and judging.
func (r *Runner) Marked(ctx context.Context, p engine.Position) ([]string, error) {
	if err := r.reach(ctx, p); err != nil {
		return nil, err
	}
	r.answers.mu.Lock()
	defer r.answers.mu.Unlock()
	return r.answers.marks[p], nil
}

// Policy is the policy in force.
func (r *Runner) Policy() *engine.Policy { return r.policy.Load() }

// Remembers reports that the scope surely remembers an event id: what it says
// is committed and applied. False says nothing.
func (r *Runner) Remembers(name string, d engine.Digest) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.mem.byName[name]
	return s != nil && s.state != nil && s.state.Remembers(r.rules, d, engine.Time(r.now()))
}

// fullWindow is how many times maxEvents an open window may hold while the
// judge slot is taken.
const fullWindow = 10

// Refuses says why an event of a kind should not be taken into the scope now:
// "outboxFull" when a lane holds as much as it may, "windowFull", or "" for no
// reason. It is a hint for ingest alone; the fold takes whatever was
// acknowledged.
func (r *Runner) Refuses(name string, k engine.Kind) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.mem.byName[name]
	if s == nil || s.state == nil {
		return ""
	}
	set := r.rules.Latest().For(name)
	if _, full := s.state.Full(set); full {
		return "outboxFull"
	}
	if !k.Act() || s.state.Slot == nil {
		return ""
	}
	if open := &s.state.Open; len(open.Events) >= fullWindow*set.MaxEvents || open.Bytes >= set.MaxWindowBytes {
		return "windowFull"
	}
	return ""
}
