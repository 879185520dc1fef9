package field

// view is what one agent sees of a Field, and how it scores there.
type view struct {
	s     *State
	table table
	agent int32 // who asks; nobody's number when the Field does not know it
	topic int32 // what is asked for; nobody's number when nothing has it

	filtered bool      // other topics are hidden
	drafts   []*record // the asker's own

	newest int64   // epoch, over all that is visible
	spread float64 // between the newest and the oldest, at least 1

	byRole []float64   // by number of the writer's role; nil when the asker has none
	byBit  [64]float64 // the highest of them, by agentBit of the writer
	best   float64     // the highest of all
}

const nobody = -2

func (s *State) view(q *Query, set Settings) *view {
	v := &view{s: s, table: set.Mode.table(), agent: nobody, topic: nobody}
	if n, ok := s.agentNo[q.Agent]; ok {
		v.agent = n
	}
	if n, ok := s.topicNo[q.topic]; ok && q.HasTopic {
		v.topic = n
	}
	v.filtered = q.HasTopic && (q.OnlyTopic || v.table.filter)
	if v.agent != nobody {
		for _, r := range s.agents[v.agent].drafts {
			if !v.filtered || r.topic == v.topic {
				v.drafts = append(v.drafts, r)
			}
		}
	}
	v.span()
	v.weighRoles(q.Role)
	return v
}

// visible is the index of others' entries that are in the result.
func (v *view) visible() *index {
	switch {
	case !v.filtered:
		return &v.s.active
	case v.topic != nobody:
		return &v.s.topics[v.topic]
	default:
		return &index{}
	}
}

// span measures the visible epochs.
func (v *view) span() {
	var oldest int64
	seen := false
	see := func(epoch int64) {
		if !seen {
			oldest, v.newest, seen = epoch, epoch, true
		}
		oldest, v.newest = min(oldest, epoch), max(v.newest, epoch)
	}
	for _, r := range v.drafts {
		see(r.epoch)
	}
	if first, last := v.visible().ends(&v.s.list, v.agent); first != nil {
		see(first.epoch)
		see(last.epoch)
	}
	v.spread = max(1, float64(v.newest-oldest))
}

// ends returns the oldest and the newest entry by others, nil if there is none.
func (x *index) ends(list *pages, but int32) (first, last *record) {
	for i := 0; i < len(x.blocks) && first == nil; i++ {
		if x.blocks[i].only == but {
			continue
		}
		for _, p := range x.blocks[i].places {
			if r := list.at(p); r.agent != but {
				first = r
				break
			}
		}
	}
	for i := len(x.blocks) - 1; i >= 0 && last == nil; i-- {
		places := x.blocks[i].places
		for j := len(places) - 1; j >= 0 && x.blocks[i].only != but; j-- {
			if r := list.at(places[j]); r.agent != but {
				last = r
				break
			}
		}
	}
	return first, last
}

// weighRoles finds what each writer's role is worth to the asker.
func (v *view) weighRoles(given *string) {
	var own role
	switch {
	case given != nil:
		own = newRole(*given)
	case v.agent != nobody && v.s.agents[v.agent].role != 0:
		own = v.s.roles[v.s.agents[v.agent].role]
	default:
		return
	}
	v.byRole = make([]float64, len(v.s.roles))
	for i := 1; i < len(v.byRole); i++ {
		v.byRole[i] = v.table.role(&own, &v.s.roles[i])
	}
	for i := range v.s.agents {
		if worth := v.byRole[v.s.agents[i].role]; worth > 0 && int32(i) != v.agent { //nolint:gosec // as interned
			bit := agentBit(int32(i)) //nolint:gosec // as interned
			v.byBit[bit] = max(v.byBit[bit], worth)
			v.best = max(v.best, worth)
		}
	}
}

// components scores one visible record.
func (v *view) components(r *record) Components {
	c := Components{
		Recency: recency(v.newest, r.epoch, v.spread),
		Intent:  v.table.intent(r.raw, r.trimmed),
	}
	if r.topic != 0 && r.topic == v.topic {
		c.Topic = weightTopic
	}
	if v.byRole != nil {
		c.Role = v.byRole[v.s.agents[r.agent].role]
	}
	return c
}
