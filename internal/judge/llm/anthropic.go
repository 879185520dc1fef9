package llm

import (
	"net/http"
	"strings"

	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// anthropic is the Messages API. Effort is low, and neither thinking nor a tool
// choice is set: what is asked for is a classification (seed, "llmJudge").
type anthropic struct{}

// What an answer may take: that of a window, and what each question adds.
const (
	anthropicTokens           = 1024
	anthropicTokensAPredicate = 16
)

func (anthropic) base() string         { return "https://api.anthropic.com/v1" }
func (anthropic) version() string      { return "v1" }
func (anthropic) path(string) []string { return []string{"messages"} }
func (anthropic) header(k string) http.Header {
	h := http.Header{"Anthropic-Version": {"2023-06-01"}}
	if k != "" {
		h.Set("X-Api-Key", k)
	}
	return h
}

// limits: a request with more than 20 images has a smaller side.
func (anthropic) limits() limits {
	return limits{types: []string{"image/png", "image/jpeg", "image/gif", "image/webp"}, bytes: 10_000_000, side: 8000, many: 20, sideOfMany: 2000, request: 24 << 20, animated: true}
}

func (anthropic) request(model string, q *question) object {
	content := []object{{{"type", "text"}, {"text", q.prompt}}}
	for i := range q.pictures {
		p := &q.pictures[i]
		content = append(content, object{{"type", "image"}, {"source", object{{"type", "base64"}, {"media_type", p.MIME}, {"data", p.Data}}}})
	}
	return object{
		{"model", model},
		{"max_tokens", anthropicTokens + anthropicTokensAPredicate*q.predicates},
		{"system", q.system},
		{"messages", []object{{{"role", "user"}, {"content", content}}}},
		{"output_config", object{{"effort", "low"}, {"format", object{{"type", "json_schema"}, {"schema", q.schema}}}}},
	}
}

type anthropicAnswer struct {
	Model      wire.Text `json:"model"`
	StopReason string    `json:"stop_reason"`
	Content    []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	} `json:"content"`
	Usage wire.Loose[anthropicUsage] `json:"usage"`
}

type anthropicUsage struct {
	Input   wire.Number `json:"input_tokens"`
	Written wire.Number `json:"cache_creation_input_tokens"`
	Cached  wire.Number `json:"cache_read_input_tokens"`
	Output  wire.Number `json:"output_tokens"`
}

func (anthropic) answer(body []byte) (said, *judge.Error) {
	var a anthropicAnswer
	if err := decode(body, &a); err != nil {
		return said{}, err
	}
	used := a.Usage.Value
	s := said{model: string(a.Model), input: used.Input.Count() + used.Written.Count() + used.Cached.Count(), output: used.Output.Count()}
	switch a.StopReason { // before the content, which a refusal has too
	case "end_turn":
	case "refusal":
		return s, refused("the model refused to answer")
	case "max_tokens":
		return s, malformed("the model's answer was cut off")
	case "model_context_window_exceeded":
		return s, &judge.Error{Class: judge.Permanent, Message: "the request fills the model's context: choose a model that takes more"}
	default:
		return s, malformed("the model did not end its answer")
	}
	var text strings.Builder
	for _, c := range a.Content {
		if c.Type == "text" {
			text.WriteString(c.Text)
		}
	}
	s.text = text.String()
	return s, nil
}
