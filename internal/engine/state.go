package engine

// Member is an event of a window, without its payload.
type Member struct {
	Position Position
	SeenAt   Time // the log's stamp
	Policy   uint32
	Size     int32 // bytes that count for the byte cap
	Kind     Kind
	Name     string
	Digest   Digest
}

// Members are a window's events in order. They are stored packed.
type Members []Member

// State is the fold of one scope's records. It is a value of plain data: Apply
// alone changes it, and only by what the record and the rules say.
type State struct {
	Scope    string
	Position Position // of the last record applied
	Time     Time     // scope time: the stamp of the last record applied
	LastStep Position // of the last step that the scope's owner wrote

	Open     Open
	Held     *Held
	Slot     *Slot     // nil: the judge slot is free
	FreedAt  Time      // when the slot was last freed by a record
	Requeued []Requeue // dead letters that wait for the slot, oldest first
	Asked    []string  // ids of the last dead letters that were requeued, oldest first
	Pending  []Pending // closed by the fold, not yet written down, oldest first
	Recent   []Recent  // the last verdicts, oldest first
	Outbox   *Lane     // decisions to be delivered; nil when there are none
	Letters  *Lane     // dead letters for the handler; nil when there are none
	Seen     Seen

	bodies map[Position]*Event // of live windows' events, where a rule looks at them; see Missing
}

// NewState returns the empty state of a scope.
func NewState(scope string) *State { return &State{Scope: scope} }

// Open is the window that collects events.
type Open struct {
	Events    Members
	Bytes     int64
	Dropped   int  // shed since the last settle
	Gap       bool // a source reported lost events
	deadlines deadlines
	// ageCheck is at or before the first instant after which a leading
	// consequence or context is too old; noAge when there is none.
	ageCheck Time
	hasLead  bool
	hasAct   bool // an act or a flush stands in Events
}

// Held is a window whose verdict was wait.
type Held struct {
	Settled Settled `json:"settled"`
	Members Members `json:"members"`
	Until   Time    `json:"until"` // its horizon
	Waits   int     `json:"waits"` // times it has been held, this one included
	// Flushed is set when a flush call came while the slot was taken.
	Flushed   bool `json:"flushed,omitempty"`
	FlushedAt Time `json:"flushedAt,omitempty"`
}

// Phase says where the window in the judge slot stands.
type Phase uint8

// The phases of the slot.
const (
	PhaseClosed  Phase = iota + 1 // closed; its first call has not started
	PhaseCalling                  // a call has started and has no outcome
	PhaseBackoff                  // the attempt failed; the next starts at RetryAt
	PhaseDead                     // the last attempt failed; its dead letter is not in the log yet
)

// Slot is the scope's one judge slot when it is taken.
type Slot struct {
	Settled  Settled `json:"settled"`
	Members  Members `json:"members"`
	Recorded bool    `json:"recorded,omitempty"` // the settled step stands in the log
	NoWait   bool    `json:"noWait,omitempty"`   // wait must not be offered, whatever maxWaits says at the call
	Letters  int     `json:"letters,omitempty"`  // dead letters this window already had

	Phase     Phase   `json:"phase"`
	Attempt   int     `json:"attempt,omitempty"` // attempts of the ladder that have started
	Extra     bool    `json:"extra,omitempty"`   // the running call is outside the ladder
	Cut       bool    `json:"cut,omitempty"`     // a flush has cut a backoff short; it can once
	Since     Time    `json:"since,omitempty"`   // when the running call started
	TimeoutMs int64   `json:"timeoutMs,omitempty"`
	Policy    uint32  `json:"policy,omitempty"` // of the running call
	Offered   []Route `json:"offered,omitempty"`
	Failed    Failed  `json:"failed"`            // the last failure
	Flushed   bool    `json:"flushed,omitempty"` // a flush call came while it was judged
	FlushedAt Time    `json:"flushedAt,omitempty"`
}

// Pending is what the fold has closed and the log does not tell yet. With a
// judge that does IO the window stands in the slot; with a pure judge, or
// under a silence, the verdict is already known.
type Pending struct {
	Settled    Settled  `json:"settled"`
	Members    Members  `json:"members"`
	Own        int      `json:"own"`                // how many of Members, from the end, came from the open window
	Recorded   bool     `json:"recorded,omitempty"` // the settled step stands in the log
	Verdict    *Verdict `json:"verdict,omitempty"`
	Dead       string   `json:"dead,omitempty"`    // a pure judge answered what cannot be: the message
	At         Time     `json:"at,omitempty"`      // when it did
	Letters    int      `json:"letters,omitempty"` // dead letters this window already had
	heldBefore *Held    // what was held before the close, to undo it
}

// Outcome tells what applying one record did, for answers and metrics. It
// carries nothing that the state needs.
type Outcome struct {
	Duplicate bool     // the event was one, and changed nothing
	Overflow  ShedRun  // events shed for overflow
	Age       ShedRun  // events shed for age
	Closed    int      // windows that the fold closed
	Marked    []string // what a flush call marked: open, held, judging
	Ignored   bool     // an answer or failure that no call waits for
	Diverged  string   // why a recorded step was not what the fold made; the record won
	Forgotten int      // ids forgotten early, by number
}

// ShedRun counts events dropped for one cause, and the range they stood in.
type ShedRun struct {
	Count       int
	First, Last Position
}

func (r *ShedRun) add(p Position) {
	if r.Count == 0 || p < r.First {
		r.First = p
	}
	if p > r.Last {
		r.Last = p
	}
	r.Count++
}

// Idle reports whether the scope holds nothing that can still lead to a
// decision or a delivery by itself: nothing open, held, being judged, requeued,
// unwritten or undelivered.
func (s *State) Idle() bool {
	return len(s.Open.Events) == 0 && s.Held == nil && s.Slot == nil && len(s.Requeued) == 0 && len(s.Pending) == 0 &&
		s.Outbox == nil && s.Letters == nil
}

// Remembers reports whether an event with this id would be a duplicate at an
// instant, under the settings of the newest policy.
func (s *State) Remembers(r *Rules, d Digest, at Time) bool {
	known, remembered := s.Seen.remembers(d, max(at, s.Time), r.Latest().For(s.Scope).DedupIDs)
	return remembered || known && s.live(d)
}

// oldestLive is the position of the oldest event in a window that is open,
// held, judged or in line to be (see live); beyond every position when there is
// none.
func (s *State) oldestLive() Position {
	oldest := Position(1<<63 - 1)
	look := func(m Members) {
		if len(m) > 0 && m[0].Position < oldest {
			oldest = m[0].Position
		}
	}
	look(s.Open.Events)
	if s.Held != nil {
		look(s.Held.Members)
	}
	if s.Slot != nil {
		look(s.Slot.Members)
	}
	for i := range s.Requeued {
		look(s.Requeued[i].Members)
	}
	return oldest
}

// live reports whether an event with the digest is in a window that is open,
// held, judged or in line to be. What a pure judge has decided is none of
// these, whether its steps stand in the log yet or not: else it would count
// how fast the owner writes.
func (s *State) live(d Digest) bool {
	in := func(m Members) bool {
		for i := range m {
			if m[i].Digest == d {
				return true
			}
		}
		return false
	}
	if in(s.Open.Events) || s.Held != nil && in(s.Held.Members) || s.Slot != nil && in(s.Slot.Members) {
		return true
	}
	for i := range s.Requeued {
		if in(s.Requeued[i].Members) {
			return true
		}
	}
	return false
}
