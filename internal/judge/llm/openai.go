package llm

import (
	"net/http"
	"strings"

	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// openai is the Responses API.
type openai struct{}

func (openai) base() string                  { return "https://api.openai.com/v1" }
func (openai) version() string               { return "v1" }
func (openai) path(string) []string          { return []string{"responses"} }
func (openai) header(key string) http.Header { return bearer(key) }
func (openai) limits() limits {
	return limits{types: []string{"image/png", "image/jpeg", "image/webp", "image/gif"}, request: 40 << 20}
}

// request asks that nothing be stored: it is a window of somebody's events.
func (openai) request(model string, q *question) object {
	content := []object{{{"type", "input_text"}, {"text", q.prompt}}}
	for i := range q.pictures {
		content = append(content, object{{"type", "input_image"}, {"image_url", dataURL(&q.pictures[i])}, {"detail", "auto"}})
	}
	format := append(object{{"type", "json_schema"}}, jsonSchema(q.schema)...)
	return object{
		{"model", model},
		{"instructions", q.system},
		{"input", []object{{{"role", "user"}, {"content", content}}}},
		{"store", false},
		{"text", object{{"format", format}}},
	}
}

type openaiAnswer struct {
	Model      wire.Text `json:"model"`
	Status     string    `json:"status"`
	Incomplete struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Output []struct {
		Type    string `json:"type"`
		Content []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		} `json:"content"`
	} `json:"output"`
	Usage wire.Loose[openaiUsage] `json:"usage"`
}

type openaiUsage struct {
	Input  wire.Number `json:"input_tokens"`
	Output wire.Number `json:"output_tokens"`
}

func (openai) answer(body []byte) (said, *judge.Error) {
	var a openaiAnswer
	if err := decode(body, &a); err != nil {
		return said{}, err
	}
	s := said{model: string(a.Model), input: a.Usage.Value.Input.Count(), output: a.Usage.Value.Output.Count()}
	var text strings.Builder
	for _, item := range a.Output {
		if item.Type != "message" {
			continue
		}
		for _, part := range item.Content {
			switch part.Type {
			case "refusal":
				return s, refused("the model refused to answer")
			case "output_text":
				text.WriteString(part.Text)
			}
		}
	}
	switch {
	case a.Status == "completed":
		s.text = text.String()
		return s, nil
	case a.Status == "incomplete" && a.Incomplete.Reason == "content_filter":
		return s, malformed("a filter cut the model's answer off")
	case a.Status == "incomplete": // for whatever reason, it is tried again (seed, "llmJudge")
		return s, malformed("the model's answer was cut off")
	case a.Status == "failed":
		return s, &judge.Error{Class: judge.Transient, Message: "the model failed"}
	default:
		return s, malformed("the model did not end its answer")
	}
}
