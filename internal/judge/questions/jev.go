package questions

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// jev speaks System One: a map of questions about a JSON state.
type jev struct{ long bool }

// Bytes of state for a context of 32k and of 262k tokens that the state shares
// with the longest question, at two bytes a token: few, since a state that is
// too long is refused for good.
const (
	jevState     = 60 << 10
	jevLongState = 480 << 10
)

func (j jev) limits() limits {
	l := limits{state: jevState, images: jevImages}
	if j.long {
		l.state = jevLongState
	}
	return l
}

type jevRequest struct {
	Model     string                 `json:"model"`
	State     json.RawMessage        `json:"state"`
	Questions map[string]jevQuestion `json:"questions"`
	Assets    map[string]jevAsset    `json:"assets,omitempty"`
}

type jevQuestion struct {
	Type         string                  `json:"type"`
	Instructions string                  `json:"instructions"`
	Criteria     map[engine.Route]string `json:"criteria,omitempty"` // of a choice: option → description
}

// jevAsset is an image, sent once and seen where its key stands in the state.
type jevAsset struct {
	Type   string `json:"type"`
	Format string `json:"format"`
	Data   string `json:"data_base64"`
}

func (j jev) request(a *asked) (body, told any) {
	r := jevRequest{Model: a.model, State: a.state.JSON, Questions: map[string]jevQuestion{}}
	question := jevQuestion{Type: "choice", Instructions: a.instructions, Criteria: map[engine.Route]string{}}
	for _, o := range a.routes {
		question.Criteria[o.Route] = o.Criterion
	}
	r.Questions[routeKey] = question
	for i, p := range a.predicates {
		r.Questions[strconv.Itoa(i)] = jevQuestion{Type: "noul", Instructions: p.Question}
	}
	if len(a.pictures) == 0 {
		return r, r
	}
	r.Assets = make(map[string]jevAsset, len(a.pictures))
	references := make([]string, len(a.pictures))
	for i := range a.pictures {
		p := &a.pictures[i]
		references[i] = jevReference(p)
		r.Assets[references[i]] = jevAsset{Type: "image", Format: jevFormat(p), Data: p.Data}
	}
	r.State = withImages(r.State, references)
	without := r
	without.Assets = nil
	return r, without
}

// jevReference stands for an image in the state. References are found as plain
// text: this one is in no event that was written without knowing the image.
func jevReference(p *judge.Picture) string { return "img-" + p.SHA256[:32] }

func jevFormat(p *judge.Picture) string {
	if p.MIME == mimePNG {
		return "png"
	}
	return "jpeg"
}

// withImages adds references to a rendered state, which is an object that is
// never empty.
func withImages(state []byte, references []string) []byte {
	out := append(slices.Clone(state[:len(state)-1]), `,"images":`...)
	out = append(out, encode(references)...)
	return append(out, '}')
}

func (j jev) header(a *asked, h http.Header) {
	if j.long {
		h.Set("TypeSafe-Danger-Zone-Long-Context", "true")
	}
	if len(a.pictures) > 0 {
		h.Set("TypeSafe-Danger-Zone-Images", "true")
	}
}

type jevAnswer struct {
	Model   wire.Text                  `json:"model"`
	Answers map[string]json.RawMessage `json:"answers"`
	Usage   wire.Loose[usage]          `json:"usage"`
}

type jevChoice struct {
	Choice        wire.Text       `json:"choice"`
	Confidence    wire.Number     `json:"confidence"`
	Probabilities json.RawMessage `json:"probabilities"`
}

func (j jev) answer(body []byte, a *asked) (read, error) {
	var doc jevAnswer
	if json.Unmarshal(body, &doc) != nil {
		return read{}, malformed("the answer is not as System One answers")
	}
	out := read{model: string(doc.Model)}
	out.in, out.out = doc.Usage.Value.tokens()
	var choice jevChoice
	if raw, ok := doc.Answers[routeKey]; !ok || json.Unmarshal(raw, &choice) != nil || choice.Choice == "" {
		return out, malformed("the answer holds no route")
	}
	chosen, err := route(string(choice.Choice), a.routes)
	if err != nil {
		return out, err
	}
	out.answer = engine.Answer{Route: chosen, Confidence: choice.Confidence.Pointer()}
	var shares map[string]wire.Number
	if json.Unmarshal(choice.Probabilities, &shares) == nil {
		out.answer.Probabilities = probabilities(func(yield func(string, wire.Number)) {
			for label, p := range shares { //arch:sorted each share is kept by its own label
				yield(label, p)
			}
		})
	}
	for i, p := range a.predicates {
		var noul struct {
			Noul wire.Number `json:"noul"`
		}
		if json.Unmarshal(doc.Answers[strconv.Itoa(i)], &noul) == nil && noul.Noul.Given {
			out.predicate(p.Name, noul.Noul)
		}
	}
	return out, nil
}

func (r *read) predicate(name string, p wire.Number) {
	if r.answer.Predicates == nil {
		r.answer.Predicates = map[string]float64{}
	}
	r.answer.Predicates[name] = p.Value
}
