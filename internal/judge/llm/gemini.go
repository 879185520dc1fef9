package llm

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// gemini is generateContent.
type gemini struct{}

func (gemini) base() string    { return "https://generativelanguage.googleapis.com/v1beta" }
func (gemini) version() string { return "v1beta" }

// path takes a model as its host lists it too: models/x, tunedModels/x.
func (gemini) path(model string) []string {
	if !strings.Contains(model, "/") {
		model = "models/" + model
	}
	parts := strings.Split(model, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return []string{strings.Join(parts, "/") + ":generateContent"}
}

// leadsAway reports that a model, as a part of a path, would lead to another.
func leadsAway(model string) bool {
	return slices.ContainsFunc(strings.Split(model, "/"), func(part string) bool { return part == "" || part == "." || part == ".." })
}

func (gemini) header(key string) http.Header {
	if key == "" {
		return http.Header{}
	}
	return http.Header{"X-Goog-Api-Key": {key}}
}

// limits: HEIC and HEIF, which it takes too, no capture hook may bring.
func (gemini) limits() limits {
	return limits{types: []string{"image/png", "image/jpeg", "image/webp"}, request: 20<<20 - 1<<20, animated: true}
}

func (gemini) request(_ string, q *question) object {
	parts := []object{{{"text", q.prompt}}}
	for i := range q.pictures {
		p := &q.pictures[i]
		parts = append(parts, object{{"inlineData", object{{"mimeType", p.MIME}, {"data", p.Data}}}})
	}
	return object{
		{"systemInstruction", object{{"parts", []object{{{"text", q.system}}}}}},
		{"contents", []object{{{"role", "user"}, {"parts", parts}}}},
		{"generationConfig", object{{"responseMimeType", "application/json"}, {"responseJsonSchema", q.schema}}},
	}
}

type geminiAnswer struct {
	Model    wire.Text `json:"modelVersion"`
	Feedback struct {
		BlockReason string `json:"blockReason"`
	} `json:"promptFeedback"`
	Candidates []struct {
		FinishReason string `json:"finishReason"`
		Content      struct {
			Parts []struct {
				Text    string `json:"text"`
				Thought bool   `json:"thought"`
			} `json:"parts"`
		} `json:"content"`
	} `json:"candidates"`
	Usage wire.Loose[geminiUsage] `json:"usageMetadata"`
}

type geminiUsage struct {
	Prompt     wire.Number `json:"promptTokenCount"`
	Candidates wire.Number `json:"candidatesTokenCount"`
	Thoughts   wire.Number `json:"thoughtsTokenCount"`
}

// answer takes every reason to finish but STOP and MAX_TOKENS for a refusal, as
// the seed does.
func (gemini) answer(body []byte) (said, *judge.Error) {
	var a geminiAnswer
	if err := decode(body, &a); err != nil {
		return said{}, err
	}
	used := a.Usage.Value
	s := said{model: string(a.Model), input: used.Prompt.Count(), output: used.Candidates.Count() + used.Thoughts.Count()}
	if a.Feedback.BlockReason != "" {
		return s, refused("the prompt was blocked")
	}
	if len(a.Candidates) == 0 {
		return s, malformed("the model gave no answer")
	}
	c := &a.Candidates[0]
	switch c.FinishReason {
	case "STOP", "": // not every version says it; the text is checked all the same
	case "MAX_TOKENS":
		return s, malformed("the model's answer was cut off")
	default:
		return s, refused("the model's answer was blocked")
	}
	var text strings.Builder
	for _, p := range c.Content.Parts {
		if !p.Thought {
			text.WriteString(p.Text)
		}
	}
	s.text = text.String()
	return s, nil
}
