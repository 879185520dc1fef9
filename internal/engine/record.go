package engine

import (
	"encoding/json"
	"fmt"
)

// Format is the number that every record and state row carries. A binary that
// meets a higher one refuses it and says which version it needs.
const Format = 1

// Shards is how many shards scopes hash to.
const Shards = 256

// Record is one entry of the log: an event or a step, never both. The store
// gives Position and Stamp as it writes; stamps never fall along the log.
type Record struct {
	Position Position
	Stamp    Time
	Scope    string // "" for records that belong to every scope (policy, silence)
	Event    *Event
	Step     *Step
}

// Event is what a producer sent, with the kind and policy number that were
// fixed when it was accepted.
type Event struct {
	ID     string
	Name   string
	Kind   Kind
	Policy uint32
	At     *Time  // the source's time: carried, never used for settling
	Data   []byte // JSON, byte for byte as sent; nil when absent
	Text   string // what the agent should read; "" when absent
}

// Size is the number of bytes that count for the byte cap.
func (e *Event) Size() int { return len(e.ID) + len(e.Name) + len(e.Data) + len(e.Text) }

// StepKind names what a step records.
type StepKind string

// The kinds of step. Those marked "outside" are appended by anyone and carry
// no step number; the owner of the scope alone appends the others.
const (
	StepFlush      StepKind = "flush"      // outside: a flush call
	StepGap        StepKind = "gap"        // outside: a source reported lost events
	StepRequeue    StepKind = "requeue"    // outside: a dead letter is to be judged, or delivered, again
	StepAck        StepKind = "ack"        // outside: a consumer acknowledged
	StepPolicy     StepKind = "policy"     // outside, every scope: a numbered policy
	StepSilence    StepKind = "silence"    // outside, every scope
	StepReload     StepKind = "reload"     // outside, every scope: the configuration was loaded again
	StepSettled    StepKind = "settled"    // a window closed
	StepCall       StepKind = "call"       // a judge call starts
	StepFailed     StepKind = "failed"     // a judge call ended without an answer
	StepWait       StepKind = "wait"       // the verdict was wait: the window is held
	StepDecision   StepKind = "decision"   // any other verdict
	StepDeadLetter StepKind = "deadLetter" // a stage gave up
	StepShed       StepKind = "shed"       // trace: events were dropped by the rules
	StepTrace      StepKind = "trace"      // any other trace

	StepDelivery    StepKind = "delivery"    // a sink is about to be called
	StepDelivered   StepKind = "delivered"   // it has taken what it was given
	StepUndelivered StepKind = "undelivered" // it has not
)

// Step is everything in the log that is not an event. Exactly one body field
// is set, the one that Kind names; a flush call has none.
type Step struct {
	Kind   StepKind `json:"kind"`
	Window string   `json:"window,omitempty"` // window id, where the step concerns one
	ID     string   `json:"id,omitempty"`     // of a decision, dead letter or silence, for look-up by id; of a settled one, of the silence that covers it
	Route  Route    `json:"route,omitempty"`  // of a decision

	Settled    *Settled    `json:"settled,omitempty"`
	Call       *Call       `json:"call,omitempty"`
	Failed     *Failed     `json:"failed,omitempty"`
	Verdict    *Verdict    `json:"verdict,omitempty"`  // of wait and decision
	Decision   *Decision   `json:"decision,omitempty"` // D, beside Verdict; composed with the events' texts
	DeadLetter *DeadLetter `json:"deadLetter,omitempty"`
	Requeue    *Requeue    `json:"requeue,omitempty"`
	Delivery   *Delivery   `json:"delivery,omitempty"` // of delivery, delivered and undelivered
	Policy     *Policy     `json:"policy,omitempty"`
	Silence    *Silence    `json:"silence,omitempty"`
	Reload     *Reload     `json:"reload,omitempty"`
	Shed       *Shed       `json:"shed,omitempty"`
	Ack        *Ack        `json:"ack,omitempty"`
	Trace      *Trace      `json:"trace,omitempty"`
}

// Outside reports whether anyone may append the step, not the owner alone.
func (k StepKind) Outside() bool {
	switch k {
	case StepFlush, StepGap, StepRequeue, StepAck, StepPolicy, StepSilence, StepReload:
		return true
	default:
		return false
	}
}

// EncodeStep writes the step's body as it stands in the log.
func EncodeStep(s *Step) ([]byte, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode step %s: %w", s.Kind, err)
	}
	return b, nil
}

// DecodeStep reads a step's body; format is the number its row carries.
func DecodeStep(b []byte, format int) (*Step, error) {
	if err := CheckFormat(format); err != nil {
		return nil, err
	}
	s := new(Step)
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("decode step: %w", err)
	}
	return s, nil
}

// FormatError reports data written by a newer binary.
type FormatError struct{ Got int }

func (e *FormatError) Error() string {
	return fmt.Sprintf("written in format %d, and this binary reads up to format %d: use the version of attend that wrote it, or a newer one", e.Got, Format)
}

// CheckFormat refuses a format number from a newer binary.
func CheckFormat(format int) error {
	if format > Format {
		return &FormatError{Got: format}
	}
	return nil
}

// Settled writes a close down (design, section 3 "The fold closes, the step
// records").
type Settled struct {
	Window    string     `json:"window"` // id
	Reason    Reason     `json:"reason"`
	Trigger   Trigger    `json:"trigger"`
	Deadline  Deadline   `json:"deadline"`            // the deadline fulfilled
	Due       Time       `json:"due"`                 // the instant at which the window closed by the rules
	SettledAt Time       `json:"settledAt"`           // scope time when the settle was made
	Events    []Position `json:"events"`              // members, in order, held ones first
	Covered   Position   `json:"covered"`             // the last position of the scope that the close took into account
	Held      string     `json:"held,omitempty"`      // id of the held window it took in
	Waits     int        `json:"waits"`               // times it was held before
	Dropped   int        `json:"dropped"`             // consequences and contexts shed
	Gap       bool       `json:"gap"`                 // a source reported lost events
	MayWait   bool       `json:"mayWait"`             // whether wait may be offered, as far as maxWaits lets it
	Silence   string     `json:"silence,omitempty"`   // id of the silence that covers it
	FirstSeen Time       `json:"firstSeen,omitempty"` // stamp of its first event
}

// Deadline is an instant at which the open window is due, and why.
type Deadline struct {
	Reason Reason   `json:"reason"`
	At     Time     `json:"at"`
	Event  Position `json:"event,omitempty"` // the event that set it; 0 for a flush call
}

// Call is the start of a judge call; it stands in the log before the call.
type Call struct {
	Attempt   int     `json:"attempt"`         // 1 is the first
	Extra     bool    `json:"extra,omitempty"` // outside the ladder: a flush cut a backoff short
	Policy    uint32  `json:"policy"`          // whose judge settings hold for this call
	Offered   []Route `json:"offered"`
	Judge     string  `json:"judge"`
	TimeoutMs int64   `json:"timeoutMs"`
	// Facts are what the judge was shown beside the window: a JSON object.
	Facts json.RawMessage `json:"facts,omitempty"`
	// Predicates are the questions that the context hook added for this call.
	Predicates []Predicate `json:"predicates,omitempty"`
	// Images are those that the capture hook brought for this call.
	Images []ImageRef `json:"images,omitempty"`
}

// Failed is an attempt that brought no answer.
type Failed struct {
	Attempt   int    `json:"attempt"`
	Why       string `json:"why"` // error, timeout, malformed, permanent, refused, held, lost, stopped
	Message   string `json:"message,omitempty"`
	Permanent bool   `json:"permanent,omitempty"`
	// Uncounted marks an attempt that does not count: a graceful stop broke it
	// off, and the next start runs it again at once (RetryAt is 0); or no judge
	// could be asked (held), and it runs again at RetryAt.
	Uncounted bool `json:"uncounted,omitempty"`
	RetryAt   Time `json:"retryAt,omitempty"` // when the next attempt starts; 0 when there is none
	// RetryAfterMs is for how long the judge asked for no call, at most an hour;
	// NotBefore is the instant that comes of it, and nothing is tried before.
	RetryAfterMs int64      `json:"retryAfterMs,omitempty"`
	NotBefore    Time       `json:"notBefore,omitempty"`
	TookMs       int64      `json:"tookMs,omitempty"`
	Calls        []Exchange `json:"calls,omitempty"` // what was exchanged with judges; nothing of it moves the fold
}

// WhyHeld is why an attempt failed when no judge could be asked: a breaker is
// open, a budget is spent, no place is free.
const WhyHeld = "held"

// Requeue asks for a dead letter's window to be judged again, alone and under
// its own id, or for its decision to be delivered again (design, section 5,
// 14).
type Requeue struct {
	DeadLetter string  `json:"deadLetter"`
	Number     int     `json:"number"`           // of the dead letter that is requeued
	Stage      string  `json:"stage,omitempty"`  // of the dead letter; "" is judge
	Settled    Settled `json:"settled,omitzero"` // of stage judge
	Members    Members `json:"members,omitzero"`

	Position Position `json:"position,omitempty"` // of stage sink: of the dead letter, which carries the decision
	Route    Route    `json:"route,omitempty"`    // of stage sink: the decision's
}

// Silence keeps a scope's windows from the judge for a time.
type Silence struct {
	ID           string `json:"id"`
	Scope        string `json:"scope"`           // glob
	Event        string `json:"event,omitempty"` // glob over event names; "" matches all
	Since        Time   `json:"since"`           // the record's stamp: what is due then is not covered
	Until        Time   `json:"until"`           // exclusive
	IncludeFlush bool   `json:"includeFlush,omitempty"`
	Who          string `json:"who,omitempty"`
	Why          string `json:"why,omitempty"`
	Ended        bool   `json:"ended,omitempty"` // the record ends the silence of this id
}

// Reload tells that a daemon has loaded its configuration again. It moves no
// window: what changed in the rules stands in records of its own.
type Reload struct {
	Who          string   `json:"who,omitempty"`          // the principal, or the signal
	Replica      string   `json:"replica,omitempty"`      // whose configuration it is, where several share the log
	Changed      []string `json:"changed,omitempty"`      // the parts that are in force anew
	NeedsRestart []string `json:"needsRestart,omitempty"` // the keys that wait for the next start
	Policy       uint32   `json:"policy"`                 // the number of the policy in force
}

// Shed is the trace of events that the rules dropped.
type Shed struct {
	Why   string   `json:"why"` // overflow or age
	Count int      `json:"count"`
	First Position `json:"first"` // of the events dropped
	Last  Position `json:"last"`
}

// Ack is a consumer's word that it took everything up to a position.
type Ack struct {
	Consumer string   `json:"consumer"`
	Position Position `json:"position"`
}

// Trace is a note for people: the seeds' traces.
type Trace struct {
	Name    string            `json:"name"`
	Message string            `json:"message,omitempty"`
	Fields  map[string]string `json:"fields,omitempty"`
}
