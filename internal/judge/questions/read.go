package questions

import (
	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// usage is what an answer took. What is no number counts nothing.
type usage struct {
	Input  wire.Number `json:"input_tokens"`
	Output wire.Number `json:"output_tokens"`
}

func (u usage) tokens() (in, out int64) { return u.Input.Count(), u.Output.Count() }

// route reads a label as a route on offer. The label itself is not repeated in
// the error: it may be an echo of what was sent.
func route(label string, offered []judge.Offer) (engine.Route, error) {
	r, err := engine.ParseRoute(label)
	if err != nil {
		return 0, malformed("the judge chose what is no route")
	}
	for _, o := range offered {
		if o.Route == r {
			return r, nil
		}
	}
	return 0, malformed("the judge chose " + r.String() + ", which was not offered")
}

// probabilities keeps those of routes.
func probabilities(each func(yield func(label string, p wire.Number))) map[engine.Route]float64 {
	var out map[engine.Route]float64
	each(func(label string, p wire.Number) {
		r, err := engine.ParseRoute(label)
		if err != nil || !p.Given {
			return
		}
		if out == nil {
			out = map[engine.Route]float64{}
		}
		out[r] = p.Value
	})
	return out
}

func malformed(message string) *judge.Error {
	return &judge.Error{Class: judge.Malformed, Message: message}
}
