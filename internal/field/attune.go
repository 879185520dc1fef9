package field

import "slices"

// Attune returns the visible entries that are most relevant to the agent that
// asks, best first (docs/field.md, "Relevance").
func (s *State) Attune(q *Query, set Settings) []Scored {
	g := s.Gather(q, set)
	g.Result()
	return g.Entries()
}

// Reckon returns what Attune returns for the same question, and the conflicts
// among those entries. more is set when there were more than MaxConflicts.
func (s *State) Reckon(q *Query, set Settings) (entries []Scored, conflicts []Conflict, more bool) {
	g := s.Gather(q, set)
	g.Compare(never)
	g.Result()
	return g.Entries(), g.Conflicts(), g.full
}

// never lets what could be stopped run to its end.
func never() bool { return false }

// cut returns the records that the question is answered with. Where it asked for
// more than is given, more tells if there was more: one record beyond the
// bound shows it.
func (v *view) cut(q *Query) (ranked []*record, more bool) {
	if !q.Beyond {
		return v.rank(q.MaxUnits), false
	}
	ranked = v.rank(q.MaxUnits + 1)
	if len(ranked) > q.MaxUnits {
		return ranked[:q.MaxUnits], true
	}
	return ranked, false
}

// rank returns the best most records, by score and then by epoch. It is what
// sorting all of them gives.
func (v *view) rank(most int) []*record {
	if most == 0 {
		return nil
	}
	best := &best{most: most}
	for _, r := range v.drafts {
		best.offer(candidate{v.components(r).score(), r})
	}
	if v.topic != nobody {
		v.walk(&v.s.topics[v.topic], weightTopic, nobody, best)
	}
	if !v.filtered {
		v.walk(&v.s.active, 0, v.topic, best)
	}
	slices.SortFunc(best.heap, func(a, b candidate) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	out := make([]*record, len(best.heap))
	for i, c := range best.heap {
		out[i] = c.record
	}
	return out
}

// walk offers the entries of an index, newest first, without those of one
// topic. Each component of what a block may hold is at most the bound's, and
// adding up doubles keeps that order: so a block whose bound does not reach
// the cut holds nothing that does.
func (v *view) walk(x *index, topic float64, without int32, best *best) {
	bound := func(role float64, raw, trimmed uint8, newest int64) bool {
		c := Components{topic, role, recency(v.newest, newest, v.spread), v.table.intent(raw, trimmed)}
		return best.takes(c.score(), newest)
	}
	for i := len(x.blocks) - 1; i >= 0; i-- {
		b := &x.blocks[i]
		newest := v.s.list.at(b.places[len(b.places)-1]).epoch
		if !bound(v.best, fullIntent, fullIntent, min(newest, v.newest)) {
			return // nor does anything older
		}
		if b.only == v.agent || !bound(b.most(&v.byBit), b.raw, b.trimmed, min(newest, v.newest)) {
			continue
		}
		for j := len(b.places) - 1; j >= 0; j-- {
			r := v.s.list.at(b.places[j])
			if r.agent != v.agent && r.topic != without {
				best.offer(candidate{v.components(r).score(), r})
			}
		}
	}
}

type candidate struct {
	score  float64
	record *record
}

// before is the order of results. Epochs differ, so it is total.
func (c candidate) before(d candidate) bool {
	if c.score != d.score {
		return c.score > d.score
	}
	return c.record.epoch > d.record.epoch
}

// best keeps the best so far in a heap, the worst of them on top.
type best struct {
	most int
	heap []candidate
}

// takes reports whether an entry with this score and epoch would be kept.
func (b *best) takes(score float64, epoch int64) bool {
	if len(b.heap) < b.most {
		return true
	}
	worst := b.heap[0]
	return score > worst.score || score == worst.score && epoch > worst.record.epoch
}

func (b *best) offer(c candidate) {
	if len(b.heap) < b.most {
		b.heap = append(b.heap, c)
		for i := len(b.heap) - 1; i > 0 && b.heap[(i-1)/2].before(b.heap[i]); i = (i - 1) / 2 {
			b.heap[i], b.heap[(i-1)/2] = b.heap[(i-1)/2], b.heap[i]
		}
		return
	}
	if !b.takes(c.score, c.record.epoch) {
		return
	}
	b.heap[0] = c
	for i := 0; ; {
		worst := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(b.heap) && b.heap[worst].before(b.heap[child]) {
				worst = child
			}
		}
		if worst == i {
			return
		}
		b.heap[i], b.heap[worst] = b.heap[worst], b.heap[i]
		i = worst
	}
}
