package questions

import (
	"encoding/json"
	"fmt"
	"net/http"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// decisions speaks OpenAI's Decisions: a list of questions about a text.
type decisions struct{}

const (
	decisionsState      = 240 << 10 // bytes, for a context of 128k tokens: two bytes a token
	decisionsPredicates = 199       // the API takes 200 questions, and the route is one
	decisionsImageCount = 128
)

func (decisions) limits() limits {
	return limits{state: decisionsState, predicates: decisionsPredicates, images: decisionsImages}
}

type decisionsRequest struct {
	Model     string              `json:"model"`
	Input     any                 `json:"input"` // a string, or messages where there are images
	Questions []decisionsQuestion `json:"questions"`
}

type decisionsMessage struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content []decisionsPart `json:"content"`
}

type decisionsPart struct {
	Type     string `json:"type"`
	Text     string `json:"text,omitempty"`
	ImageURL string `json:"image_url,omitempty"`
}

type decisionsQuestion struct {
	Type         string            `json:"type"`
	Name         string            `json:"name,omitempty"`
	Instructions string            `json:"instructions"`
	Choices      []decisionsOption `json:"choices,omitempty"`
}

type decisionsOption struct {
	Value       engine.Route `json:"value"`
	Description string       `json:"description,omitempty"`
}

func (decisions) request(a *asked) (body, told any) {
	question := decisionsQuestion{Type: "choice", Name: routeKey, Instructions: a.instructions}
	for _, o := range a.routes {
		question.Choices = append(question.Choices, decisionsOption{o.Route, o.Criterion})
	}
	r := decisionsRequest{Model: a.model, Input: string(a.state.JSON), Questions: []decisionsQuestion{question}}
	for _, p := range a.predicates {
		q := decisionsQuestion{Type: "predicate", Name: p.Name, Instructions: p.Question}
		if p.Name == routeKey {
			q.Name = "" // names tell answers apart: this one goes by its place
		}
		r.Questions = append(r.Questions, q)
	}
	if len(a.pictures) == 0 {
		return r, r
	}
	parts := []decisionsPart{{Type: "input_text", Text: string(a.state.JSON)}}
	for i := range a.pictures {
		p := &a.pictures[i]
		parts = append(parts, decisionsPart{Type: "input_image", ImageURL: "data:" + p.MIME + ";base64," + p.Data})
	}
	with := r
	with.Input = []decisionsMessage{{Type: "message", Role: "user", Content: parts}}
	return with, r
}

func (decisions) header(*asked, http.Header) {}

type decisionsAnswer struct {
	Model   wire.Text         `json:"model"`
	Answers []json.RawMessage `json:"answers"`
	Usage   wire.Loose[usage] `json:"usage"`
}

type decisionsItem struct {
	Type          wire.Text       `json:"type"`
	Name          *wire.Text      `json:"name"`
	Choice        wire.Text       `json:"choice"` // a boolean is no route
	Confidence    wire.Number     `json:"confidence"`
	Probability   wire.Number     `json:"probability"`
	Probabilities json.RawMessage `json:"probabilities"`
}

func (decisions) answer(body []byte, a *asked) (read, error) {
	var doc decisionsAnswer
	if json.Unmarshal(body, &doc) != nil {
		return read{}, malformed("the answer is not as Decisions answers")
	}
	out := read{model: string(doc.Model)}
	out.in, out.out = doc.Usage.Value.tokens()
	items := byQuestion(doc.Answers, a.predicates)
	choice := items[0]
	switch {
	case choice == nil:
		return out, malformed("the answer holds no route")
	case choice.Type == "refusal":
		return out, &judge.Error{Class: judge.Refused, Message: "the judge refused to choose a route"}
	case choice.Type != "choice" || choice.Choice == "":
		return out, malformed("the answer holds no route")
	}
	chosen, err := route(string(choice.Choice), a.routes)
	if err != nil {
		return out, err
	}
	out.answer = engine.Answer{Route: chosen, Confidence: choice.Confidence.Pointer()}
	var shares []struct {
		Value       wire.Text   `json:"value"`
		Probability wire.Number `json:"probability"`
	}
	if json.Unmarshal(choice.Probabilities, &shares) == nil {
		out.answer.Probabilities = probabilities(func(yield func(string, wire.Number)) {
			for _, s := range shares {
				yield(string(s.Value), s.Probability)
			}
		})
	}
	for i, p := range a.predicates {
		switch item := items[i+1]; {
		case item == nil:
		case item.Type == "refusal":
			out.refused = append(out.refused, fmt.Sprintf("%q", p.Name))
		case item.Type == "predicate" && item.Probability.Given:
			out.predicate(p.Name, item.Probability)
		}
	}
	return out, nil
}

// byQuestion brings answers into the order of the questions: the route, then
// the predicates. An answer without a name belongs to the question at its own
// place; of two for one question the first counts.
func byQuestion(answers []json.RawMessage, predicates []engine.Predicate) []*decisionsItem {
	items := make([]*decisionsItem, len(predicates)+1)
	places := map[string]int{routeKey: 0}
	for i, p := range predicates {
		if p.Name != routeKey {
			places[p.Name] = i + 1
		}
	}
	for i, raw := range answers {
		var item decisionsItem
		if json.Unmarshal(raw, &item) != nil {
			continue
		}
		place := i
		if item.Name != nil && *item.Name != "" {
			named, ok := places[string(*item.Name)]
			if !ok {
				continue
			}
			place = named
		}
		if place < len(items) && items[place] == nil {
			items[place] = &item
		}
	}
	return items
}
