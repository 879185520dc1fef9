package engine

// Indexes of the deadlines of an open window, in the table's order (seed,
// "Deadlines"): the order in which they fire at one instant.
const (
	deadlineFlush = iota
	deadlineClosing
	deadlineStream
	deadlinePassive
	deadlineAge
	deadlineForced
	deadlineOverflow
	deadlineCount
)

// deadlines are those of an open window: a bit says which stand. Their reasons
// are their places, which keeps a window small while a million of them wait.
type deadlines struct {
	at    [deadlineCount]Time
	event [deadlineCount]Position // that set it; 0 for a flush call
	stand uint8
}

func (d *deadlines) set(i int, at Time, event Position) {
	d.at[i], d.event[i] = at, event
	d.stand |= 1 << i
}

func (d *deadlines) has(i int) bool { return d.stand&(1<<i) != 0 }

func (d *deadlines) get(i int) Deadline {
	return Deadline{Reason: Reasons()[i], At: d.at[i], Event: d.event[i]}
}

// Deadlines returns the deadlines that stand, in table order.
func (o *Open) Deadlines() []Deadline {
	var ds []Deadline
	for i := range deadlineCount {
		if o.deadlines.has(i) {
			ds = append(ds, o.deadlines.get(i))
		}
	}
	return ds
}

// earliest returns the deadline that fires first; ok is false when the window
// has none and never settles by itself.
func (o *Open) earliest() (first Deadline, ok bool) {
	best := -1
	for i := range deadlineCount {
		if o.deadlines.has(i) && (best < 0 || o.deadlines.at[i] < o.deadlines.at[best]) {
			best = i
		}
	}
	if best < 0 {
		return Deadline{}, false
	}
	return o.deadlines.get(best), true
}

// waited chooses the reason of a window that had to wait for the slot: flush
// if it holds one, else forced if flush was called on it, else the earliest
// deadline (design, section 5, 5).
func (o *Open) waited() Deadline {
	for _, i := range []int{deadlineFlush, deadlineForced} {
		if o.deadlines.has(i) {
			return o.deadlines.get(i)
		}
	}
	first, _ := o.earliest()
	return first
}

// add puts an accepted event into the window and sets its deadlines. A later
// closing, continuous or passive event moves its own deadline.
func (o *Open) add(m Member, s *Settings) {
	o.Events = append(o.Events, m)
	o.Bytes += int64(m.Size)
	at, p := m.SeenAt, m.Position
	switch m.Kind {
	case Flush:
		if !o.deadlines.has(deadlineFlush) {
			o.deadlines.set(deadlineFlush, at, p)
		}
	case Closing:
		o.deadlines.set(deadlineClosing, at+Time(s.ClosingGraceMs), p)
	case Continuous:
		o.deadlines.set(deadlineStream, at+Time(s.StreamGapMs), p)
	case Passive:
		o.deadlines.set(deadlinePassive, at+Time(s.PassiveQuietMs), p)
	case Consequence, Context:
		if limit := at + Time(s.MaxWindowMs); !o.hasAct && (!o.hasLead || limit < o.ageCheck) {
			o.ageCheck, o.hasLead = limit, true
		}
		return
	}
	o.hasAct = true
	if m.Kind != Flush && !o.deadlines.has(deadlineAge) {
		o.deadlines.set(deadlineAge, at+Time(s.MaxWindowMs), p)
	}
}

// shedAge drops consequences and contexts before the first act that are older
// than their maxWindowMs at the instant given.
func (o *Open) shedAge(at Time, settingsOf func(policy uint32) *Settings, run *ShedRun) {
	if !o.hasLead || at <= o.ageCheck {
		return
	}
	o.hasLead = false
	kept := make(Members, 0, len(o.Events))
	for i, m := range o.Events {
		if !m.Kind.Sheddable() {
			kept = append(kept, o.Events[i:]...)
			break
		}
		limit := m.SeenAt + Time(settingsOf(m.Policy).MaxWindowMs)
		if at > limit {
			o.drop(m, run)
			continue
		}
		if !o.hasLead || limit < o.ageCheck {
			o.ageCheck, o.hasLead = limit, true
		}
		kept = append(kept, m)
	}
	o.Events = kept
	o.unmark()
}

// unmark forgets the flush call on a window that shedding has emptied: such a
// window never settles, and its mark does not pass on to the next.
func (o *Open) unmark() {
	if len(o.Events) == 0 {
		o.deadlines = deadlines{}
	}
}

// shedOverflow drops the oldest consequences and contexts while the window is
// over its caps; when none is left the window is due with overflow.
func (o *Open) shedOverflow(arrival *Member, s *Settings, run *ShedRun) {
	from := 0
	for len(o.Events) > s.MaxEvents || o.Bytes > s.MaxWindowBytes {
		i := from
		for i < len(o.Events) && !o.Events[i].Kind.Sheddable() {
			i++
		}
		if i == len(o.Events) {
			o.deadlines.set(deadlineOverflow, arrival.SeenAt, arrival.Position)
			return
		}
		o.drop(o.Events[i], run)
		if i == 0 {
			o.Events = o.Events[1:]
		} else {
			kept := make(Members, 0, len(o.Events))
			kept = append(kept, o.Events[:i]...)
			o.Events = append(kept, o.Events[i+1:]...)
		}
		from = i
	}
	o.unmark()
}

func (o *Open) drop(m Member, run *ShedRun) {
	o.Bytes -= int64(m.Size)
	o.Dropped++
	run.add(m.Position)
}
