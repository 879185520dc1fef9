package engine

import (
	"fmt"
	"strconv"
)

// Time is an instant in Unix milliseconds. Durations in this package are
// plain int64 milliseconds, named with the suffix Ms.
type Time int64

// Position is a record's place in the log. The first record has position 1;
// 0 means "before everything". Positions have no gaps.
type Position int64

// Kind says what an event is to the agent (seed, "Settle rules").
type Kind uint8

// The six kinds. Closing, flush, continuous and passive are acts: things that
// happen in the scope and can call for the agent. Consequence is output that
// followed from an act, context is the agent's own earlier output.
const (
	Closing Kind = iota + 1
	Flush
	Continuous
	Passive
	Consequence
	Context
)

var kindNames = [...]string{"", "closing", "flush", "continuous", "passive", "consequence", "context"}

// Kinds lists every kind in a fixed order.
func Kinds() []Kind { return []Kind{Closing, Flush, Continuous, Passive, Consequence, Context} }

// ParseKind reads a kind's name; it is exact about case.
func ParseKind(s string) (Kind, error) {
	for i, n := range kindNames {
		if i > 0 && n == s {
			return Kind(i), nil
		}
	}
	return 0, fmt.Errorf("unknown kind %q: want closing, flush, continuous, passive, consequence or context", s)
}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "Kind(" + strconv.Itoa(int(k)) + ")"
}

// MarshalText writes the kind's name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads the kind's name.
func (k *Kind) UnmarshalText(b []byte) (err error) {
	*k, err = ParseKind(string(b))
	return err
}

// Sheddable reports whether overflow and age may drop an event of this kind:
// attend never drops an act or a flush.
func (k Kind) Sheddable() bool { return k == Consequence || k == Context }

// Act reports whether the kind can call for the agent, flush included.
func (k Kind) Act() bool { return k >= Closing && k <= Passive }

// Reason says why a window settled.
type Reason string

// The settle reasons, in the order in which deadlines of one instant fire.
const (
	ReasonFlush        Reason = "flush"
	ReasonClosing      Reason = "closing"
	ReasonStreamQuiet  Reason = "stream_quiet"
	ReasonPassiveQuiet Reason = "passive_quiet"
	ReasonAge          Reason = "age"
	ReasonForced       Reason = "forced"
	ReasonOverflow     Reason = "overflow"
)

// Reasons lists every reason in table order.
func Reasons() []Reason {
	return []Reason{ReasonFlush, ReasonClosing, ReasonStreamQuiet, ReasonPassiveQuiet, ReasonAge, ReasonForced, ReasonOverflow}
}

// Trigger says what made a settle happen: a deadline (a flush event is one),
// the horizon of a held window, a flush call, or a requeued dead letter.
type Trigger string

// The triggers.
const (
	TriggerDeadline Trigger = "deadline"
	TriggerHorizon  Trigger = "horizon"
	TriggerFlush    Trigger = "flush"
	TriggerRequeue  Trigger = "requeue"
)

// Route is what the agent should do with a window.
type Route uint8

// The six routes, in the fixed order in which ties are broken and
// probabilities are listed.
const (
	Interrupt Route = iota + 1
	Queue
	Note
	Ask
	Skip
	Wait
)

const routeCount = 6

var routeNames = [...]string{"", "interrupt", "queue", "note", "ask", "skip", "wait"}

// Routes lists every route in the fixed order.
func Routes() []Route { return []Route{Interrupt, Queue, Note, Ask, Skip, Wait} }

// ParseRoute reads a route's name; it is exact about case.
func ParseRoute(s string) (Route, error) {
	for i, n := range routeNames {
		if i > 0 && n == s {
			return Route(i), nil
		}
	}
	return 0, fmt.Errorf("unknown route %q: want interrupt, queue, note, ask, skip or wait", s)
}

func (r Route) String() string {
	if int(r) < len(routeNames) {
		return routeNames[r]
	}
	return "Route(" + strconv.Itoa(int(r)) + ")"
}

// MarshalText writes the route's name; the zero Route is an empty string.
func (r Route) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads the route's name; an empty string is the zero Route.
func (r *Route) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*r = 0
		return nil
	}
	*r, err = ParseRoute(string(b))
	return err
}

// Act reports whether the route brings the window to the agent or its user.
func (r Route) Act() bool { return r >= Interrupt && r <= Ask }

// rank orders routes for the floor: skip < note < queue = ask < interrupt.
func (r Route) rank() int {
	switch r {
	case Interrupt:
		return 3
	case Queue, Ask:
		return 2
	case Note:
		return 1
	default:
		return 0
	}
}
