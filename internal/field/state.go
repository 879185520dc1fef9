package field

import (
	"encoding/json"
	"fmt"
	"slices"
)

// State is a Field: the fold of its changes. It is not safe for use by several
// at once while one of them applies; those that only look do not disturb each
// other.
type State struct {
	number int64 // changes applied
	epoch  int64 // the epoch that the next change takes
	last   int64 // the highest timestamp applied

	list    pages            // entries that are no drafts, in the order of read
	byID    map[string]int32 // their places in list
	drafts  map[string]*record
	retired map[int32]retirement // by place in list
	chains  []int32              // the place of the last of each line of successors; 0 is no line

	agents  []agent // 0 is nobody
	agentNo map[string]int32
	roles   []role // 0 is none
	roleNo  map[string]int32

	active  index   // committed entries
	topics  []index // the same by topic; 0 is none
	topicNo map[value]int32
}

// retirement is what is known of a retract beyond the entry.
type retirement struct {
	intent string
	at     int64
}

// agent is someone who has written or registered.
type agent struct {
	name    string
	role    int32     // of the session; 0 without one
	session *session  // nil when not registered
	drafts  []*record // in the order of their creation
}

type session struct {
	role         string
	capabilities []string
	at           int64
}

// NewState returns an empty Field.
func NewState() *State {
	return &State{
		byID:    make(map[string]int32),
		drafts:  make(map[string]*record),
		retired: make(map[int32]retirement),
		chains:  make([]int32, 1),
		agents:  make([]agent, 1),
		agentNo: make(map[string]int32),
		roles:   make([]role, 1),
		roleNo:  make(map[string]int32),
		topics:  make([]index, 1),
		topicNo: make(map[value]int32),
	}
}

// Number is the Field's position: how many changes have been applied.
func (s *State) Number() int64 { return s.number }

// ChangedAt is the timestamp of the last change, in Unix milliseconds; 0 before
// the first.
func (s *State) ChangedAt() int64 { return s.last }

// Epoch is the counter of epochs: the epoch that the next entry takes, and so
// how many have been taken.
func (s *State) Epoch() int64 { return s.epoch }

// Len is the number of entries, whatever their status, without drafts.
func (s *State) Len() int { return s.list.len }

// Entry returns an entry by its id; drafts are not among them.
func (s *State) Entry(id string) (Entry, bool) {
	n, ok := s.byID[id]
	if !ok {
		return Entry{}, false
	}
	return s.entry(s.list.at(n)), true
}

// Draft returns a draft by its id, whoever asks.
func (s *State) Draft(id string) (Entry, bool) {
	r, ok := s.drafts[id]
	if !ok {
		return Entry{}, false
	}
	return s.entry(r), true
}

// Apply makes a change that was decided on the state as it is, or read from
// the log in its turn. On an error the state is as it was: the change does not
// follow from those before it.
func (s *State) Apply(c *Change) error {
	if err := s.apply(c); err != nil {
		return fmt.Errorf("apply change %d (%s): %w", s.number+1, c.Kind, err)
	}
	s.number++
	s.last = max(s.last, c.At)
	return nil
}

func (s *State) apply(c *Change) error {
	if err := c.check(); err != nil {
		return err
	}
	switch c.Kind {
	case KindRegistered:
		a := &s.agents[s.internAgent(c.Agent)]
		a.role = s.internRole(c.Role)
		a.session = &session{role: c.Role, capabilities: slices.Clone(c.Capabilities), at: c.At}
		return nil
	case KindDeregistered:
		if n, ok := s.agentNo[c.Agent]; ok {
			s.agents[n].role, s.agents[n].session = 0, nil
		}
		return nil
	case KindDiscarded:
		return s.discard(c)
	default:
	}
	if c.Epoch < s.epoch {
		return fmt.Errorf("epoch %d is taken: the next is %d", c.Epoch, s.epoch)
	}
	if err := s.enter(c); err != nil {
		return err
	}
	s.epoch = c.Epoch + 1
	return nil
}

// enter makes the changes that take an epoch.
func (s *State) enter(c *Change) error {
	switch c.Kind {
	case KindWritten, KindDrafted:
		if s.taken(c.ID) {
			return fmt.Errorf("id %s is taken", c.ID)
		}
		if r := s.record(c); c.Kind == KindWritten {
			s.append(r)
		} else {
			s.addDraft(r)
		}
	case KindCommitted:
		r, ok := s.drafts[c.ID]
		if !ok {
			return fmt.Errorf("no draft %s", c.ID)
		}
		s.dropDraft(r)
		committed := *r
		committed.epoch, committed.timestamp, committed.status = c.Epoch, c.At, codeCommitted
		s.append(committed)
	case KindRetracted:
		n, err := s.standing(c.ID)
		if err != nil {
			return err
		}
		s.leave(n, codeRetracted)
		s.retired[n] = retirement{intent: c.Intent, at: c.At}
	case KindSuperseded:
		n, err := s.standing(c.Old)
		if err != nil {
			return err
		}
		if s.taken(c.ID) {
			return fmt.Errorf("id %s is taken", c.ID)
		}
		s.leave(n, codeSuperseded)
		s.succeed(n, s.record(c))
	default:
		return fmt.Errorf("kind %q takes no epoch", c.Kind)
	}
	return nil
}

// succeed puts an entry in the place of another. The last of a line is kept at
// hand: some are superseded by their first id for years.
func (s *State) succeed(n int32, r record) {
	r.supersedes, r.chain = n+1, s.list.at(n).chain
	if r.chain == 0 {
		r.chain = int32(len(s.chains)) //nolint:gosec // there are not so many
		s.chains = append(s.chains, 0)
	}
	last := s.append(r) // first: it may move the page that holds the predecessor
	s.chains[r.chain] = last
	old := s.list.at(n)
	old.supersededBy, old.chain = last+1, r.chain
}

// discard turns a draft into an entry that nobody is given, with its own epoch
// and timestamp, and the reason in the place of its intent.
func (s *State) discard(c *Change) error {
	r, ok := s.drafts[c.ID]
	if !ok {
		return fmt.Errorf("no draft %s", c.ID)
	}
	s.dropDraft(r)
	gone := newRecord(r.id(), c.Intent, r.payload())
	gone.epoch, gone.timestamp, gone.agent, gone.topic, gone.status = r.epoch, r.timestamp, r.agent, r.topic, codeRetracted
	n := s.append(gone)
	s.retired[n] = retirement{at: c.At}
	return nil
}

// standing returns the place of a committed entry.
func (s *State) standing(id string) (int32, error) {
	n, ok := s.byID[id]
	if !ok {
		return 0, fmt.Errorf("no entry %s", id)
	}
	if status := s.list.at(n).status; status != codeCommitted {
		return 0, fmt.Errorf("entry %s is %s", id, status.status())
	}
	return n, nil
}

func (s *State) taken(id string) bool {
	if _, ok := s.byID[id]; ok {
		return true
	}
	_, ok := s.drafts[id]
	return ok
}

// record makes the record of a change that brings a payload.
func (s *State) record(c *Change) record {
	r := newRecord(c.ID, c.Intent, string(c.Entry))
	r.epoch, r.timestamp, r.status = c.Epoch, c.At, codeCommitted
	if c.Kind == KindDrafted {
		r.status = codeDraft
	}
	r.agent = s.internAgent(c.Agent)
	r.topic = s.internTopic(lookup(r.payload(), "topic"))
	return r
}

// append puts an entry at the end of the list and returns its place.
func (s *State) append(r record) int32 {
	n := s.list.append(r)
	s.byID[r.id()] = n
	if r.status == codeCommitted {
		s.active.add(n, &r)
		if r.topic != 0 {
			s.topics[r.topic].add(n, &r)
		}
	}
	return n
}

// leave takes an entry out of what agents are given.
func (s *State) leave(n int32, status statusCode) {
	r := s.list.at(n)
	r.status = status
	s.active.remove(n, &s.list)
	if r.topic != 0 {
		s.topics[r.topic].remove(n, &s.list)
	}
}

func (s *State) addDraft(r record) {
	s.drafts[r.id()] = &r
	if r.agent != 0 {
		a := &s.agents[r.agent]
		a.drafts = append(a.drafts, &r)
	}
}

func (s *State) dropDraft(r *record) {
	delete(s.drafts, r.id())
	if r.agent != 0 {
		a := &s.agents[r.agent]
		i := slices.Index(a.drafts, r)
		a.drafts = slices.Delete(a.drafts, i, i+1)
	}
}

func (s *State) internAgent(name string) int32 {
	if name == "" {
		return 0
	}
	n, ok := s.agentNo[name]
	if !ok {
		n = int32(len(s.agents)) //nolint:gosec // there are not so many
		s.agents = append(s.agents, agent{name: name})
		s.agentNo[name] = n
	}
	return n
}

func (s *State) internTopic(v value) int32 {
	if !v.primitive() {
		return 0
	}
	n, ok := s.topicNo[v]
	if !ok {
		n = int32(len(s.topics)) //nolint:gosec // there are not so many
		s.topics = append(s.topics, index{})
		s.topicNo[v] = n
	}
	return n
}

// entry copies a record out.
func (s *State) entry(r *record) Entry {
	e := s.bare(r)
	e.Entry = json.RawMessage(r.payload())
	return e
}

// bare copies it out without its payload.
func (s *State) bare(r *record) Entry {
	e := Entry{
		ID: r.id(), Timestamp: r.timestamp, Epoch: r.epoch, Agent: s.agents[r.agent].name,
		Status: r.status.status(), Intent: r.intent(),
	}
	if r.supersedes != 0 {
		e.Supersedes = s.list.at(r.supersedes - 1).id()
	}
	if r.supersededBy != 0 {
		e.SupersededBy = s.list.at(r.supersededBy - 1).id()
	}
	if r.status == codeRetracted {
		gone := s.retired[s.byID[e.ID]]
		e.RetractIntent, e.RetractedAt = gone.intent, gone.at
	}
	return e
}
