package field

import (
	"cmp"
	"slices"
)

// Reckon returns what Attune returns for the same question, and the conflicts
// among those entries (field contract, 3): oldest first by the later of the
// two timestamps. more is set when there were more than MaxConflicts.
func (s *State) Reckon(q *Query, set Settings) (entries []Scored, conflicts []Conflict, more bool) {
	v := s.view(q, set)
	ranked := v.rank(q.MaxUnits)
	entries = make([]Scored, len(ranked))
	claims := make([]claims, len(ranked))
	for i, r := range ranked {
		entries[i] = v.scored(r)
		if r.topic != 0 {
			claims[i] = claimsOf(r.payload(), q.Deep)
		}
	}
	conflicts = []Conflict{}
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
	return entries, conflicts, more
}

// ConflictsOf returns how a committed entry contradicts others of its topic
// that agents are given, newest first. At most limit are compared; 0 means
// DefaultCompare. A is the entry itself; nothing is scored.
func (s *State) ConflictsOf(id string, limit int) []Conflict {
	n, ok := s.byID[id]
	if !ok || s.list.at(n).status != codeCommitted {
		return nil
	}
	r := s.list.at(n)
	return s.conflictsWith(s.entry(r), r.topic, "", limit)
}

// ConflictsWith is ConflictsOf for the entry that a decided change will commit
// once it is applied: none if it commits nothing.
func (s *State) ConflictsWith(c *Change, limit int) []Conflict {
	e := Entry{ID: c.Commits(), Timestamp: c.At, Epoch: c.Epoch, Agent: c.Agent, Status: StatusCommitted, Entry: c.Entry, Intent: c.Intent, Supersedes: c.Old}
	if e.ID == "" || c.check() != nil {
		return nil
	}
	if c.Kind == KindCommitted {
		r, ok := s.drafts[c.ID]
		if !ok {
			return nil
		}
		e = s.entry(r)
		e.Timestamp, e.Epoch, e.Status = c.At, c.Epoch, StatusCommitted
	}
	topic, ok := s.topicNo[lookup(string(e.Entry), "topic")]
	if !ok {
		return nil
	}
	return s.conflictsWith(e, topic, c.Old, limit)
}

func (s *State) conflictsWith(e Entry, topic int32, without string, limit int) []Conflict {
	if limit <= 0 {
		limit = DefaultCompare
	}
	if topic == 0 {
		return nil
	}
	own := claimsOf(string(e.Entry), false)
	var out []Conflict
	blocks := s.topics[topic].blocks
	for i := len(blocks) - 1; i >= 0; i-- {
		for j := len(blocks[i].places) - 1; j >= 0; j-- {
			r := s.list.at(blocks[i].places[j])
			if r.id() == e.ID || r.id() == without {
				continue
			}
			if limit--; limit < 0 {
				return out
			}
			if c, ok := own.against(claimsOf(r.payload(), false)); ok {
				c.A, c.B = &Scored{Entry: e}, &Scored{Entry: s.entry(r)}
				out = append(out, c)
			}
		}
	}
	return out
}

// claims are what an entry says: its keys, without the topic, and what stands
// within its objects.
type claims struct {
	keys  []claim
	paths []claim // in a deep reckoning
}

type claim struct {
	key   string
	value value
}

func claimsOf(payload string, deep bool) claims {
	var c claims
	for _, m := range sortedMembers(payload) {
		switch {
		case m.key == "topic":
		case m.value.primitive():
			c.keys = append(c.keys, m)
		case deep && m.value.kind == kindObject:
			c.paths = appendPaths(c.paths, pathKey(m.key), m.value.text, 1)
		}
	}
	slices.SortFunc(c.paths, func(a, b claim) int { return compareUnits(a.key, b.key) })
	return c
}

func appendPaths(to []claim, path, object string, depth int) []claim {
	if depth >= maxDepth {
		return to
	}
	for _, m := range sortedMembers(object) {
		at := path + "." + pathKey(m.key)
		switch {
		case m.value.primitive():
			to = append(to, claim{at, m.value})
		case m.value.kind == kindObject:
			to = appendPaths(to, at, m.value.text, depth+1)
		}
	}
	return to
}

// sortedMembers are an object's members by key, each key once: the last.
func sortedMembers(object string) []claim {
	var all []claim
	for key, raw := range members(object) {
		all = append(all, claim{key, valueOf(raw)})
	}
	slices.SortStableFunc(all, func(a, b claim) int { return compareUnits(a.key, b.key) })
	kept := all[:0]
	for i, m := range all {
		if i+1 == len(all) || all[i+1].key != m.key {
			kept = append(kept, m)
		}
	}
	return kept
}

// against compares the claims of two entries of one topic.
func (c claims) against(d claims) (Conflict, bool) {
	keys, paths := differing(c.keys, d.keys), differing(c.paths, d.paths)
	if len(keys)+len(paths) == 0 {
		return Conflict{}, false
	}
	if keys == nil {
		keys = []string{}
	}
	return Conflict{Keys: keys, Paths: paths}, true
}

// differing returns the keys that both have, with different values.
func differing(a, b []claim) []string {
	var out []string
	for len(a) > 0 && len(b) > 0 {
		switch order := compareUnits(a[0].key, b[0].key); {
		case order < 0:
			a = a[1:]
		case order > 0:
			b = b[1:]
		default:
			if a[0].value != b[0].value {
				out = append(out, a[0].key)
			}
			a, b = a[1:], b[1:]
		}
	}
	return out
}
