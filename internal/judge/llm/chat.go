package llm

import (
	"net/http"

	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// chat is chat completions, as Ollama, llama.cpp, vLLM, LM Studio, OpenRouter
// and LiteLLM speak it. Some of them take a schema and do not keep to it.
type chat struct{}

func (chat) base() string                  { return "" }
func (chat) version() string               { return "v1" }
func (chat) path(string) []string          { return []string{"chat", "completions"} }
func (chat) header(key string) http.Header { return bearer(key) }
func (chat) limits() limits                { return openai{}.limits() }

// request has the prompt as plain text unless there are images: small servers
// know no parts.
func (chat) request(model string, q *question) object {
	var content any = q.prompt
	if len(q.pictures) > 0 {
		parts := []object{{{"type", "text"}, {"text", q.prompt}}}
		for i := range q.pictures {
			parts = append(parts, object{{"type", "image_url"}, {"image_url", object{{"url", dataURL(&q.pictures[i])}}}})
		}
		content = parts
	}
	return object{
		{"model", model},
		{"messages", []object{{{"role", "system"}, {"content", q.system}}, {{"role", "user"}, {"content", content}}}},
		{"temperature", 0},
		{"stream", false},
		{"response_format", object{{"type", "json_schema"}, {"json_schema", jsonSchema(q.schema)}}},
	}
}

type chatAnswer struct {
	Model   wire.Text `json:"model"`
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Message      struct {
			Content string `json:"content"`
			Refusal string `json:"refusal"`
		} `json:"message"`
	} `json:"choices"`
	Usage wire.Loose[chatUsage] `json:"usage"`
}

type chatUsage struct {
	Prompt     wire.Number `json:"prompt_tokens"`
	Completion wire.Number `json:"completion_tokens"`
}

func (chat) answer(body []byte) (said, *judge.Error) {
	var a chatAnswer
	if err := decode(body, &a); err != nil {
		return said{}, err
	}
	s := said{model: string(a.Model), input: a.Usage.Value.Prompt.Count(), output: a.Usage.Value.Completion.Count()}
	if len(a.Choices) == 0 {
		return s, malformed("the model gave no answer")
	}
	c := &a.Choices[0]
	switch {
	case c.Message.Refusal != "":
		return s, refused("the model refused to answer")
	case c.FinishReason == "content_filter":
		return s, refused("a filter held the model's answer back")
	case c.FinishReason == "length":
		return s, malformed("the model's answer was cut off")
	case c.FinishReason != "stop" && c.FinishReason != "": // not every server says it; the text is checked all the same
		return s, malformed("the model did not end its answer")
	}
	s.text = c.Message.Content
	return s, nil
}
