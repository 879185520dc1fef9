package field

import (
	"encoding/json"
	"slices"
)

// ConflictsOf returns how a committed entry contradicts others of its topic
// that agents are given, newest first. At most limit are compared; 0 means
// DefaultCompare. A is the entry itself; nothing is scored.
func (s *State) ConflictsOf(id string, limit int) []Conflict {
	n, ok := s.byID[id]
	if !ok || s.list.at(n).status != codeCommitted {
		return nil
	}
	e := s.entry(s.list.at(n))
	return s.contradicted(&e, "", limit)
}

// ConflictsWith is ConflictsOf for the entry that a decided change will commit
// once it is applied: none if it commits nothing.
func (s *State) ConflictsWith(c *Change, limit int) []Conflict {
	e := Entry{
		ID: c.ID, Timestamp: c.At, Epoch: c.Epoch, Agent: c.Agent, Status: StatusCommitted,
		Entry: c.Entry, Intent: c.Intent, Supersedes: c.Old,
	}
	switch c.Kind {
	case KindWritten, KindSuperseded:
	case KindCommitted:
		r, ok := s.drafts[c.ID]
		if !ok {
			return nil
		}
		e = s.entry(r)
		e.Timestamp, e.Epoch, e.Status = c.At, c.Epoch, StatusCommitted
	default:
		return nil
	}
	return s.contradicted(&e, c.Old, limit)
}

// contradicted compares an entry with the others of its topic, but for the one
// that it takes the place of.
func (s *State) contradicted(e *Entry, old string, limit int) []Conflict {
	if limit <= 0 {
		limit = DefaultCompare
	}
	topic, ok := s.topicNo[topicOf(e.Entry)]
	if !ok {
		return nil
	}
	own := claimsOf(string(e.Entry), false)
	var out []Conflict
	for _, b := range slices.Backward(s.topics[topic].blocks) {
		for _, place := range slices.Backward(b.places) {
			r := s.list.at(place)
			if r.id() == e.ID || r.id() == old {
				continue
			}
			if limit--; limit < 0 {
				return out
			}
			if c, ok := own.against(claimsOf(r.payload(), false)); ok {
				c.A, c.B = &Scored{Entry: *e}, &Scored{Entry: s.entry(r)}
				out = append(out, c)
			}
		}
	}
	return out
}

// topicOf returns the topic of a payload, or a value of kindNone.
func topicOf(payload json.RawMessage) value {
	if text := string(payload); isObject(text) {
		return lookup(text, "topic")
	}
	return value{}
}
