package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"attend/internal/config"
	"attend/internal/field"
	"attend/internal/fields"
)

// factsBytes is what the entries of a Field may take in a judge's facts.
const factsBytes = 48 << 10

// fieldFacts is what a judge is shown of a Field beside the window.
type fieldFacts struct {
	Field struct {
		Name    string       `json:"name"`
		Entries []fieldEntry `json:"entries"` // most relevant first
		Cut     int          `json:"cut,omitempty"`
	} `json:"field"`
}

type fieldEntry struct {
	Agent  string          `json:"agent,omitempty"`
	Intent string          `json:"intent"`
	Entry  json.RawMessage `json:"entry"`
	At     int64           `json:"at"` // Unix ms
	Score  float64         `json:"relevance_score"`
	Why    string          `json:"relevance_summary"`
}

// attuneFacts shows a judge what is most relevant in a Field, as the
// configuration asks; nil where it asks for nothing. The service is built after
// the runner, which records what it writes.
func attuneFacts(service func() *fields.Service, ask *config.Attune) func(ctx context.Context, scope string) (json.RawMessage, error) {
	if ask == nil {
		return nil
	}
	params := map[string]any{"agent": ask.Agent, "max_units": ask.MaxUnits}
	if ask.Topic != nil {
		params["topic"] = ask.Topic
	}
	if ask.Role != "" {
		params["role"] = ask.Role
	}
	return func(ctx context.Context, _ string) (json.RawMessage, error) {
		question, err := json.Marshal(params)
		if err != nil {
			return nil, fmt.Errorf("attune %s: %w", ask.Field, err)
		}
		answer, err := service().Do(ctx, ask.Field, field.OpAttune, question)
		if err != nil {
			return nil, fmt.Errorf("attune %s: %w", ask.Field, err)
		}
		attuned, ok := answer.(field.Attuned)
		if !ok {
			return nil, fmt.Errorf("attune %s: unexpected answer %T", ask.Field, answer)
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false) // a judge reads what the agents wrote
		if err := enc.Encode(factsOf(ask.Field, attuned.Entries)); err != nil {
			return nil, fmt.Errorf("attune %s: %w", ask.Field, err)
		}
		return bytes.TrimSpace(b.Bytes()), nil
	}
}

// factsOf takes the most relevant entries for which there is room.
func factsOf(name string, scored []field.Scored) *fieldFacts {
	facts := new(fieldFacts)
	facts.Field.Name = name
	facts.Field.Entries = []fieldEntry{}
	room := factsBytes
	for i := range scored {
		s := &scored[i]
		size := len(s.Entry.Entry) + len(s.Intent) + len(s.Agent) + 200
		if size > room {
			facts.Field.Cut++
			continue
		}
		room -= size
		facts.Field.Entries = append(facts.Field.Entries, fieldEntry{
			Agent: s.Agent, Intent: s.Intent, Entry: s.Entry.Entry, At: s.Timestamp, Score: s.Score, Why: s.Reason.Summary,
		})
	}
	return facts
}
