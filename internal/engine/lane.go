package engine

import (
	"fmt"
	"slices"
)

// A scope has two lanes, in which what a policy's sinks are to be given waits,
// oldest first: the outbox holds decisions, the other dead letters. Only the
// first of a lane is on its way, and the next goes when it has arrived or, of a
// decision, when its attempts are used up. Then the decision is a dead letter of
// stage sink. Dead letters are never given up.
//
// Lanes follow from the steps alone, like everything else, and nothing waits
// for them: neither settling nor judging (seed, "Sinks", "Failures").

// LaneName tells a scope's lanes apart.
type LaneName string

// The lanes.
const (
	LaneOutbox  LaneName = "outbox"      // decisions
	LaneLetters LaneName = "deadLetters" // dead letters, for the handler
)

// LaneNames lists the lanes, in the order in which they are looked at.
func LaneNames() [2]LaneName { return [...]LaneName{LaneOutbox, LaneLetters} }

// Parcel is a decision or dead letter that is to be delivered.
type Parcel struct {
	ID       string   `json:"id"`                // of the decision or dead letter
	Window   string   `json:"window,omitempty"`  // of a dead letter; a decision's is its id
	Position Position `json:"position"`          // of a step that carries it
	Route    Route    `json:"route,omitempty"`   // of a decision
	Sink     string   `json:"sink,omitempty"`    // that the policy named for it when it came; one that is named now is preferred
	Letters  int      `json:"letters,omitempty"` // dead letters of stage sink that the decision already had
}

// LanePhase says where the first of a lane stands.
type LanePhase uint8

// The phases of a lane's first.
const (
	LaneWaits   LanePhase = iota // no attempt has started, or the last did not count
	LaneSends                    // an attempt has started and has no outcome
	LaneBackoff                  // the attempt failed; the next starts at Failed.RetryAt
	LaneGivenUp                  // the last attempt failed; the dead letter is not in the log yet
)

// Lane is one lane of a scope that holds something. All but Queue is about its
// first parcel.
type Lane struct {
	Queue   []Parcel  `json:"queue"`
	Phase   LanePhase `json:"phase,omitempty"`
	Attempt int       `json:"attempt,omitempty"` // attempts that have started
	Sink    string    `json:"sink,omitempty"`    // of the last attempt
	Since   Time      `json:"since,omitempty"`   // when it started
	Until   Time      `json:"until,omitempty"`   // when it is over, whoever made it
	Policy  uint32    `json:"policy,omitempty"`  // under which it was made
	Owner   int64     `json:"owner,omitempty"`   // who made it: the token of its fence
	Failed  *Failed   `json:"failed,omitempty"`  // the last failure
}

// Delivery is a step about the first of a lane: the start of an attempt, which
// stands in the log before the effect, or its outcome.
type Delivery struct {
	ID      string   `json:"id"` // of the decision or dead letter
	Lane    LaneName `json:"lane"`
	Sink    string   `json:"sink"`
	Attempt int      `json:"attempt"` // 1 is the first

	// Of a start. Until TimeoutMs after its stamp nobody else may try. Owner is
	// the token of the fence under which it was written: whoever prepared the
	// same start at the same time finds that it is another's.
	Policy    uint32 `json:"policy,omitempty"`
	TimeoutMs int64  `json:"timeoutMs,omitempty"`
	Owner     int64  `json:"owner,omitempty"`

	TookMs int64   `json:"tookMs,omitempty"` // of an attempt that arrived
	Failed *Failed `json:"failed,omitempty"` // of one that did not
}

// Lane is one of the scope's lanes, nil when it is empty. The caller must not
// change it.
func (s *State) Lane(name LaneName) *Lane {
	if name == LaneLetters {
		return s.Letters
	}
	return s.Outbox
}

func (s *State) setLane(name LaneName, l *Lane) {
	if name == LaneLetters {
		s.Letters = l
		return
	}
	s.Outbox = l
}

// Len is how many parcels wait, the one on its way included; of a nil lane 0.
func (l *Lane) Len() int {
	if l == nil {
		return 0
	}
	return len(l.Queue)
}

// Full names a lane that holds as many as it may, or more: new events of the
// scope are then refused. ok is false when none does. It never stops settling,
// judging or dead letters.
func (s *State) Full(set *Settings) (name LaneName, ok bool) {
	switch {
	case s.Outbox.Len() >= set.MaxOutbox:
		return LaneOutbox, true
	case s.Letters.Len() >= set.MaxDeadLetters:
		return LaneLetters, true
	}
	return "", false
}

// post puts a parcel at the end of a lane, unless it is in it already.
func (s *State) post(name LaneName, p Parcel) bool {
	l := s.Lane(name)
	if l == nil {
		s.setLane(name, &Lane{Queue: []Parcel{p}})
		return true
	}
	if slices.ContainsFunc(l.Queue, func(q Parcel) bool { return q.ID == p.ID }) {
		return false
	}
	longer := *l
	longer.Queue = append(l.Queue, p)
	s.setLane(name, &longer)
	return true
}

// decided puts a decision into the outbox if the policy in force has a sink
// for its route.
func (s *State) decided(r *Rules, rec *Record) {
	st := rec.Step
	if sink := r.At(rec.Stamp).Sinks[st.Route]; sink != "" {
		s.post(LaneOutbox, Parcel{ID: st.Window, Position: rec.Position, Route: st.Route, Sink: sink})
	}
}

// lettered takes a dead letter: a decision that was given up leaves the outbox,
// and the letter goes to the handler if the policy in force has one.
func (s *State) lettered(r *Rules, rec *Record, out *Outcome) {
	d := rec.Step.DeadLetter
	if d.Stage == StageSink {
		if l := s.Outbox; l == nil || l.Phase != LaneGivenUp || l.Queue[0].ID != d.WindowID {
			out.Ignored = true
			return
		}
		s.shift(LaneOutbox)
	}
	if handler := r.At(rec.Stamp).Letters; handler != "" {
		s.post(LaneLetters, Parcel{ID: d.ID, Window: d.WindowID, Position: rec.Position, Sink: handler})
	}
}

// shift takes the first off a lane.
func (s *State) shift(name LaneName) {
	l := s.Lane(name)
	if len(l.Queue) == 1 {
		s.setLane(name, nil)
		return
	}
	s.setLane(name, &Lane{Queue: l.Queue[1:]})
}

// sent takes the start of an attempt.
func (s *State) sent(rec *Record, out *Outcome) {
	d := rec.Step.Delivery
	l := s.about(d)
	if l == nil || l.Phase == LaneSends {
		out.Ignored = true
		return
	}
	sends := *l
	sends.Phase, sends.Attempt, sends.Sink, sends.Policy = LaneSends, d.Attempt, d.Sink, d.Policy
	sends.Owner = d.Owner
	sends.Since, sends.Until = rec.Stamp, rec.Stamp+Time(d.TimeoutMs)
	s.setLane(d.Lane, &sends)
}

// arrived takes an attempt that has reached the sink.
func (s *State) arrived(rec *Record, out *Outcome) {
	d := rec.Step.Delivery
	if l := s.about(d); l == nil || l.Phase != LaneSends || l.Attempt != d.Attempt {
		out.Ignored = true
		return
	}
	s.shift(d.Lane)
}

// returned takes an attempt that has not. With no next attempt a decision waits
// for its dead letter; a dead letter is left to the log, where it stands.
func (s *State) returned(rec *Record, out *Outcome) {
	d := rec.Step.Delivery
	l := s.about(d)
	if l == nil || l.Phase != LaneSends || l.Attempt != d.Attempt || d.Failed == nil {
		out.Ignored = true
		return
	}
	after := *l
	after.Failed = d.Failed
	switch {
	case d.Failed.Uncounted:
		after.Phase = LaneWaits
		after.Attempt--
	case d.Failed.RetryAt > 0:
		after.Phase = LaneBackoff
	case d.Lane == LaneLetters:
		s.shift(d.Lane)
		return
	default:
		after.Phase = LaneGivenUp
	}
	s.setLane(d.Lane, &after)
}

// about is the lane whose first a step is about, nil when it is about none.
func (s *State) about(d *Delivery) *Lane {
	if d == nil {
		return nil
	}
	if l := s.Lane(d.Lane); l != nil && l.Queue[0].ID == d.ID {
		return l
	}
	return nil
}

// deliverAgain puts the decision of a dead letter back, at the end of the
// outbox.
func (s *State) deliverAgain(r *Rules, rec *Record, out *Outcome) {
	q := rec.Step.Requeue
	p := Parcel{
		ID: rec.Step.Window, Position: q.Position, Route: q.Route,
		Sink: r.At(rec.Stamp).Sinks[q.Route], Letters: q.Number,
	}
	if slices.Contains(s.Asked, q.DeadLetter) || !s.post(LaneOutbox, p) {
		out.Ignored = true
		return
	}
	s.asked(q.DeadLetter)
}

// checkLanes refuses sinks for what is never delivered.
func (p *Policy) checkLanes() error {
	for _, route := range Routes() {
		if sink, ok := p.Sinks[route]; ok && (!route.Act() || sink == "") {
			return fmt.Errorf("sinks: route %s to %q: only interrupt, queue, note and ask are delivered, each to a sink with a name", route, sink)
		}
	}
	return nil
}

// Carrier is the position of the oldest step that carries what the scope still
// has to deliver: it must be kept until then. ok is false when there is none.
func (s *State) Carrier() (oldest Position, ok bool) {
	for _, name := range LaneNames() {
		l := s.Lane(name)
		for i := 0; i < l.Len(); i++ {
			if p := l.Queue[i].Position; !ok || p < oldest {
				oldest, ok = p, true
			}
		}
	}
	return oldest, ok
}
