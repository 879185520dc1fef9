package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/field"
	"attend/internal/fields"
)

// fieldTool is a tool that carries out one operation of the Field's protocol.
type fieldTool struct {
	op          field.Op
	title       string
	description string
	destructive bool // it takes away what others could see
	idempotent  bool // doing it again changes nothing more
}

// fieldTable are the tools of the Field.
func fieldTable() []fieldTool {
	return []fieldTool{
		{
			op: field.OpRegister, title: "Tell the Field who you are", idempotent: true,
			description: "Tells the Field your id and your role, so that entries of agents in a like role count for more to you, and yours to them. " +
				"Call it once as you begin. It is optional: whoever is not registered may do everything else. Registering again replaces your role.",
		},
		{
			op: field.OpDeregister, title: "Take your role out of the Field", destructive: true, idempotent: true,
			description: "Ends what field_register began: your role no longer counts. Your entries and drafts stay. " +
				"Call it when you are done for good; there is no need to.",
		},
		{
			op: field.OpWrite, title: "Write what you know into the Field",
			description: "Writes an entry that other agents see at once: a finding, a decision, a figure. entry is a JSON object with a topic and plain values; " +
				"intent says why you write it. Entries of one topic that differ in a value are a conflict, which field_reckon shows to others. " +
				"If the answer is lost, look with field_read before you write again.",
		},
		{
			op: field.OpRead, title: "Look entries up in the Field", idempotent: true,
			description: "Returns entries in the order in which they were written, those retracted and superseded too, with their ids and status. " +
				"query names keys of entry and the values that they must have. Use it to look something up, or to find the id of an entry; " +
				"to learn what matters to your work use field_attune.",
		},
		{
			op: field.OpAttune, title: "Get what is relevant to you", idempotent: true,
			description: "Returns the entries of other agents that are most relevant to you now, best first, each with its score and why. " +
				"Say who you are and the topic that you work on; there is no query to write. Your own entries are left out, your drafts are in. " +
				"Call it before you start on something.",
		},
		{
			op: field.OpReckon, title: "Get what is relevant, and what contradicts", idempotent: true,
			description: "As field_attune, and names each pair of those entries that contradict each other, by the keys in which they differ. " +
				"Call it before you act on what others have written, or settle a question; which of the two is right is for you to find out.",
		},
		{
			op: field.OpDraft, title: "Keep a draft that only you see",
			description: "Keeps an entry that nobody but you sees, until you commit or discard it. It counts in your own field_attune and field_reckon, " +
				"so that you can see what it would contradict before others do. Keep the draft_id of the answer.",
		},
		{
			op: field.OpCommit, title: "Show your draft to everybody", idempotent: true,
			description: "Makes a draft an entry that all agents see, as of now, with the same id. " +
				"It is done once: DRAFT_NOT_FOUND says that the draft was committed or discarded before, or never was.",
		},
		{
			op: field.OpDiscard, title: "Give up a draft", destructive: true, idempotent: true,
			description: "Gives up a draft, and says why in intent. It never takes part in anything again, and field_read shows it as retracted, with that reason. " +
				"DRAFT_NOT_FOUND says that it was committed or discarded before.",
		},
		{
			op: field.OpRetract, title: "Take back an entry of your own", destructive: true, idempotent: true,
			description: "Takes back an entry that you wrote, when it is wrong and nothing takes its place; intent says why. " +
				"It is no longer relevant to anybody and contradicts nothing, and field_read still shows it. Only its author can: RETRACT_NOT_AUTHORIZED otherwise.",
		},
		{
			op: field.OpSupersede, title: "Put a better entry in the place of one", destructive: true,
			description: "Writes an entry that takes the place of another, yours or not: use it to correct a value or to settle a conflict. " +
				"superseding_id is the id of the old entry; field_read shows both, each with the id of the other.",
		},
	}
}

// fieldTools are the tools, where there are Fields.
func (s *Server) fieldTools() []*tool {
	if s.opts.Fields == nil {
		return nil
	}
	table := fieldTable()
	tools := make([]*tool, len(table))
	for i := range table {
		row := &table[i]
		right := RightRead
		if row.op.Changes() {
			right = RightIngest
		}
		tools[i] = &tool{
			name:        "field_" + string(row.op),
			title:       row.title,
			description: row.description,
			annotations: mcp.ToolAnnotations{
				ReadOnlyHint: !row.op.Changes(), DestructiveHint: &row.destructive,
				IdempotentHint: row.idempotent, OpenWorldHint: new(bool),
			},
			right:  right,
			judged: true,
			call: func(ctx context.Context, caller *Caller, members map[string]json.RawMessage) (*answered, error) {
				return s.callField(ctx, caller, row, members)
			},
		}
	}
	return tools
}

// callField carries out an operation. The Field judges its parameters, since
// its protocol has a code for each way in which they can be wrong.
func (s *Server) callField(ctx context.Context, caller *Caller, row *fieldTool, members map[string]json.RawMessage) (*answered, error) {
	name, params, err := fieldParams(row.op, members)
	if err != nil {
		return nil, err
	}
	if err := caller.mayUse(ctx, s.opts.Fields, name, row.op, params); err != nil {
		return nil, err
	}
	result, err := s.opts.Fields.Do(ctx, name, row.op, params)
	if err != nil {
		return nil, err
	}
	shown, err := showField(result)
	if err != nil {
		return nil, err
	}
	return &answered{structured: shown.body, text: shown.text(row.op)}, nil
}

// fieldParams takes the Field's name out of the arguments. What is left are the
// parameters of an operation, each as it came.
func fieldParams(op field.Op, members map[string]json.RawMessage) (name string, params json.RawMessage, err error) {
	name, err = fields.Name(op, members["field"])
	if err != nil {
		return "", nil, err
	}
	rest := make(map[string]json.RawMessage, len(members))
	maps.Copy(rest, members)
	delete(rest, "field")
	params, err = verbatim(rest)
	return name, params, err
}

// mayUse tells whether the caller may carry out an operation on a Field, or
// follow it. What is not granted is an error of the protocol.
func (c *Caller) mayUse(ctx context.Context, drafts fields.Drafts, name string, op field.Op, params json.RawMessage) error {
	err := c.Fields.Check(ctx, drafts, name, op, params)
	var denied *fields.Denied
	if errors.As(err, &denied) {
		return forbidden(denied.What, "%s", denied)
	}
	return err
}

// fieldRefusal is an error of the Field's protocol as the structured content of
// a tool's result.
type fieldRefusal struct {
	Code    string         `json:"code"`
	Message string         `json:"message"`
	Details map[string]any `json:"details,omitempty"`
}

// refusedByField tells a model what the Field has refused, and a program why.
func refusedByField(e *field.Error) (*mcp.CallToolResult, error) {
	b, err := json.Marshal(fieldRefusal{e.Code, e.Message, e.Details})
	if err != nil {
		return nil, fmt.Errorf("encode the error %s: %w", e.Code, err)
	}
	result := refusal(e.Error())
	result.StructuredContent = json.RawMessage(b)
	return result, nil
}

// fieldTrouble is what to tell a caller of trouble that says itself what to do,
// and "" of other errors.
func fieldTrouble(err error) string {
	for _, known := range []error{fields.ErrUnknownOutcome, fields.ErrBusy, fields.ErrStopping} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return ""
}
