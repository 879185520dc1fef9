package field

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
// "Lifecycle").
// The only error is an *Error: there is no entry to go on after.
func (s *State) Read(q *Query) (Page, error) {
	page := Page{Entries: []Entry{}}
	var drafts []*record
	if n, ok := s.agentNo[q.Caller]; ok {
		drafts = s.agents[n].drafts
	}
	from := 0 // in the list, and then the drafts
	if q.After != "" {
		if from = s.after(q.After, drafts); from == 0 {
			return Page{}, refuse(InvalidQuery, "after names no entry that read has given: %q", shortened(q.After))
		}
	}
	topic, able := s.topicOf(q.where)
	if !able {
		return page, nil
	}
	for i := from; i < s.list.len+len(drafts); i++ {
		var r *record
		if i < s.list.len {
			r = s.list.at(int32(i)) //nolint:gosec // as appended
		} else {
			r = drafts[i-s.list.len]
		}
		if topic != 0 && r.topic != topic || !matches(r.payload(), q.where) {
			continue
		}
		if len(page.Entries) == q.Limit {
			page.More = true
			break
		}
		page.Entries = append(page.Entries, s.entry(r))
	}
	return page, nil
}

// after returns the place behind an entry's, and 0 when there is none.
func (s *State) after(id string, drafts []*record) int {
	if n, ok := s.byID[id]; ok {
		return int(n) + 1
	}
	for i, r := range drafts {
		if r.id() == id {
			return s.list.len + i + 1
		}
	}
	return 0
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
