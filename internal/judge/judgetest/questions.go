package judgetest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

func checkHeaders(a *Request) error {
	if got := a.Header.Get("Content-Type"); got != "application/json" {
		return fmt.Errorf("content type %q", got)
	}
	if key := a.Header.Get("Authorization"); key != "" && !strings.HasPrefix(key, "Bearer ") {
		return errors.New("the key is no bearer token")
	}
	return nil
}

type systemOneQuestion struct {
	Type         string          `json:"type"`
	Instructions string          `json:"instructions"`
	Criteria     json.RawMessage `json:"criteria"`
}

// checkSystemOne says what a System One server would refuse.
func checkSystemOne(a *Request) error {
	if err := checkHeaders(a); err != nil {
		return err
	}
	var r struct {
		Model     string                       `json:"model"`
		State     json.RawMessage              `json:"state"`
		Questions map[string]systemOneQuestion `json:"questions"`
		Assets    map[string]struct {
			Type   string `json:"type"`
			Format string `json:"format"`
			Data   string `json:"data_base64"`
		} `json:"assets"`
	}
	if err := exactly(a.Body, &r); err != nil {
		return err
	}
	if r.Model == "" || len(r.State) == 0 || len(r.Questions) == 0 {
		return errors.New("model, state or questions are missing")
	}
	for key, q := range r.Questions {
		if err := checkSystemOneQuestion(q); err != nil {
			return fmt.Errorf("question %q: %w", key, err)
		}
	}
	if (len(r.Assets) > 0) != (a.Header.Get("TypeSafe-Danger-Zone-Images") == "true") {
		return errors.New("images and the header that allows them do not go together")
	}
	for reference, asset := range r.Assets {
		if _, err := base64.StdEncoding.DecodeString(asset.Data); err != nil || asset.Type != "image" || asset.Format != "png" && asset.Format != "jpeg" {
			return fmt.Errorf("asset %s is no image", reference)
		}
		if !bytes.Contains(r.State, []byte(`"`+reference+`"`)) {
			return fmt.Errorf("asset %s is referenced nowhere", reference)
		}
	}
	return nil
}

func checkSystemOneQuestion(q systemOneQuestion) error {
	if q.Instructions == "" {
		return errors.New("no instructions")
	}
	switch q.Type {
	case "noul":
		if len(q.Criteria) > 0 {
			return errors.New("criteria of a noul that are not asked for")
		}
		return nil
	case "choice":
		var criteria map[string]*string
		if err := exactly(q.Criteria, &criteria); err != nil || len(criteria) < 2 || len(criteria) > 255 {
			return fmt.Errorf("%d labels: %w", len(criteria), err)
		}
		return nil
	default:
		return fmt.Errorf("type %q", q.Type)
	}
}

type decisionsQuestion struct {
	Type         string `json:"type"`
	Name         string `json:"name"`
	Instructions string `json:"instructions"`
	Choices      []struct {
		Value       string `json:"value"`
		Description string `json:"description"`
	} `json:"choices"`
}

// checkDecisions says what the Decisions API would refuse.
func checkDecisions(a *Request) error {
	if err := checkHeaders(a); err != nil {
		return err
	}
	var r struct {
		Model     string              `json:"model"`
		Input     json.RawMessage     `json:"input"`
		Questions []decisionsQuestion `json:"questions"`
	}
	if err := exactly(a.Body, &r); err != nil {
		return err
	}
	if r.Model == "" || len(r.Questions) == 0 || len(r.Questions) > 200 {
		return fmt.Errorf("no model, or %d questions", len(r.Questions))
	}
	names := map[string]bool{"": false}
	for i, q := range r.Questions {
		if q.Name != "" && names[q.Name] || q.Instructions == "" {
			return fmt.Errorf("question %d has the name of another, or no instructions", i)
		}
		names[q.Name] = true
		if q.Type != "predicate" && q.Type != "choice" || q.Type == "choice" && len(q.Choices) < 2 {
			return fmt.Errorf("question %d: type %q with %d choices", i, q.Type, len(q.Choices))
		}
	}
	return checkDecisionsInput(r.Input)
}

func checkDecisionsInput(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return nil
	}
	var messages []struct {
		Type    string `json:"type"`
		Role    string `json:"role"`
		Content []struct {
			Type     string `json:"type"`
			Text     string `json:"text"`
			ImageURL string `json:"image_url"`
		} `json:"content"`
	}
	if err := exactly(raw, &messages); err != nil {
		return fmt.Errorf("input: %w", err)
	}
	images := 0
	for _, m := range messages {
		if m.Role != "user" || m.Type != "message" {
			return fmt.Errorf("input: %q of %q", m.Type, m.Role)
		}
		for _, part := range m.Content {
			switch {
			case part.Type == "input_text" && part.Text != "":
			case part.Type == "input_image" && strings.HasPrefix(part.ImageURL, "data:image/"):
				images++
			default:
				return fmt.Errorf("input: part of type %q", part.Type)
			}
		}
	}
	if images > 128 {
		return fmt.Errorf("input: %d images", images)
	}
	return nil
}
