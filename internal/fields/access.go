package fields

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"attend/internal/field"
)

// Access says which Fields a caller may use, and for which agents it may speak
// there. The zero Access grants everything.
type Access struct {
	// MayField tells whether the caller may use the Field of that name; write
	// says that it wants to change it. Nil grants every Field.
	MayField func(name string, write bool) bool
	// MayAgent tells whether the caller may speak for an agent; "" is nobody, as
	// of whoever leaves the agent out. Nil grants every agent.
	MayAgent func(agent string) bool
}

// What an Access may deny.
const (
	DeniedField = "field"
	DeniedAgent = "agent"
)

// maxShown is how many bytes a message shows of a text that somebody gave.
const maxShown = 100

// Denied is what an Access does not grant. Its text is for the caller.
type Denied struct {
	What string // DeniedField or DeniedAgent
	text string
}

// Error says what is not granted.
func (d *Denied) Error() string { return d.text }

// Drafts tell whose a draft is. [Service] does.
type Drafts interface {
	// DraftAgent returns the author, "" for nobody; without ok there is no such
	// draft.
	DraftAgent(ctx context.Context, name, id string) (agent string, ok bool, err error)
}

// Sees tells whether a caller may look at a Field.
func (a Access) Sees(name string) bool { return a.MayField == nil || a.MayField(name, false) }

// Check tells whether a caller may carry out an operation with these
// parameters, or subscribe to it: whether the Field is its to use, and every
// agent its to speak for that the parameters name. Commit and discard belong to
// the draft's agent (docs/field.md, "What is durable, and who may"). What the
// Field refuses anyway is let through, for the Field to say what is wrong.
//
// Errors: *Denied, and those of DraftAgent.
func (a Access) Check(ctx context.Context, drafts Drafts, name string, op field.Op, params json.RawMessage) error {
	name = cmp.Or(name, defaultName)
	if nameFlaw(name) != "" {
		return nil
	}
	if a.MayField != nil && !a.MayField(name, op.Changes()) {
		return &Denied{DeniedField, fmt.Sprintf("the Field %q is not yours to use", name)}
	}
	if a.MayAgent == nil {
		return nil
	}
	var given map[string]json.RawMessage
	if len(params) > 0 && json.Unmarshal(params, &given) != nil {
		return nil
	}
	if agent, speaks := speaksFor(op, given); speaks && !a.MayAgent(agent) {
		return &Denied{DeniedAgent, fmt.Sprintf("you may not speak for the agent %q", clip(agent, maxShown))}
	}
	if op != field.OpCommit && op != field.OpDiscard {
		return nil
	}
	id, ok := field.Text(given["draft_id"])
	if !ok {
		return nil
	}
	agent, ok, err := drafts.DraftAgent(ctx, name, id)
	if err != nil {
		return err
	}
	if ok && !a.MayAgent(agent) {
		return &Denied{DeniedAgent, fmt.Sprintf("the draft %q is not of an agent for whom you may speak", clip(id, maxShown))}
	}
	return nil
}

// speaksFor returns the agent for whom parameters speak, "" for nobody. Without
// ok they speak for none, or for what can be no agent.
func speaksFor(op field.Op, params map[string]json.RawMessage) (agent string, ok bool) {
	name, left := "agent", true // what it means to leave it out: to speak for nobody
	switch op {
	case field.OpRegister, field.OpDeregister:
		name = "id"
	case field.OpRead:
		name, left = "caller", false // it sees what everybody sees
	case field.OpDiscard:
		left = false // the draft's own agent counts
	case field.OpCommit:
		return "", false
	default:
	}
	raw, given := params[name]
	if !given || string(raw) == "null" {
		return "", left
	}
	if agent, ok = field.Text(raw); !ok {
		return "", false
	}
	return agent, left || agent != ""
}
