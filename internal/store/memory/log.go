package memory

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"attend/internal/engine"
	"attend/internal/store"
)

// log is the records: those that nothing was deleted of, and what is left of
// those before.
type log struct {
	stamp   engine.Time       // of the last record there ever was
	records []engine.Record   // the record at position p is records[p-base-1]
	steps   []engine.Position // of the steps among them

	base      engine.Position // the mark of events
	stepsMark engine.Position
	old       []engine.Record // steps at or before base, in order
	aside     []engine.Record // events of the side table, in order
}

func (l *log) head() engine.Position { return l.base + engine.Position(len(l.records)) }

func (l *log) kept() store.Kept { return store.Kept{Events: l.base, Steps: l.stepsMark} }

// add gives a record the next position, and returns it.
func (l *log) add(r engine.Record) engine.Position {
	r.Position = l.head() + 1
	l.records = append(l.records, r)
	l.stamp = r.Stamp
	if r.Step != nil {
		l.steps = append(l.steps, r.Position)
	}
	return r.Position
}

// search finds the first of some records behind a position.
func search(records []engine.Record, after engine.Position) int {
	return sort.Search(len(records), func(i int) bool { return records[i].Position > after })
}

// read returns records behind a position. They are never changed, so the caller
// may share them; the capacity keeps an append of the caller's away from them.
func (l *log) read(after engine.Position, limit int) []engine.Record {
	var out []engine.Record
	if after < l.base {
		old := l.old[search(l.old, after):]
		out = old[:min(len(old), limit):min(len(old), limit)]
	}
	from := min(max(after, l.base), l.head()) - l.base
	to := min(from+engine.Position(limit-len(out)), engine.Position(len(l.records)))
	if len(out) > 0 {
		return append(out, l.records[from:to]...)
	}
	return l.records[from:to:to]
}

// after yields the records behind a position.
func (l *log) after(p engine.Position) iter.Seq[*engine.Record] {
	return func(yield func(*engine.Record) bool) {
		if p < l.base {
			for i := search(l.old, p); i < len(l.old); i++ {
				if !yield(&l.old[i]) {
					return
				}
			}
		}
		for i := max(p-l.base, 0); i < engine.Position(len(l.records)); i++ {
			if !yield(&l.records[i]) {
				return
			}
		}
	}
}

// stepsAfter yields the steps behind a position.
func (l *log) stepsAfter(p engine.Position) iter.Seq[*engine.Record] {
	return func(yield func(*engine.Record) bool) {
		if p < l.base {
			for i := search(l.old, p); i < len(l.old); i++ {
				if !yield(&l.old[i]) {
					return
				}
			}
		}
		from, _ := slices.BinarySearch(l.steps, p+1)
		for _, at := range l.steps[from:] {
			if !yield(&l.records[at-l.base-1]) {
				return
			}
		}
	}
}

// event finds an event in the log or beside it, nil where there is none.
func (l *log) event(p engine.Position) *engine.Record {
	switch {
	case p > l.head():
	case p > l.base:
		if r := &l.records[p-l.base-1]; r.Event != nil {
			return r
		}
	default:
		i, found := slices.BinarySearchFunc(l.aside, p, func(r engine.Record, p engine.Position) int { return cmp.Compare(r.Position, p) })
		if found {
			return &l.aside[i]
		}
	}
	return nil
}

// compact does what one call of Compact does. Slices that readers share are
// never changed: what is cut off goes when they do.
func (l *log) compact(c *store.Compaction) (done store.Compacted) {
	done.Kept, done.Done = c.Next(l.kept())
	n := done.Kept.Events - l.base
	var aside []engine.Record
	keep := c.Keeps(l.base, done.Kept.Events)
	for i := range l.records[:n] {
		r := &l.records[i]
		if r.Step != nil {
			l.old = append(l.old, *r)
			continue
		}
		done.Events++
		if _, named := slices.BinarySearch(keep, r.Position); named {
			aside = append(aside, *r)
		}
	}
	done.Aside = len(aside)
	l.records, l.base = l.records[n:], done.Kept.Events
	from, _ := slices.BinarySearch(l.steps, l.base+1)
	l.steps = l.steps[from:]
	if cap(l.records) > 2*len(l.records)+1024 {
		l.records = slices.Clone(l.records) // lets go of what was cut off
	}
	l.dropSteps(&done)
	before := len(l.aside) + len(aside)
	l.aside = slices.DeleteFunc(append(slices.Clone(l.aside), aside...), func(r engine.Record) bool {
		_, released := slices.BinarySearch(c.Release, r.Position)
		return released
	})
	done.Released = before - len(l.aside)
	return done
}

// dropSteps moves the mark of steps.
func (l *log) dropSteps(done *store.Compacted) {
	from, to := search(l.old, l.stepsMark), search(l.old, done.Kept.Steps)
	l.stepsMark = done.Kept.Steps
	if from == to {
		return
	}
	left := slices.Clone(l.old[:from])
	for _, r := range l.old[from:to] {
		if store.Standing(r.Step.Kind) {
			left = append(left, r)
		}
	}
	done.Steps = to - len(left)
	l.old = append(left, l.old[to:]...)
}
