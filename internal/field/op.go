package field

import "fmt"

// Op is an operation of the protocol, by its name on the wire.
type Op string

// The operations.
const (
	OpRegister   Op = "register"
	OpDeregister Op = "deregister"
	OpWrite      Op = "write"
	OpRead       Op = "read"
	OpAttune     Op = "attune"
	OpReckon     Op = "reckon"
	OpDraft      Op = "draft"
	OpCommit     Op = "commit"
	OpDiscard    Op = "discard"
	OpRetract    Op = "retract"
	OpSupersede  Op = "supersede"
)

// Ops lists every operation, in the order in which they are documented.
func Ops() []Op {
	return []Op{
		OpRegister, OpDeregister, OpWrite, OpRead, OpAttune, OpReckon,
		OpDraft, OpCommit, OpDiscard, OpRetract, OpSupersede,
	}
}

// Changes reports whether the operation may change the Field. The others only
// look.
func (o Op) Changes() bool {
	switch o {
	case OpRead, OpAttune, OpReckon:
		return false
	default:
		return o.known()
	}
}

// Independent reports whether the operation is decided without a look at what
// the Field holds: only its counter of epochs matters (Draw.Pending). Several
// may be decided before the first is applied.
func (o Op) Independent() bool { return o == OpWrite || o == OpDraft }

func (o Op) known() bool { return o.spec().absent != "" }

// opSpec is what all operations have in common, a row each.
type opSpec struct {
	params  []string // its parameters
	pushed  []string // those that a subscription to it has beside them
	absent  string   // the code when there is no object of parameters
	unknown string   // the code when there is a parameter that it does not have
}

func (o Op) spec() opSpec {
	switch o {
	case OpRegister:
		return opSpec{[]string{"id", "role", "capabilities"}, nil, AgentRequired, InvalidEntry}
	case OpDeregister:
		return opSpec{[]string{"id"}, nil, AgentRequired, InvalidEntry}
	case OpWrite, OpDraft:
		return opSpec{[]string{"entry", "intent", "agent"}, nil, InvalidEntry, InvalidEntry}
	case OpCommit:
		return opSpec{[]string{"draft_id"}, nil, DraftNotFound, InvalidEntry}
	case OpDiscard:
		return opSpec{[]string{"draft_id", "intent", "agent"}, nil, DraftNotFound, InvalidEntry}
	case OpRetract:
		return opSpec{[]string{"id", "intent", "agent"}, nil, EntryNotFound, InvalidEntry}
	case OpSupersede:
		return opSpec{[]string{"superseding_id", "entry", "intent", "agent"}, nil, EntryNotFound, InvalidEntry}
	case OpRead:
		return opSpec{[]string{"query", "caller", "limit", "after"}, nil, InvalidQuery, InvalidQuery}
	case OpAttune:
		return opSpec{[]string{"agent", "topic", "role", "max_units", "only_topic"}, nil, AgentRequired, InvalidQuery}
	case OpReckon:
		return opSpec{[]string{"agent", "topic", "role", "max_units", "only_topic", "deep"}, []string{"conflictsOnly"}, AgentRequired, InvalidQuery}
	default:
		return opSpec{}
	}
}

// Mode says by which table relevance is scored. It is a setting of the Field:
// one answer never mixes two.
type Mode uint8

// The modes.
const (
	// Graded gives roles and intents their share by degrees, and keeps entries
	// of other topics in the result. It is the default.
	Graded Mode = iota
	// Reference scores as the protocol's reference implementation does: roles
	// and intents count wholly or not at all, and a topic is a filter.
	Reference
)

// ParseMode reads a mode by its name: graded or reference.
func ParseMode(name string) (Mode, error) {
	for _, m := range []Mode{Graded, Reference} {
		if m.String() == name {
			return m, nil
		}
	}
	return Graded, fmt.Errorf("scoring mode %q: want graded or reference", name)
}

// String returns the mode's name.
func (m Mode) String() string {
	if m == Reference {
		return "reference"
	}
	return "graded"
}

// DefaultMinIntent is how many UTF-16 units an intent must have at least, if
// nothing else is set (docs/field.md, "Settings").
const DefaultMinIntent = 10

// Settings are a Field's rules that can be set.
type Settings struct {
	Mode      Mode
	MinIntent int // UTF-16 units of the trimmed intent; 0 or less: no minimum
}

// DefaultSettings are graded scoring and the usual minimum of an intent.
func DefaultSettings() Settings { return Settings{Mode: Graded, MinIntent: DefaultMinIntent} }

// Bounds of what a Field takes in and gives out.
const (
	MaxEntry        = 64 << 10 // bytes of an entry's JSON, without insignificant space
	MaxLevels       = 32       // of objects and lists in an entry or a query, itself the first
	MaxKeys         = 256      // of an entry or a query, with those of objects in it, not of lists
	MaxIntent       = 8 << 10  // bytes of UTF-8
	MaxName         = 256      // bytes of an agent, a role or a capability
	MaxCapabilities = 64

	DefaultUnits   = 100     // entries of an attune or reckon
	MaxAttuned     = 10000   // entries of one attune, whatever max_units asks
	MaxReckoned    = 1000    // entries of one reckon, which compares them in pairs
	MaxConflicts   = 10000   // conflicts of one reckon
	MaxAnswer      = 8 << 20 // bytes of an answer's JSON
	DefaultRead    = 1000    // entries of a read
	MaxRead        = 10000
	DefaultCompare = 1000 // entries that a new one is compared with (ConflictsOf)
)
