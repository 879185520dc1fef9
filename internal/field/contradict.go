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
	conflicts, _ := s.contradicted(&e, "", limit)
	return conflicts
}

// ConflictsWith is ConflictsOf for the entry that a decided change will commit
// once it is applied: none if it commits nothing. It also says with how many
// the entry was compared.
func (s *State) ConflictsWith(c *Change, limit int) (conflicts []Conflict, compared int) {
	e := Entry{
		ID: c.ID, Timestamp: c.At, Epoch: c.Epoch, Agent: c.Agent, Status: StatusCommitted,
		Entry: c.Entry, Intent: c.Intent, Supersedes: c.Old,
	}
	switch c.Kind {
	case KindWritten, KindSuperseded:
	case KindCommitted:
		r, ok := s.drafts[c.ID]
		if !ok {
			return nil, 0
		}
		e = s.entry(r)
		e.Timestamp, e.Epoch, e.Status = c.At, c.Epoch, StatusCommitted
	default:
		return nil, 0
	}
	return s.contradicted(&e, c.Old, limit)
}

// contradicted compares an entry with the others of its topic, but for the one
// that it takes the place of.
func (s *State) contradicted(e *Entry, old string, limit int) (out []Conflict, compared int) {
	if limit <= 0 {
		limit = DefaultCompare
	}
	topic, ok := s.topicNo[topicOf(e.Entry)]
	if !ok {
		return nil, 0
	}
	own := assertedBy(string(e.Entry))
	for _, b := range slices.Backward(s.topics[topic].blocks) {
		for _, place := range slices.Backward(b.places) {
			r := s.list.at(place)
			if r.id() == e.ID || r.id() == old {
				continue
			}
			if compared == limit {
				return out, compared
			}
			compared++
			if keys := own.contradicts(r.payload()); keys != nil {
				out = append(out, Conflict{A: &Scored{Entry: *e}, B: &Scored{Entry: s.entry(r)}, Keys: keys})
			}
		}
	}
	return out, compared
}

// topicOf returns the topic of a payload, or a value of kindNone.
func topicOf(payload json.RawMessage) value {
	if text := string(payload); isObject(text) {
		return lookup(text, "topic")
	}
	return value{}
}
