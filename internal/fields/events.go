package fields

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"

	"attend/internal/engine"
	"attend/internal/field"
	"attend/internal/store"
)

// Names of the events that a Field makes (docs/field.md, "Joined to attention").
const (
	EventCommitted = "field.entry.committed"
	EventConflict  = "field.conflict.detected"
)

// Bounds of what an event carries. The Field has the whole.
const (
	maxConflictEvents = 100
	maxEventEntry     = 16 << 10 // bytes of the entry's members
	maxEventIntent    = 1 << 10
	maxEventKeys      = 10
	maxEventValue     = 512     // bytes of a value that conflicts
	maxEventsBytes    = 4 << 20 // of one append; one write may be alone in more
	maxCompared       = 20000   // pairs of entries for one append, likewise
	maxTextIntent     = 300
	maxTextValue      = 120
	maxTextKeys       = 3
)

// joint makes the events of the changes of one batch, in order.
type joint struct {
	name   string
	policy *engine.Policy // nil: the Field is not joined to attention
	// batch has the entries that stand before in the batch, and that the state
	// does not have yet.
	batch    *field.State
	bytes    int // of the events so far
	compared int // pairs of entries so far
}

func (h *held) joined() *joint {
	j := &joint{name: h.name, batch: field.NewState()}
	if h.s.opt.Ingest {
		j.policy = h.s.opt.Policy()
	}
	return j
}

// full reports whether what stands behind in the batch is for another append.
func (j *joint) full() bool { return j.bytes > maxEventsBytes || j.compared > maxCompared }

// entryData is the data of a field.entry.committed event.
type entryData struct {
	ID     string                     `json:"id"`
	Field  string                     `json:"field"`
	Agent  string                     `json:"agent,omitempty"`
	Topic  json.RawMessage            `json:"topic,omitempty"`
	Intent string                     `json:"intent"`
	Entry  map[string]json.RawMessage `json:"entry"`
	Cut    int                        `json:"cut,omitempty"` // members of the entry that were left out
}

// conflictData is the data of a field.conflict.detected event. A is the new
// entry.
type conflictData struct {
	Field   string          `json:"field"`
	Topic   json.RawMessage `json:"topic"`
	Keys    []string        `json:"keys"`
	MoreKey int             `json:"more_keys,omitempty"` // keys that were left out
	A       sideData        `json:"a"`
	B       sideData        `json:"b"`
	More    int             `json:"more_conflicts,omitempty"` // of the entry, that have no event
}

// sideData is one of two entries that conflict, with the values of the keys.
type sideData struct {
	ID     string                     `json:"id"`
	Agent  string                     `json:"agent,omitempty"`
	Intent string                     `json:"intent"`
	Values map[string]json.RawMessage `json:"values"`
}

// events makes the events of a change that stands next in the batch: one for an
// entry that it commits, and one for each committed entry that this contradicts.
func (j *joint) events(state *field.State, change *field.Change) []store.NewEvent {
	if j.policy == nil {
		return nil
	}
	entry, ok := committedBy(state, change)
	if !ok {
		return nil
	}
	payload := members(entry.Entry)
	scope := ScopeOf(j.name, payload["topic"])
	events := []store.NewEvent{j.event(scope, EventCommitted, derive("entry", j.name, entry.ID),
		entryDataOf(j.name, &entry, payload), entryText(j.name, &entry, payload))}
	conflicts := j.conflicts(state, change)
	for i := range conflicts[:min(len(conflicts), maxConflictEvents)] {
		c := &conflicts[i]
		a, b := payload, members(c.B.Entry.Entry)
		data := conflictDataOf(j.name, c, a, b)
		if i == maxConflictEvents-1 {
			data.More = len(conflicts) - maxConflictEvents
		}
		id := derive("conflict", j.name, min(c.A.ID, c.B.ID), max(c.A.ID, c.B.ID))
		events = append(events, j.event(scope, EventConflict, id, data, conflictText(c, a, b)))
	}
	return events
}

// conflicts compares the entry of a change with the newest that stand, those
// before it in the batch first, and adds it to these.
func (j *joint) conflicts(state *field.State, change *field.Change) []field.Conflict {
	ahead, compared := j.batch.ConflictsWith(change, field.DefaultCompare)
	if change.Kind == field.KindWritten { // another is alone in its batch
		_ = j.batch.Apply(change) // each has an id and an epoch of its own: it cannot fail
	}
	before, more := state.ConflictsWith(change, field.DefaultCompare-compared)
	j.compared += compared + more
	return append(ahead, before...)
}

// committedBy returns the entry that a change commits.
func committedBy(state *field.State, c *field.Change) (e field.Entry, ok bool) {
	switch id := c.Commits(); {
	case id == "":
		return e, false
	case c.Kind == field.KindCommitted:
		return state.Draft(id)
	default:
		return field.Entry{ID: id, Agent: c.Agent, Entry: c.Entry, Intent: c.Intent}, true
	}
}

func (j *joint) event(scope, name, id string, data any, text string) store.NewEvent {
	kind, _ := j.policy.KindOf(name)
	body, _ := verbatim(data) // strings and JSON that has been read: it cannot fail
	e := engine.Event{ID: id, Name: name, Kind: kind, Policy: j.policy.Number, Data: body, Text: text}
	j.bytes += e.Size()
	return store.NewEvent{Scope: scope, Event: e}
}

// derive hashes what an id names, so that the same thing has the same id.
func derive(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(p)))
		h.Write(size[:])
		h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// members reads the members of an entry's object. A key that stands twice has
// its last value, as everywhere.
func members(payload json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(payload, &m) // it is an object: the Field takes nothing else
	return m
}
