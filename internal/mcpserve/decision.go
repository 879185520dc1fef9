package mcpserve

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"attend/internal/engine"
	"attend/internal/store"
)

// maxHistory is how many steps of a story are told: of a longer one the first
// and the last.
const maxHistory = 100

// decisionResult is the structured content of attend_decision.
type decisionResult struct {
	Decision *engine.Decision `json:"decision"`
	State    string           `json:"state"`
	Windows  []string         `json:"windows"`
	History  []happening      `json:"history"`
	Left     int              `json:"left"` // steps left out in the middle
}

// happening is a step of a story, in words.
type happening struct {
	At     engine.Time     `json:"at"`
	Kind   engine.StepKind `json:"kind"`
	Window string          `json:"window"`
	What   string          `json:"what"`
}

func (s *Server) decisionTool() *tool {
	return &tool{
		name:  "attend_decision",
		title: "Look up a decision and how it came about",
		description: "Looks up one decision by its id: what it was about, why it woke you, and step by step how it came about " +
			"(when its events were judged, by whom, what was said, what changed it). It changes nothing. " +
			"Use it when a decision's notice is not enough, or to explain to somebody why you were woken.",
		annotations: mcp.ToolAnnotations{ReadOnlyHint: true, DestructiveHint: new(bool), IdempotentHint: true, OpenWorldHint: new(bool)},
		right:       RightRead,
		call:        s.callDecision,
	}
}

func (s *Server) callDecision(ctx context.Context, caller *Caller, members map[string]json.RawMessage) (*answered, error) {
	var id string
	if bad := member(members, "id", &id); bad != nil {
		return nil, bad
	}
	story, err := s.opts.Reader.Story(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && !caller.may(RightRead, story.Scope) {
		return nil, &fault{"/id", "there is no such decision, or it is no longer kept; ids come from attend_wait and events"}
	}
	if err != nil {
		return nil, err
	}
	result := decisionResult{Decision: withoutData(&story.Decision), State: story.State, Windows: story.Windows}
	steps := story.Steps
	if over := len(steps) - maxHistory; over > 0 {
		steps = append(steps[:maxHistory/2:maxHistory/2], steps[maxHistory/2+over:]...)
		result.Left = over
	}
	result.History = make([]happening, len(steps))
	for i := range steps {
		result.History[i] = happening{At: steps[i].At, Kind: steps[i].Kind, Window: steps[i].Window, What: stepText(&steps[i])}
	}
	return &answered{structured: &result, text: decisionText(&result)}, nil
}
