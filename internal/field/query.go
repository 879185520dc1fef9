package field

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Query is what attune, reckon or read is asked.
type Query struct {
	Op Op

	// Of attune and reckon.

	Agent    string  // who asks; never blank
	HasTopic bool    // a topic is given (null is none)
	Topic    string  // the topic as text, for names and messages
	Role     *string // nil: the agent's registered role counts
	MaxUnits int     // 0: nothing
	// Beyond says that more was asked for than the daemon gives: MaxUnits is
	// what it gives, and the answer tells if there was more.
	Beyond bool
	// OnlyTopic hides entries of other topics also where scoring does not.
	OnlyTopic bool
	// Deep compares what stands within objects, too (reckon).
	Deep bool
	// ConflictsOnly leaves entries out of what is pushed (reckon).
	ConflictsOnly bool

	topic value

	// Of read.

	Caller string // whose drafts come last; "" for none
	Limit  int    // entries; 0: nothing
	After  string // the id after which to go on; "" for the start

	where []condition
}

// ParseQuery reads the parameters of attune, reckon or read. Errors are
// *Error, in the order of docs/field.md, "Errors": the agent first, unknown
// parameters last. The settings are those under which the query will be answered.
func ParseQuery(op Op, params json.RawMessage, _ Settings) (*Query, error) {
	if !op.known() || op.Changes() {
		return nil, fmt.Errorf("parse query: %q does not ask: attune, reckon and read do", op)
	}
	in, err := parseInput(op, params)
	if err != nil {
		return nil, err
	}
	return in.question()
}

func (in *input) question() (*Query, error) {
	if in.op == OpRead {
		return in.readQuery()
	}
	return in.query()
}

// ParsePush is ParseQuery for a subscription to attune or reckon. What is left
// out differs: a topic is then the only one, and of a reckoning only the
// conflicts are told.
func ParsePush(op Op, params json.RawMessage, _ Settings) (*Query, error) {
	if op != OpAttune && op != OpReckon {
		return nil, fmt.Errorf("parse subscription: %q cannot be subscribed to: attune and reckon can", op)
	}
	in, err := parsePushed(op, params)
	if err != nil {
		return nil, err
	}
	q, err := in.query()
	if err != nil {
		return nil, err
	}
	if _, given := in.given("only_topic"); !given {
		q.OnlyTopic = q.HasTopic
	}
	if _, given := in.given("conflictsOnly"); !given {
		q.ConflictsOnly = op == OpReckon
	}
	return q, nil
}

// Answer is the result of a query, Attuned, Reckoned or Page, of at most
// MaxAnswer. The only error is Read's. Whoever cannot have the State stand still
// for so long uses Gather or a Reading.
func (s *State) Answer(q *Query, set Settings) (any, error) {
	if q.Op == OpRead {
		return s.Read(q)
	}
	g := s.Gather(q, set)
	g.Compare(never)
	g.Fit(MaxAnswer)
	return g.Result(), nil
}

func (in *input) query() (*Query, error) {
	q := &Query{Op: in.op}
	var err error
	if q.Agent, err = in.name("agent"); err != nil {
		return nil, err
	}
	most := MaxAttuned
	if in.op == OpReckon {
		most = MaxReckoned
	}
	if q.MaxUnits, q.Beyond, err = in.count("max_units", DefaultUnits, most); err != nil {
		return nil, err
	}
	if q.topic, q.HasTopic = in.given("topic"); q.HasTopic {
		if !q.topic.primitive() {
			return nil, in.bad("topic", InvalidQuery, "topic of %s is an object or array: want a text, a number, true or false", in.op)
		}
		if math.IsInf(q.topic.num, 0) {
			return nil, refuse(InvalidQuery, "topic of %s is a number too large to be compared", in.op)
		}
		q.Topic = q.topic.String()
	}
	if _, given := in.given("role"); given {
		role, err := in.nameIfGiven("role", InvalidQuery)
		if err != nil {
			return nil, err
		}
		q.Role = &role
	}
	for _, f := range []struct {
		name string
		to   *bool
	}{{"only_topic", &q.OnlyTopic}, {"deep", &q.Deep}, {"conflictsOnly", &q.ConflictsOnly}} {
		if !slices.Contains(in.known, f.name) {
			continue
		}
		if *f.to, err = in.flag(f.name); err != nil {
			return nil, err
		}
	}
	return q, in.closed()
}
