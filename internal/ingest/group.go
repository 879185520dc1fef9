package ingest

import (
	"slices"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// group is the lines that are committed together: one entry of the log, whole
// or not at all. All of its events carry the number of one policy, the one in
// force when the first of them came.
type group struct {
	policy *engine.Policy // nil while the group is empty
	since  time.Time      // when its first line came
	lines  int            // taken in, refused ones too
	bytes  int            // of them
	last   int            // the number of the last one
	cut    bool           // the last one is half a line: the body ended in it

	expect   int // events, as many as the group before had
	events   []store.NewEvent
	numbers  []int              // the lines of the events
	copies   []int              // lines with an id that stands in the group already
	ids      map[idKey]struct{} // of the events, where copies are looked for
	unmapped int                // events whose name no kind is set for

	result Result // what is known before the commit
}

type idKey struct {
	scope  string
	digest engine.Digest
}

// open begins the group with its first line.
func (g *group) open(p *engine.Policy, now time.Time) {
	g.policy, g.since = p, now
}

// progress is a line of a streamed answer: a group is committed, and Through is
// its last line. Whoever sends on after that line loses nothing, if he sends
// again those of Errors that may pass later: the end of the answer, which
// names them too, may never reach him.
type progress struct {
	Through  int         `json:"through"`
	Rejected int         `json:"rejected,omitempty"` // of the group's lines
	Errors   []LineError `json:"errors,omitempty"`   // the first 100 of them

	lines int // that it tells of
}

// progress is what is told of the group once it is committed. A line that the
// body's end cut has not come through; the end of the answer tells of it.
func (g *group) progress() progress {
	p := progress{Through: g.last, Rejected: g.result.Rejected, Errors: g.result.Errors, lines: g.lines}
	if g.cut {
		p.Through--
		p.lines--
		p.Rejected--
		p.Errors = p.Errors[:min(len(p.Errors), p.Rejected)]
	}
	return p
}

// clear empties the group. The events belong to the log now, which may keep
// them.
func (g *group) clear() {
	clear(g.ids)
	*g = group{expect: len(g.events), numbers: g.numbers[:0], copies: g.copies[:0], ids: g.ids}
}

// copied reports whether the scope is sure to remember the first of two events
// of one id that stand in one group. If its settings forget within a group,
// only the fold can tell.
func copied(s *engine.Settings, limits *Limits) bool {
	return s.DedupMs > 0 && s.DedupIDs >= limits.GroupLines
}

// lost turns the lines whose fate hung on the commit into refused ones.
func (g *group) lost(f *fault) {
	var lost Result
	hung := slices.Concat(g.numbers, g.copies)
	slices.Sort(hung)
	for _, line := range hung {
		lost.refuse(line, f)
	}
	g.result.Rejected += lost.Rejected
	g.result.retryable += lost.retryable
	g.result.Errors = append(g.result.Errors, lost.Errors...)
}
