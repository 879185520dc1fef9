package judgetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

type messages struct {
	Model     string `json:"model"`
	MaxTokens int    `json:"max_tokens"`
	System    string `json:"system"`
	Messages  []struct {
		Role    string `json:"role"`
		Content []struct {
			Type   string `json:"type"`
			Text   string `json:"text"`
			Source *struct {
				Type      string `json:"type"`
				MediaType string `json:"media_type"`
				Data      string `json:"data"`
			} `json:"source"`
		} `json:"content"`
	} `json:"messages"`
	OutputConfig struct {
		Effort string `json:"effort"`
		Format struct {
			Type   string          `json:"type"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
}

func readMessages(r *http.Request, body []byte) (Asked, error) {
	var m messages
	if err := exactly(body, &m); err != nil {
		return Asked{}, err
	}
	if r.Header.Get("Anthropic-Version") != "2023-06-01" || m.MaxTokens < 1 || len(m.Messages) != 1 || m.Messages[0].Role != "user" || m.OutputConfig.Format.Type != "json_schema" {
		return Asked{}, errors.New("not as the Messages API wants it")
	}
	a := Asked{API: "anthropic", Model: m.Model, System: m.System, Schema: m.OutputConfig.Format.Schema, Key: r.Header.Get("X-Api-Key")}
	for _, c := range m.Messages[0].Content {
		switch {
		case c.Type == "text":
			a.Prompt += c.Text
		case c.Type == "image" && c.Source != nil && c.Source.Type == "base64":
			a.Images = append(a.Images, c.Source.MediaType)
		default:
			return Asked{}, fmt.Errorf("content of type %q", c.Type)
		}
	}
	return a, nil
}

func writeMessages(s Said) []byte {
	stop := s.Stop
	if s.Refusal != "" {
		stop = "refusal"
	} else if stop == "" {
		stop = "end_turn"
	}
	return encode(map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": s.Model, "stop_reason": stop, "stop_sequence": nil,
		"content": []any{map[string]any{"type": "text", "text": s.Refusal + s.Text}},
		"usage":   map[string]any{"input_tokens": 40, "cache_read_input_tokens": 2, "output_tokens": 7},
	})
}

type responses struct {
	Model        string `json:"model"`
	Instructions string `json:"instructions"`
	Store        *bool  `json:"store"`
	Input        []struct {
		Role    string `json:"role"`
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			ImageURL string `json:"image_url"`
			Detail   string `json:"detail"`
		} `json:"content"`
	} `json:"input"`
	Text struct {
		Format struct {
			Type   string          `json:"type"`
			Name   string          `json:"name"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"schema"`
		} `json:"format"`
	} `json:"text"`
}

func readResponses(r *http.Request, body []byte) (Asked, error) {
	var m responses
	if err := exactly(body, &m); err != nil {
		return Asked{}, err
	}
	f := m.Text.Format
	if f.Type != "json_schema" || f.Name == "" || !f.Strict || m.Store == nil || *m.Store || len(m.Input) != 1 || m.Input[0].Role != "user" {
		return Asked{}, errors.New("not as the Responses API wants it")
	}
	a := Asked{API: "openai", Model: m.Model, System: m.Instructions, Schema: f.Schema, Key: bearer(r)}
	for _, c := range m.Input[0].Content {
		switch c.Type {
		case "input_text":
			a.Prompt += c.Text
		case "input_image":
			a.Images = append(a.Images, mediaType(c.ImageURL))
		default:
			return Asked{}, fmt.Errorf("content of type %q", c.Type)
		}
	}
	return a, nil
}

func writeResponses(s Said) []byte {
	status := s.Stop
	var incomplete any
	switch status {
	case "":
		status = "completed"
	case "max_output_tokens", "content_filter":
		status, incomplete = "incomplete", map[string]any{"reason": s.Stop}
	}
	part := map[string]any{"type": "output_text", "text": s.Text, "annotations": []any{}}
	if s.Refusal != "" {
		part = map[string]any{"type": "refusal", "refusal": s.Refusal}
	}
	return encode(map[string]any{
		"id": "resp_1", "object": "response", "model": s.Model, "status": status, "incomplete_details": incomplete, "error": nil,
		"output": []any{
			map[string]any{"type": "reasoning", "summary": []any{}},
			map[string]any{"type": "message", "role": "assistant", "content": []any{part}},
		},
		"usage": map[string]any{"input_tokens": 42, "output_tokens": 7, "total_tokens": 49},
	})
}

type generate struct {
	SystemInstruction struct {
		Parts []struct {
			Text string `json:"text"`
		} `json:"parts"`
	} `json:"systemInstruction"`
	Contents []struct {
		Role  string `json:"role"`
		Parts []struct {
			Text       string `json:"text"`
			InlineData *struct {
				MIMEType string `json:"mimeType"`
				Data     string `json:"data"`
			} `json:"inlineData"`
		} `json:"parts"`
	} `json:"contents"`
	GenerationConfig struct {
		MIMEType string          `json:"responseMimeType"`
		Schema   json.RawMessage `json:"responseJsonSchema"`
	} `json:"generationConfig"`
}

func readGemini(r *http.Request, body []byte) (Asked, error) {
	var m generate
	if err := exactly(body, &m); err != nil {
		return Asked{}, err
	}
	model, ok := strings.CutSuffix(r.PathValue("model"), ":generateContent")
	if !ok || m.GenerationConfig.MIMEType != "application/json" || len(m.Contents) != 1 || len(m.SystemInstruction.Parts) != 1 {
		return Asked{}, errors.New("not as generateContent wants it")
	}
	a := Asked{API: "gemini", Model: model, System: m.SystemInstruction.Parts[0].Text, Schema: m.GenerationConfig.Schema, Key: r.Header.Get("X-Goog-Api-Key")}
	for _, p := range m.Contents[0].Parts {
		if p.InlineData != nil {
			a.Images = append(a.Images, p.InlineData.MIMEType)
		}
		a.Prompt += p.Text
	}
	return a, nil
}

func writeGemini(s Said) []byte {
	usage := map[string]any{"promptTokenCount": 42, "candidatesTokenCount": 5, "thoughtsTokenCount": 2}
	if s.Refusal != "" {
		return encode(map[string]any{"promptFeedback": map[string]any{"blockReason": s.Refusal}, "modelVersion": s.Model, "usageMetadata": usage})
	}
	stop := s.Stop
	if stop == "" {
		stop = "STOP"
	}
	return encode(map[string]any{
		"candidates": []any{map[string]any{
			"finishReason": stop,
			"content": map[string]any{"role": "model", "parts": []any{
				map[string]any{"text": "let me think", "thought": true}, map[string]any{"text": s.Text},
			}},
		}},
		"modelVersion": s.Model, "usageMetadata": usage,
	})
}

type completions struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Temperature    *float64 `json:"temperature"`
	Stream         *bool    `json:"stream"`
	ResponseFormat struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Name   string          `json:"name"`
			Strict bool            `json:"strict"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	} `json:"response_format"`
}

func readChat(r *http.Request, body []byte) (Asked, error) {
	var m completions
	if err := exactly(body, &m); err != nil {
		return Asked{}, err
	}
	if m.ResponseFormat.Type != "json_schema" || len(m.Messages) != 2 || m.Stream == nil || *m.Stream || m.Messages[0].Role != "system" {
		return Asked{}, errors.New("not as chat completions want it")
	}
	a := Asked{API: "chat", Model: m.Model, Schema: m.ResponseFormat.JSONSchema.Schema, Key: bearer(r)}
	if err := json.Unmarshal(m.Messages[0].Content, &a.System); err != nil {
		return Asked{}, err
	}
	if json.Unmarshal(m.Messages[1].Content, &a.Prompt) == nil {
		return a, nil
	}
	var parts []struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		ImageURL struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := exactly(m.Messages[1].Content, &parts); err != nil {
		return Asked{}, err
	}
	for _, p := range parts {
		if p.Type == "image_url" {
			a.Images = append(a.Images, mediaType(p.ImageURL.URL))
		}
		a.Prompt += p.Text
	}
	return a, nil
}

func writeChat(s Said) []byte {
	stop := s.Stop
	if stop == "" {
		stop = "stop"
	}
	message := map[string]any{"role": "assistant", "content": s.Text}
	if s.Refusal != "" {
		message["content"], message["refusal"] = nil, s.Refusal
	}
	return encode(map[string]any{
		"id": "chatcmpl-1", "object": "chat.completion", "model": s.Model,
		"choices": []any{map[string]any{"index": 0, "finish_reason": stop, "message": message}},
		"usage":   map[string]any{"prompt_tokens": 42, "completion_tokens": 7},
	})
}

// mediaType reads that of a data URL.
func mediaType(u string) string {
	kind, _, ok := strings.Cut(strings.TrimPrefix(u, "data:"), ";base64,")
	if !ok || !strings.HasPrefix(u, "data:") {
		return "no data URL"
	}
	return kind
}
