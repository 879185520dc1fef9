package field

import "encoding/json"

// Status tells where an entry stands in its life.
type Status string

// The statuses. Retracted and superseded are final.
const (
	StatusDraft      Status = "draft"
	StatusCommitted  Status = "committed"
	StatusRetracted  Status = "retracted"
	StatusSuperseded Status = "superseded"
)

// Entry is what one agent has written (docs/field.md, "Entries"). It is a copy:
// to change it does not change the Field.
type Entry struct {
	ID        string          `json:"id"`
	Timestamp int64           `json:"timestamp"`       // Unix milliseconds; never falls from change to change
	Epoch     int64           `json:"epoch"`           // the Field's counter; the first is 0
	Agent     string          `json:"agent,omitempty"` // the author; absent when nobody is named
	Status    Status          `json:"status"`
	Entry     json.RawMessage `json:"entry"`  // an object, as the author gave it
	Intent    string          `json:"intent"` // untrimmed; of a discarded draft, why it was discarded

	Supersedes    string `json:"supersedes,omitempty"`     // the id of the entry that this one took the place of
	SupersededBy  string `json:"superseded_by,omitempty"`  // and of the one that took its place
	RetractIntent string `json:"retract_intent,omitempty"` // why it was retracted
	RetractedAt   int64  `json:"retracted_at,omitempty"`   // Unix milliseconds; also of a discarded draft
}

// Scored is an entry with its relevance to the agent that asked.
type Scored struct {
	Entry
	Score  float64 `json:"relevance_score"` // 0 to 1, not rounded
	Reason Reason  `json:"relevance_reason"`
}

// Reason breaks a score down.
type Reason struct {
	Components Components `json:"components"`
	Summary    string     `json:"summary"` // the components that count, in words
}

// Components add up to the score, in this order.
type Components struct {
	Topic   float64 `json:"topic"`   // 0 or 0.60
	Role    float64 `json:"role"`    // 0 to 0.20
	Recency float64 `json:"recency"` // 0 to 0.15
	Intent  float64 `json:"intent"`  // 0 to 0.05
}

// Conflict is a pair of entries of one topic that contradict each other. A is
// the one that ranks higher.
type Conflict struct {
	A *Scored `json:"a"`
	B *Scored `json:"b"`
	// Keys have different values in the two, by rising UTF-16 units.
	Keys []string `json:"keys"`
	// Paths lead to different values within objects ("size.depth"), in a deep
	// reckon only. A dot or backslash within a key is escaped by a backslash.
	Paths []string `json:"paths,omitempty"`
}

// Registered answers register.
type Registered struct {
	Capabilities []string `json:"field_capabilities"` // operations that the Field offers; empty in reference mode
	Version      string   `json:"field_protocol_version"`
	Session      string   `json:"session_id"` // the agent's id
}

// Written answers write, commit and supersede.
type Written struct {
	ID        string `json:"id"`
	Timestamp int64  `json:"timestamp"`
	Epoch     int64  `json:"epoch"`
}

// Drafted answers draft.
type Drafted struct {
	DraftID string `json:"draft_id"`
}

// Done answers operations that have nothing to tell.
type Done struct{}

// Attuned answers attune.
type Attuned struct {
	Entries []Scored `json:"entries"`
	// More is set when max_units was above MaxAttuned, and there is more.
	More  bool  `json:"more,omitempty"`
	Epoch int64 `json:"epoch"`         // State.Epoch
	Cut   int   `json:"cut,omitempty"` // entries left out beyond MaxAnswer
}

// Reckoned answers reckon.
type Reckoned struct {
	Entries   []Scored   `json:"entries"`
	Conflicts []Conflict `json:"conflicts"`
	// MoreConflicts is set when MaxConflicts were found before every pair had
	// been compared.
	MoreConflicts bool `json:"more_conflicts,omitempty"`
	// More is set when max_units was above MaxReckoned, and there is more.
	More  bool  `json:"more,omitempty"`
	Epoch int64 `json:"epoch"`         // State.Epoch
	Cut   int   `json:"cut,omitempty"` // entries and conflicts left out beyond MaxAnswer
	// CutConflicts are the conflicts among Cut.
	CutConflicts int `json:"-"`
}

// Page answers read.
type Page struct {
	Entries []Entry `json:"entries"`
	More    bool    `json:"more,omitempty"` // the limit or MaxAnswer cut it: ask again with after set to the last id
}
