package sqlite

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

// tail is the end of the log in memory: the groups committed last. The writer
// adds to it, everybody reads it.
type tail struct {
	maxBytes, maxRecords int

	mu       sync.RWMutex
	position engine.Position // of the log's last record
	stamp    engine.Time     // of the last group
	runs     []run           // by position, without gaps, up to the end of the log
	bytes    int
	records  int
	changed  chan struct{} // closed and replaced when the log grows, closed for good by close
	closed   bool
}

// run is a committed group: records without gaps, under one stamp.
type run struct {
	stamp   engine.Time
	records []engine.Record // at least one
	steps   []int           // where among the records the steps are
	bytes   int
}

func newRun(stamp engine.Time, records []engine.Record, bytes int) run {
	r := run{stamp: stamp, records: records, bytes: bytes}
	for i := range records {
		if records[i].Step != nil {
			r.steps = append(r.steps, i)
		}
	}
	return r
}

func (r *run) last() engine.Position { return r.records[len(r.records)-1].Position }

func newTail(position engine.Position, stamp engine.Time, records int) *tail {
	return &tail{maxBytes: tailBytes, maxRecords: records, position: position, stamp: stamp, changed: make(chan struct{})}
}

// end returns the position and the stamp of the end of the log.
func (t *tail) end() (engine.Position, engine.Time) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.position, t.stamp
}

// add takes a committed group in and wakes everybody who waits.
func (t *tail) add(r run) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.position, t.stamp = r.last(), r.stamp
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
}

// restart forgets the groups when the log does not end where they do: a commit
// that was reported as failed had been made. Their records are in the tables.
func (t *tail) restart(position engine.Position, stamp engine.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.position == position {
		return
	}
	t.position, t.stamp = position, max(stamp, t.stamp)
	t.runs, t.bytes, t.records = nil, 0, 0
	t.wake()
}

// cut forgets the records up to a position: the tables tell what is left of
// them.
func (t *tail) cut(upto engine.Position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.runs) > 0 && t.runs[0].last() <= upto {
		t.bytes -= t.runs[0].bytes
		t.records -= len(t.runs[0].records)
		t.runs[0] = run{}
		t.runs = t.runs[1:]
	}
	if len(t.runs) == 0 || t.runs[0].records[0].Position > upto {
		return
	}
	first := &t.runs[0]
	n := int(upto + 1 - first.records[0].Position)
	bytes := first.bytes * n / len(first.records) // about
	t.bytes -= bytes
	t.records -= n
	*first = newRun(first.stamp, first.records[n:], first.bytes-bytes)
}

func (t *tail) wake() {
	if !t.closed {
		close(t.changed)
		t.changed = make(chan struct{})
	}
}

func (t *tail) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		close(t.changed)
	}
}

// watch returns where the log ends, and what is closed when that changes.
func (t *tail) watch() (end engine.Position, changed <-chan struct{}, closed bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.position, t.changed, t.closed
}

// oldest is the first position that the tail holds; one behind the end when it
// holds none.
func (t *tail) oldest() engine.Position {
	if len(t.runs) == 0 {
		return t.position + 1
	}
	return t.runs[0].records[0].Position
}

// after finds the first run with a record behind the position.
func (t *tail) after(p engine.Position) []run {
	return t.runs[sort.Search(len(t.runs), func(i int) bool { return t.runs[i].last() > p }):]
}

// read returns the records after a position, at most limit; ok is false when
// the tail no longer holds the first of them.
func (t *tail) read(after engine.Position, limit int) (records []engine.Record, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if after+1 < t.oldest() {
		return nil, false
	}
	for _, r := range t.after(after) {
		from := max(int(after+1-r.records[0].Position), 0)
		records = append(records, r.records[from:min(len(r.records), from+limit-len(records))]...)
		if len(records) == limit {
			break
		}
	}
	return records, true
}

// steps answers a query; ok is false when the tail no longer holds every
// record that the query is about.
func (t *tail) steps(q *store.StepQuery) (records []engine.Record, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if q.After+1 < t.oldest() {
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
// returns the positions before it.
func (t *tail) pick(positions []engine.Position, found map[engine.Position]engine.Record) (older []engine.Position) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	oldest := t.oldest()
	for _, p := range positions {
		if p < oldest {
			older = append(older, p)
			continue
		}
		if runs := t.after(p - 1); len(runs) > 0 {
			if r := runs[0].records[p-runs[0].records[0].Position]; r.Event != nil {
				found[p] = r
			}
		}
	}
	return older
}

// forbids looks for a record that an owner's entry passes over. It returns the
// record's position, 0 for none, and the first position that it looked at.
// Groups that were stamped at the entry's due or later cannot hold one, so in
// most cases no record is looked at.
func (t *tail) forbids(e *store.Entry) (at, from engine.Position) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, r := range t.after(e.Applied) {
		if r.stamp >= e.Due {
			break
		}
		for i := range r.records {
			if e.Concerns(&r.records[i]) {
				return r.records[i].Position, t.oldest()
			}
		}
	}
	return 0, t.oldest()
}
