package field

import (
	"encoding/json"
	"fmt"
	"slices"
)

// ProtocolVersion is the version of the protocol that register answers.
const ProtocolVersion = "0.2"

// Draw is what a decision needs from outside: the caller reads the clock and
// draws the id, once, and what was decided is recorded.
type Draw struct {
	Now int64 // Unix milliseconds; raised to the last timestamp of the Field
	// ID is for the entry or draft that the operation may make: a new ULID.
	ID string
	// Pending is how many changes by Independent operations have been decided
	// and not yet applied. Other operations need all to be applied.
	Pending int
}

// Decision is what an operation comes to.
type Decision struct {
	Change *Change // nil: nothing changes
	Result any     // for the caller, once the change is durable
}

// decider is one operation on its way.
type decider struct {
	s   *State
	in  *input
	set Settings
	id  string
	at  int64
	ep  int64 // the epoch that the change takes, if it takes one
}

// Decide runs an operation against the state as it is, and changes nothing:
// the caller keeps the change and then applies it. An *Error is the protocol's
// refusal; any other error is a mistake of the caller.
func (s *State) Decide(op Op, params json.RawMessage, set Settings, d Draw) (*Decision, error) {
	if !op.known() {
		return nil, fmt.Errorf("decide: no operation %q: there are %v", op, Ops())
	}
	in, err := parseInput(op, params)
	if err != nil {
		return nil, err
	}
	x := &decider{s: s, in: in, set: set, id: d.ID, at: max(d.Now, s.last), ep: s.epoch}
	if op.Independent() {
		x.ep += int64(d.Pending)
	}
	switch op {
	case OpRegister:
		return x.register()
	case OpDeregister:
		return x.deregister()
	case OpWrite, OpDraft:
		return x.write()
	case OpCommit:
		return x.commit()
	case OpDiscard:
		return x.discard()
	case OpRetract:
		return x.retract()
	case OpSupersede:
		return x.supersede()
	default:
		return x.look()
	}
}

// look answers what only looks.
func (x *decider) look() (*Decision, error) {
	q, err := x.in.question()
	if err != nil {
		return nil, err
	}
	result, err := x.s.Answer(q, x.set)
	if err != nil {
		return nil, err
	}
	return &Decision{Result: result}, nil
}

func (x *decider) register() (*Decision, error) {
	id, err := x.in.name("id")
	if err != nil {
		return nil, err
	}
	role, err := x.in.name("role")
	if err != nil {
		return nil, err
	}
	capabilities, err := x.in.capabilities()
	if err != nil {
		return nil, err
	}
	if err := x.in.closed(); err != nil {
		return nil, err
	}
	result := Registered{Capabilities: []string{}, Version: ProtocolVersion, Session: id}
	if x.set.Mode == Graded {
		for _, op := range Ops() {
			result.Capabilities = append(result.Capabilities, string(op))
		}
	}
	if had := x.s.session(id); had != nil {
		same := had.role == role && slices.Equal(had.capabilities, capabilities)
		if x.set.Mode == Reference || same {
			return &Decision{Result: result}, nil
		}
	}
	return &Decision{&Change{Kind: KindRegistered, At: x.at, Agent: id, Role: role, Capabilities: capabilities}, result}, nil
}

func (s *State) session(id string) *session {
	n, ok := s.agentNo[id]
	if !ok {
		return nil
	}
	return s.agents[n].session
}

func (x *decider) deregister() (*Decision, error) {
	id, err := x.in.name("id")
	if err != nil {
		return nil, err
	}
	if err := x.in.closed(); err != nil {
		return nil, err
	}
	if x.s.session(id) == nil {
		return &Decision{Result: Done{}}, nil
	}
	return &Decision{&Change{Kind: KindDeregistered, At: x.at, Agent: id}, Done{}}, nil
}

// write decides write and draft.
func (x *decider) write() (*Decision, error) {
	payload, err := x.in.entry()
	if err != nil {
		return nil, err
	}
	kind, rule := KindWritten, intentOfWrite
	if x.in.op == OpDraft {
		kind, rule = KindDrafted, intentOfDraft
	}
	intent, err := x.in.intent(rule, x.set.MinIntent)
	if err != nil {
		return nil, err
	}
	agent, err := x.in.nameIfGiven("agent", AgentRequired)
	if err != nil {
		return nil, err
	}
	if err := x.in.closed(); err != nil {
		return nil, err
	}
	if err := x.fresh(); err != nil {
		return nil, err
	}
	c := &Change{Kind: kind, At: x.at, Epoch: x.ep, ID: x.id, Agent: agent, Intent: intent, Entry: json.RawMessage(payload)}
	if kind == KindDrafted {
		return &Decision{c, Drafted{c.ID}}, nil
	}
	return &Decision{c, c.written()}, nil
}

func (c *Change) written() Written { return Written{ID: c.ID, Timestamp: c.At, Epoch: c.Epoch} }

// fresh checks the id that the caller drew.
func (x *decider) fresh() error {
	if x.id == "" || len(x.id) > MaxName || x.s.taken(x.id) {
		return fmt.Errorf("decide %s: id %q is empty, too long or taken: draw a new one", x.in.op, x.id)
	}
	return nil
}
