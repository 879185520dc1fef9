package field

import (
	"encoding/json"
	"slices"
)

// condition is one key of a read's query: every one must hold.
type condition struct {
	key   string
	value value
	inner []claim // of an object: its keys
}

func (in *input) readQuery() (*Query, error) {
	q := &Query{Op: OpRead}
	var err error
	switch v := in.value("query"); v.kind {
	case kindNone:
	case kindObject:
		if why := flaw("query", v.text); why != "" {
			return nil, refuse(InvalidQuery, "%s", why)
		}
		for _, m := range sortedMembers(v.text) {
			c := condition{key: m.key, value: m.value}
			if m.value.kind == kindObject {
				c.inner = sortedMembers(m.value.text)
			}
			q.where = append(q.where, c)
		}
	default:
		return nil, refuse(InvalidQuery, "query of read is not an object: want keys and values of entries, or none")
	}
	if q.Caller, err = in.nameIfGiven("caller", InvalidQuery); err != nil {
		return nil, err
	}
	if q.Limit, _, err = in.count("limit", DefaultRead, MaxRead); err != nil {
		return nil, err
	}
	if q.After, err = in.nameIfGiven("after", InvalidQuery); err != nil {
		return nil, err
	}
	return q, in.closed()
}

// Read lists entries of every status in the order in which they were written,
// committed or discarded, and then the caller's drafts (docs/field.md,
// "Entries"). The only error is an *Error: there is no entry to go on after.
func (s *State) Read(q *Query) (Page, error) {
	r := NewReading(q)
	for {
		if done, err := r.Step(s); done || err != nil {
			return r.Page(), err
		}
	}
}

// Reading is a read on its way. Between its steps the State may change: each
// entry is given as it was when its turn came.
type Reading struct {
	query  *Query
	page   Page
	begun  bool
	next   int // place in the list
	listed bool
	drafts []*record // those that are left, once the list is through
	bytes  int       // of the page's JSON, at most
}

// stepBytes is how much of payloads one step looks through, and a little more.
const stepBytes = 1 << 20

// NewReading begins a read.
func NewReading(q *Query) *Reading {
	return &Reading{query: q, page: Page{Entries: []Entry{}}, bytes: aroundAnswer}
}

// Page is what has been read so far.
func (r *Reading) Page() Page { return r.page }

// Step goes on for a while, and reports whether the page is complete. The only
// error is an *Error: there is no entry to go on after.
func (r *Reading) Step(s *State) (done bool, err error) {
	if !r.begun {
		if err := r.begin(s); err != nil {
			return true, err
		}
	}
	topic, able := s.topicOf(r.query.where)
	if !able {
		return true, nil
	}
	for cost := 0; cost < stepBytes; {
		n := r.ahead(s)
		if n == nil {
			return true, nil
		}
		cost += aroundEntry / 8
		if topic == 0 || n.topic == topic {
			cost += len(n.payload()) * max(1, len(r.query.where))
			if matches(n.payload(), r.query.where) && !r.take(s, n) {
				return true, nil
			}
		}
	}
	return false, nil
}

// begin finds where to go on.
func (r *Reading) begin(s *State) error {
	r.begun = true
	if r.query.After == "" {
		return nil
	}
	if n, ok := s.byID[r.query.After]; ok {
		r.next = int(n) + 1
		return nil
	}
	r.listed, r.drafts = true, s.draftsOf(r.query.Caller)
	for i, d := range r.drafts {
		if d.id() == r.query.After {
			r.drafts = r.drafts[i+1:]
			return nil
		}
	}
	return refuse(InvalidQuery, "after names no entry that read has given: %q", shortened(r.query.After))
}

// ahead returns the next record, nil behind the last.
func (r *Reading) ahead(s *State) *record {
	if r.next < s.list.len && !r.listed {
		r.next++
		return s.list.at(int32(r.next - 1)) //nolint:gosec // as appended
	}
	if !r.listed {
		r.listed, r.drafts = true, s.draftsOf(r.query.Caller)
	}
	if len(r.drafts) == 0 {
		return nil
	}
	d := r.drafts[0]
	r.drafts = r.drafts[1:]
	return d
}

// draftsOf returns an agent's drafts as they are: a draft itself never changes.
func (s *State) draftsOf(agent string) []*record {
	n, ok := s.agentNo[agent]
	if !ok {
		return nil
	}
	return slices.Clone(s.agents[n].drafts)
}

// take puts a record on the page, and reports whether there was room.
func (r *Reading) take(s *State, n *record) bool {
	e := s.bare(n)
	size := e.size() + len(n.payload())
	if len(r.page.Entries) == r.query.Limit || r.bytes+size > MaxAnswer {
		r.page.More = true
		return false
	}
	e.Entry = json.RawMessage(n.payload())
	r.page.Entries, r.bytes = append(r.page.Entries, e), r.bytes+size
	return true
}

// topicOf returns the topic that a query asks for, 0 if it asks for none;
// able is unset when no entry has it.
func (s *State) topicOf(where []condition) (topic int32, able bool) {
	for _, c := range where {
		if c.key == "topic" && c.value.primitive() {
			n, ok := s.topicNo[c.value]
			return n, ok
		}
	}
	return 0, true
}

func matches(payload string, where []condition) bool {
	for _, c := range where {
		v := lookup(payload, c.key)
		switch {
		case c.value.primitive():
			if v != c.value {
				return false
			}
		case c.value.kind != kindObject || v.kind != kindObject:
			return false // an array is equal to nothing
		default:
			for _, m := range c.inner {
				if !m.value.primitive() || lookup(v.text, m.key) != m.value {
					return false // matching is one level deep
				}
			}
		}
	}
	return true
}
