package field

import (
	"cmp"
	"slices"
)

// Reckon returns what Attune returns for the same question, and the conflicts
// among those entries (docs/field.md, "Conflicts"): oldest first by the later
// of the two timestamps, then as their entries rank. more is set when there were more than MaxConflicts.
func (s *State) Reckon(q *Query, set Settings) (entries []Scored, conflicts []Conflict, more bool) {
	r := s.reckon(q, set)
	return r.Entries, r.Conflicts, r.MoreConflicts
}

func (s *State) reckon(q *Query, set Settings) Reckoned {
	v := s.view(q, set)
	ranked, beyond := v.cut(q)
	entries := v.scoredAll(ranked)
	claims := make([]claims, len(ranked))
	for i, r := range ranked {
		if r.topic != 0 {
			claims[i] = claimsOf(r.payload(), q.Deep)
		}
	}
	conflicts, more := []Conflict{}, false
	for i, a := range ranked {
		for j := i + 1; j < len(ranked) && !more; j++ {
			if a.topic == 0 || a.topic != ranked[j].topic {
				continue
			}
			if c, ok := claims[i].against(claims[j]); ok {
				c.A, c.B = &entries[i], &entries[j]
				if more = len(conflicts) == MaxConflicts; !more {
					conflicts = append(conflicts, c)
				}
			}
		}
	}
	slices.SortStableFunc(conflicts, func(x, y Conflict) int {
		return cmp.Compare(max(x.A.Timestamp, x.B.Timestamp), max(y.A.Timestamp, y.B.Timestamp))
	})
	return Reckoned{Entries: entries, Conflicts: conflicts, MoreConflicts: more, More: beyond, Epoch: s.epoch}
}
