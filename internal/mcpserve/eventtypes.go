package mcpserve

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"attend/internal/engine"
	"attend/internal/feed"
	"attend/internal/field"
)

// Names of the event types.
const (
	eventDecision   = "attention.decision"
	eventDeadLetter = "attention.deadLetter"
	eventAttune     = "field.attune"
	eventReckon     = "field.reckon"
)

// eventType is one kind of event that a client may follow. Its schemas only
// ever grow.
type eventType struct {
	name        string
	description string
	arguments   *shape
	payload     json.RawMessage
	// code is the protocol's own for arguments that are refused; nil where there
	// is none.
	code func(arguments json.RawMessage) string
	// open finds where a subscription to it begins.
	open func(context.Context, *subscription) (source, *jsonrpc.Error)
}

// view is the type as events/list shows it to a caller, who may have it posted or
// not.
func (t *eventType) view(webhook bool) map[string]any {
	delivery := []string{"poll", "push"}
	if webhook {
		delivery = append(delivery, modeWebhook)
	}
	return map[string]any{
		"name":          t.name,
		"description":   t.description,
		"delivery":      delivery,
		"inputSchema":   t.arguments.raw,
		"payloadSchema": t.payload,
	}
}

// eventTypes returns the types in the order in which they are listed.
func (s *Server) eventTypes() ([]*eventType, error) {
	types := []*eventType{
		{
			name: eventDecision,
			open: s.following(feed.KindDecision),
			description: "attend has decided that a scope's events call for the agent. data.route says how: interrupt (act now), " +
				"queue (act when free), ask (offer help to the user first), note (know it, do nothing). data.notice is what to read.",
		},
		{
			name: eventDeadLetter,
			open: s.following(feed.KindDeadLetter),
			description: "attend gave up on a window or on the delivery of a decision, and a person should look. " +
				"data.stage says where, data.message why.",
		},
	}
	if s.opts.Fields != nil {
		types = append(types, s.fieldTypes()...)
	}
	for _, t := range types {
		var err error
		if t.arguments, err = readShape(t.name + ".arguments"); err != nil {
			return nil, err
		}
		if t.payload, err = readSchema(t.name); err != nil {
			return nil, err
		}
	}
	return types, nil
}

// fieldTypes are those of the Field.
func (s *Server) fieldTypes() []*eventType {
	return []*eventType{
		{
			name: eventAttune,
			code: codeOfField(field.OpAttune),
			open: s.attuning(field.OpAttune),
			description: "What is relevant to an agent in a Field has changed: entries came, went, or changed places. " +
				"data is the whole current result, best first, as the tool field_attune gives it; of many changes in a row the last state is told.",
		},
		{
			name: eventReckon,
			code: codeOfField(field.OpReckon),
			open: s.attuning(field.OpReckon),
			description: "What contradicts what in a Field, among the entries that are relevant to an agent, has changed. " +
				"data is the whole current result, as the tool field_reckon gives it; data.conflicts names each pair and the keys in which they differ.",
		},
	}
}

// refuse reports one of the arguments, with the code of the type's protocol
// where it has one.
func (t *eventType) refuse(bad *fault, arguments json.RawMessage) *jsonrpc.Error {
	data := map[string]any{"path": bad.path, "reason": bad.reason}
	if t.code != nil {
		data["code"] = t.code(arguments)
	}
	return rpcError(jsonrpc.CodeInvalidParams, data, "%s: %s", bad.path, bad.reason)
}

// codeOfField gives the code that the Field has for arguments which the schema
// has refused. The schema is stricter in places: what it alone refuses is
// INVALID_QUERY.
func codeOfField(op field.Op) func(json.RawMessage) string {
	return func(arguments json.RawMessage) string {
		_, err := field.ParsePush(op, arguments, field.DefaultSettings())
		if refused, ok := errors.AsType[*field.Error](err); ok {
			return refused.Code
		}
		return field.InvalidQuery
	}
}

// attuning opens a subscription to a Field.
func (s *Server) attuning(op field.Op) func(context.Context, *subscription) (source, *jsonrpc.Error) {
	return func(ctx context.Context, sub *subscription) (source, *jsonrpc.Error) {
		return s.openField(ctx, sub, op)
	}
}

// following opens a subscription to a kind of the feed.
func (s *Server) following(kind feed.Kind) func(context.Context, *subscription) (source, *jsonrpc.Error) {
	return func(ctx context.Context, sub *subscription) (source, *jsonrpc.Error) {
		return s.openLog(ctx, sub, kind)
	}
}

// filter makes a feed's filter of the arguments.
func (sub *subscription) filter(kind feed.Kind) (feed.Filter, *fault) {
	f := feed.Filter{Kinds: []feed.Kind{kind}, Visible: sub.caller.visible()}
	var scopes patterns
	for _, bad := range []*fault{
		member(sub.members, "scope", &scopes),
		member(sub.members, "routes", &f.Routes),
		member(sub.members, "minConfidence", &f.MinConfidence),
	} {
		if bad != nil {
			return feed.Filter{}, bad
		}
	}
	f.Scopes = scopes
	if len(f.Routes) == 0 {
		f.Routes = feed.DefaultRoutes()
	}
	return f, nil
}

// patterns are scope globs: one string or a list of them.
type patterns []string

// UnmarshalJSON reads either form.
func (p *patterns) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*p = patterns{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(b, &list); err != nil {
		return err
	}
	*p = list
	return nil
}

// hidden returns a pattern that names exactly one scope, and one that the
// caller may not read: asking for it is an error rather than an empty feed.
func hidden(scopes []string, caller *Caller) (scope string, found bool) {
	for _, pattern := range scopes {
		if !strings.ContainsAny(pattern, `*?\`) && !caller.may(RightRead, pattern) {
			return pattern, true
		}
	}
	return "", false
}

// withoutData returns D as it crosses MCP: events without their data, and
// never null where a list or an object belongs.
func withoutData(d *engine.Decision) *engine.Decision {
	shown := *d
	shown.Events = eventsWithoutData(d.Events)
	if shown.Changed == nil {
		shown.Changed = []engine.Change{}
	}
	if shown.Predicates == nil {
		shown.Predicates = map[string]float64{}
	}
	if shown.Probabilities == nil {
		shown.Probabilities = map[string]float64{}
	}
	return &shown
}

// letterWithoutData returns a dead letter as it crosses MCP.
func letterWithoutData(l *engine.DeadLetter) *engine.DeadLetter {
	shown := *l
	shown.Events = eventsWithoutData(l.Events)
	shown.Settled, shown.Members = nil, nil // for a requeue alone
	if l.Decision != nil {
		shown.Decision = withoutData(l.Decision)
	}
	return &shown
}

func eventsWithoutData(events []engine.EventView) []engine.EventView {
	shown := make([]engine.EventView, len(events))
	copy(shown, events)
	for i := range shown {
		shown[i].Data = nil
	}
	return shown
}
