package field

import "slices"

// Commits returns the entry that a decided change will add for others to see
// once it is applied to the state as it is; nil if it adds none.
func (s *State) Commits(c *Change) *Entry {
	e := &Entry{
		ID: c.ID, Timestamp: c.At, Epoch: c.Epoch, Agent: c.Agent, Status: StatusCommitted,
		Entry: c.Entry, Intent: c.Intent, Supersedes: c.Old,
	}
	switch c.Kind {
	case KindWritten, KindSuperseded:
		return e
	case KindCommitted:
		if r, ok := s.drafts[c.ID]; ok {
			*e = s.entry(r)
			e.Timestamp, e.Epoch, e.Status = c.At, c.Epoch, StatusCommitted
			return e
		}
	default:
	}
	return nil
}

// ConflictsOf returns how a committed entry contradicts others of its topic
// that agents are given, newest first. At most limit are compared; 0 means
// DefaultCompare. A is the entry itself; nothing is scored.
func (s *State) ConflictsOf(id string, limit int) []Conflict {
	n, ok := s.byID[id]
	if !ok || s.list.at(n).status != codeCommitted {
		return nil
	}
	e := s.entry(s.list.at(n))
	return s.contradicted(&e, []string{id}, nil, limit)
}

// Contradicts is ConflictsOf for the entry that a decided change will commit.
// The pending changes, oldest first, stand between the state and it.
func (s *State) Contradicts(c *Change, pending []*Change, limit int) []Conflict {
	e := s.Commits(c)
	if e == nil {
		return nil
	}
	return s.contradicted(e, []string{e.ID, c.Old}, pending, limit)
}

// contradicted compares an entry with all but those with the ids in without.
func (s *State) contradicted(e *Entry, without []string, pending []*Change, limit int) []Conflict {
	topic := lookup(string(e.Entry), "topic")
	if !topic.primitive() {
		return nil
	}
	if limit <= 0 {
		limit = DefaultCompare
	}
	own := claimsOf(string(e.Entry), false)
	var out []Conflict
	compare := func(other Entry) {
		limit--
		if c, ok := own.against(claimsOf(string(other.Entry), false)); ok {
			c.A, c.B = &Scored{Entry: *e}, &Scored{Entry: other}
			out = append(out, c)
		}
	}
	for _, p := range slices.Backward(pending) {
		if o := s.Commits(p); o != nil && limit > 0 && !slices.Contains(without, o.ID) && lookup(string(o.Entry), "topic") == topic {
			compare(*o)
		}
		switch p.Kind {
		case KindSuperseded:
			without = append(without, p.Old)
		case KindRetracted:
			without = append(without, p.ID)
		default:
		}
	}
	blocks := s.topics[s.topicNo[topic]].blocks // of 0 there are none
	for i := len(blocks) - 1; i >= 0; i-- {
		for _, place := range slices.Backward(blocks[i].places) {
			if limit <= 0 {
				return out
			}
			if r := s.list.at(place); !slices.Contains(without, r.id()) {
				compare(s.entry(r))
			}
		}
	}
	return out
}
