package store

import (
	"slices"

	"attend/internal/engine"
)

// DefaultStepLimit is how many steps a StepQuery without a Limit returns.
const DefaultStepLimit = 1000

// Count is the most steps that the query returns.
func (q *StepQuery) Count() int {
	if q.Limit <= 0 {
		return DefaultStepLimit
	}
	return q.Limit
}

// Matches reports whether a record is a step that the query selects, its Limit
// aside. It is the meaning that every store's own query must have.
func (q *StepQuery) Matches(r *engine.Record) bool {
	switch {
	case r.Step == nil || r.Position <= q.After:
		return false
	case len(q.Kinds) > 0 && !slices.Contains(q.Kinds, r.Step.Kind):
		return false
	case q.Scope != "" && r.Scope != q.Scope:
		return false
	case q.Window != "" && r.Step.Window != q.Window:
		return false
	case q.ID != "" && r.Step.ID != q.ID:
		return false
	}
	return true
}

// Arrange puts records that were found in the order of the positions asked for.
// Those that were not found are left out (Log.Events).
func Arrange(positions []engine.Position, found map[engine.Position]engine.Record) []engine.Record {
	var out []engine.Record
	for _, p := range positions {
		if r, ok := found[p]; ok {
			out = append(out, r)
		}
	}
	return out
}
