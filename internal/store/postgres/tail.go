package postgres

import (
	"sort"
	"sync"

	"attend/internal/engine"
	"attend/internal/store"
)

// The tail holds at most this much, so that whoever keeps up with the log is
// never sent to the tables.
const (
	tailBytes   = 32 << 20
	tailRecords = 1 << 17
)

// recordOverhead is about what a record takes in memory beside its strings.
const recordOverhead = 192

// tail is the end of the log in memory. The writer adds what it commits, the
// follower what other replicas have committed between; everybody reads it.
type tail struct {
	maxBytes, maxRecords int

	mu       sync.RWMutex
	position engine.Position // up to which the tail is whole
	stamp    engine.Time     // of the record at position; 0 when it was not read
	known    engine.Position // up to which the log is known to go: at position or behind it
	runs     []run           // by position, without gaps, up to position
	bytes    int
	records  int
	changed  chan struct{} // closed and replaced when position grows, closed for good by close
	closed   bool
}

// run is records without gaps.
type run struct {
	records []engine.Record // at least one
	steps   []int           // where among the records the steps are
	bytes   int
}

func newRun(records []engine.Record) run {
	r := run{records: records}
	for i := range records {
		r.bytes += recordOverhead + len(records[i].Scope)
		if e := records[i].Event; e != nil {
			r.bytes += e.Size()
		} else {
			r.steps = append(r.steps, i)
			r.bytes += stepSize
		}
	}
	return r
}

// stepSize is about what a step takes in memory.
const stepSize = 2 << 10

func (r *run) first() engine.Position { return r.records[0].Position }
func (r *run) last() engine.Position  { return r.records[len(r.records)-1].Position }

func newTail(position engine.Position, records int) *tail {
	return &tail{maxBytes: tailBytes, maxRecords: records, position: position, known: position, changed: make(chan struct{})}
}

// end returns up to where the log is known to go, and up to where the tail
// holds it.
func (t *tail) end() (known, position engine.Position) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.known, t.position
}

// mark returns up to where the log is known to go, and the last record that the
// tail was given: where it stands, and its stamp, 0 for none.
func (t *tail) mark() (known, last engine.Position, stamp engine.Time) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.known, t.position, t.stamp
}

// learn takes in that the log goes up to a position; true when the tail does
// not.
func (t *tail) learn(known engine.Position) (behind bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = max(t.known, known)
	return t.known > t.position
}

// add takes committed records in and wakes everybody who waits. Those that the
// tail holds are passed over. It is false when records before them are missing:
// then somebody else has written, and they are read from the tables.
func (t *tail) add(records []engine.Record) bool {
	r := newRun(records)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = max(t.known, r.last())
	if r.last() <= t.position {
		return true
	}
	if r.first() > t.position+1 {
		return false
	}
	if held := int(t.position + 1 - r.first()); held > 0 {
		r = newRun(records[held:])
	}
	t.position, t.stamp = r.last(), r.records[len(r.records)-1].Stamp
	t.runs = append(t.runs, r)
	t.bytes += r.bytes
	t.records += len(r.records)
	for len(t.runs) > 1 && (t.bytes > t.maxBytes || t.records > t.maxRecords) {
		t.bytes -= t.runs[0].bytes
		t.records -= len(t.runs[0].records)
		t.runs[0] = run{}
		t.runs = t.runs[1:]
	}
	t.wake()
	return true
}

// restart forgets what it holds and goes on at a position: there is more
// between than it would keep.
func (t *tail) restart(position engine.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if position <= t.position {
		return
	}
	t.position, t.stamp, t.known = position, 0, max(position, t.known)
	t.runs, t.bytes, t.records = nil, 0, 0
	t.wake()
}

// cut forgets the records up to a position: the tables tell what is left of
// them.
func (t *tail) cut(upto engine.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.runs) > 0 && t.runs[0].first() <= upto {
		first := t.runs[0]
		t.bytes -= first.bytes
		t.records -= len(first.records)
		t.runs[0] = run{}
		t.runs = t.runs[1:]
		if first.last() > upto {
			rest := newRun(first.records[upto+1-first.first():])
			t.bytes += rest.bytes
			t.records += len(rest.records)
			t.runs = append([]run{rest}, t.runs...)
		}
	}
}

func (t *tail) wake() {
	if !t.closed {
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

// stir has everybody who waits look again.
func (t *tail) stir() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wake()
}

func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		close(t.changed)
	}
}

// watch returns up to where the tail holds the log, and what is closed when
// that changes.
func (t *tail) watch() (position engine.Position, changed <-chan struct{}, closed bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.position, t.changed, t.closed
}

// oldest is the first position that the tail holds; one behind its end when it
// holds none.
func (t *tail) oldest() engine.Position {
	if len(t.runs) == 0 {
		return t.position + 1
	}
	return t.runs[0].first()
}

// after finds the first run with a record behind the position.
func (t *tail) after(p engine.Position) []run {
	return t.runs[sort.Search(len(t.runs), func(i int) bool { return t.runs[i].last() > p }):]
}

// read returns the records after a position, at most limit; ok is false when
// the tail does not hold the first of them.
func (t *tail) read(after engine.Position, limit int) (records []engine.Record, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if after+1 < t.oldest() || (after >= t.position && after < t.known) {
		return nil, false
	}
	for _, r := range t.after(after) {
		from := max(int(after+1-r.first()), 0)
		records = append(records, r.records[from:min(len(r.records), from+limit-len(records))]...)
		if len(records) == limit {
			break
		}
	}
	return records, true
}

// steps answers a query; ok is false when the tail does not hold every record
// that the query is about.
func (t *tail) steps(q *store.StepQuery) (records []engine.Record, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if q.After+1 < t.oldest() || t.position < t.known {
		return nil, false
	}
	for _, r := range t.after(q.After) {
		for _, i := range r.steps {
			if q.Matches(&r.records[i]) {
				records = append(records, r.records[i])
				if len(records) == q.Count() {
					return records, true
				}
			}
		}
	}
	return records, true
}

// pick puts the events at the positions that the tail holds into found, and
// returns the others.
func (t *tail) pick(positions []engine.Position, found map[engine.Position]engine.Record) (others []engine.Position) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	oldest := t.oldest()
	for _, p := range positions {
		if p < oldest || p > t.position {
			others = append(others, p)
			continue
		}
		if runs := t.after(p - 1); len(runs) > 0 {
			if r := runs[0].records[p-runs[0].first()]; r.Event != nil {
				found[p] = r
			}
		}
	}
	return others
}

// forbids looks for a record that an owner's entry passes over, 0 for none.
// Records that are not in the tail are not looked at: whole is false when there
// may be some between Applied and position, up to which it has looked.
func (t *tail) forbids(e *store.Entry) (at, position engine.Position, whole bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, r := range t.after(e.Applied) {
		if r.records[0].Stamp >= e.Due {
			break
		}
		for i := range r.records {
			if e.Concerns(&r.records[i]) {
				return r.records[i].Position, t.position, true
			}
		}
	}
	return 0, t.position, e.Applied+1 >= t.oldest()
}
