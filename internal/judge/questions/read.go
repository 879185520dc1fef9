package questions

import (
	"encoding/json"
	"strconv"

	"attend/internal/engine"
	"attend/internal/judge"
)

// number is a JSON number. Anything else in its place, a number too large to
// be one too, counts as none: only the route can fail an answer (design,
// section 5, 12).
type number struct {
	value float64
	given bool
}

// UnmarshalJSON implements json.Unmarshaler, and never fails.
func (n *number) UnmarshalJSON(b []byte) error {
	x, err := strconv.ParseFloat(string(b), 64)
	n.value, n.given = x, err == nil
	return nil
}

// pointer is nil where there is no number.
func (n number) pointer() *float64 {
	if !n.given {
		return nil
	}
	return &n.value
}

// text is a JSON string, or nothing.
type text string

// UnmarshalJSON implements json.Unmarshaler, and never fails.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = text(s)
	}
	return nil
}

// usage is what an answer took. What is no number counts nothing.
type usage struct {
	Input  number `json:"input_tokens"`
	Output number `json:"output_tokens"`
}

func (u usage) tokens() (in, out int64) { return u.Input.count(), u.Output.count() }

func (n number) count() int64 {
	const most = 1 << 40 // of tokens: more is a mistake, and would spend a budget
	if !n.given || n.value < 0 || n.value > most {
		return 0
	}
	return int64(n.value)
}

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
func probabilities(each func(yield func(label string, p number))) map[engine.Route]float64 {
	var out map[engine.Route]float64
	each(func(label string, p number) {
		r, err := engine.ParseRoute(label)
		if err != nil || !p.given {
			return
		}
		if out == nil {
			out = map[engine.Route]float64{}
		}
		out[r] = p.value
	})
	return out
}

func malformed(message string) *judge.Error {
	return &judge.Error{Class: judge.Malformed, Message: message}
}
