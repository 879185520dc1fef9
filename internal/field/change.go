package field

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Format is the number of the form in which changes are written.
const Format = 1

// Kind says what a change does.
type Kind string

// The kinds of changes.
const (
	KindRegistered   Kind = "registered"
	KindDeregistered Kind = "deregistered"
	KindWritten      Kind = "written"
	KindDrafted      Kind = "drafted"
	KindCommitted    Kind = "committed"
	KindDiscarded    Kind = "discarded"
	KindRetracted    Kind = "retracted"
	KindSuperseded   Kind = "superseded"
)

// Change is one step of a Field's life. It carries everything that was
// decided. Which fields count depends on the kind.
type Change struct {
	Kind  Kind  `json:"kind"`
	At    int64 `json:"at"`              // Unix milliseconds
	Epoch int64 `json:"epoch,omitempty"` // written, drafted, committed, retracted, superseded: the epoch that it takes

	ID     string          `json:"id,omitempty"`     // of the entry or draft; of superseded, the new entry's
	Old    string          `json:"old,omitempty"`    // superseded: the entry that gives way, the end of its chain
	Agent  string          `json:"agent,omitempty"`  // the author; "" for nobody. Of registered and deregistered, who
	Intent string          `json:"intent,omitempty"` // of discarded and retracted, why
	Entry  json.RawMessage `json:"entry,omitempty"`  // written, drafted, superseded: the payload

	Role         string   `json:"role,omitempty"`         // registered
	Capabilities []string `json:"capabilities,omitempty"` // registered
}

// Commits returns the id of the entry that the change adds for others to see,
// and "" if it adds none.
func (c *Change) Commits() string {
	switch c.Kind {
	case KindWritten, KindCommitted, KindSuperseded:
		return c.ID
	default:
		return ""
	}
}

// Encode writes the change as its body of JSON, in the form of Format.
func (c *Change) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a payload is kept as it came
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("encode a change of kind %q: %w", c.Kind, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// DecodeChange reads what Encode wrote. A higher format is refused: a newer
// attend wrote it.
func DecodeChange(format int, body []byte) (*Change, error) {
	if format != Format {
		return nil, fmt.Errorf("decode change: format %d: this version reads format %d; it takes the version of attend that wrote it, or a later one", format, Format)
	}
	if !utf8.Valid(body) {
		return nil, fmt.Errorf("decode change: not UTF-8")
	}
	c := new(Change)
	if err := json.Unmarshal(body, c); err != nil {
		return nil, fmt.Errorf("decode change: %w", err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("decode change: %w", err)
	}
	return c, nil
}

// check reports what a change of its kind lacks.
func (c *Change) check() error {
	var needs []bool
	switch c.Kind {
	case KindRegistered:
		needs = []bool{c.Agent != "", c.Role != ""}
	case KindDeregistered:
		needs = []bool{c.Agent != ""}
	case KindWritten, KindDrafted:
		needs = []bool{c.ID != "", isPayload(c.Entry)}
	case KindCommitted, KindDiscarded, KindRetracted:
		needs = []bool{c.ID != ""}
	case KindSuperseded:
		needs = []bool{c.ID != "", c.Old != "", isPayload(c.Entry)}
	default:
		return fmt.Errorf("kind %q is none", c.Kind)
	}
	if slices.Contains(needs, false) {
		return fmt.Errorf("a change of kind %q lacks something", c.Kind)
	}
	if len(c.ID) > MaxName || len(c.Intent) > MaxIntent || len(c.Entry) > MaxEntry {
		return fmt.Errorf("a change of kind %q is larger than any that was decided", c.Kind)
	}
	return nil
}

func isPayload(raw json.RawMessage) bool {
	return len(raw) > 1 && raw[0] == '{' && json.Valid(raw)
}
