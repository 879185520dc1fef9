package exec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// answer is what a program said.
type answer struct {
	engine.Answer
	model string
	usage usage
}

// usage is what the model behind a program took, where it says so.
type usage struct {
	Input  wire.Number `json:"input_tokens"`
	Output wire.Number `json:"output_tokens"`
}

// parse reads an answer in either of its two shapes:
//
//	{"route", "probabilities"?, "predicates"?, "confidence"?}
//	{"answers": {"route": {"choice", "probabilities"?, "confidence"?}, "<predicate>": {"noul"}}}
//
// Both may name a "model" and its "usage". The latter is what System One
// answers, where a question is called as its predicate is. Only the route can
// fail an answer (design, section 5, 12): fields that are not known are passed
// over, as programs like to say why, and what is not what it should be counts as
// absent. An error repeats nothing of the answer.
func parse(raw []byte, in *judge.Input) (answer, error) {
	top, err := object(raw, "route", "answers")
	if err != nil {
		return answer{}, fmt.Errorf("the answer %w", err)
	}
	a := answer{model: string(read[wire.Text](top["model"])), usage: read[wire.Loose[usage]](top["usage"]).Value}
	_, plain := top["route"]
	_, answers := top["answers"]
	switch {
	case plain && answers:
		err = errors.New("the answer has both a route and answers: write one of them")
	case plain:
		err = a.plain(top, in)
	case answers:
		err = a.systemOne(top, in)
	default:
		err = errors.New("the answer has no route")
	}
	return a, err
}

func (a *answer) plain(top map[string]json.RawMessage, in *judge.Input) error {
	said := read[wire.Loose[map[string]wire.Number]](top["predicates"]).Value
	for i := range in.Predicates {
		name := in.Predicates[i].Name
		a.predicate(name, said[name])
	}
	return a.choice(top, "route", in)
}

func (a *answer) systemOne(top map[string]json.RawMessage, in *judge.Input) error {
	answers, err := object(top["answers"], "route")
	if err != nil {
		return fmt.Errorf("the answer's answers: it %w", err)
	}
	for i := range in.Predicates {
		name := in.Predicates[i].Name
		if name == "route" { // that is the route's own key
			continue
		}
		a.predicate(name, read[wire.Loose[struct {
			Noul wire.Number `json:"noul"`
		}]](answers[name]).Value.Noul)
	}
	route, ok := answers["route"]
	if !ok {
		return errors.New("the answer has no route")
	}
	fields, err := object(route, "choice")
	if err != nil {
		return fmt.Errorf("the answer to the route %w", err)
	}
	return a.choice(fields, "choice", in)
}

// choice reads the route under a key, and the numbers beside it.
func (a *answer) choice(fields map[string]json.RawMessage, key string, in *judge.Input) error {
	var name string
	if err := take(fields, key, &name, "text"); err != nil {
		return err
	}
	var err error
	if a.Route, err = engine.ParseRoute(name); err != nil {
		return fmt.Errorf("the answer's %s is none of interrupt, queue, note, ask, skip and wait", key)
	}
	if !slices.ContainsFunc(in.Routes, func(o judge.Offer) bool { return o.Route == a.Route }) {
		return fmt.Errorf("the judge answered %q, which was not offered", a.Route)
	}
	a.Confidence = read[wire.Number](fields["confidence"]).Pointer()
	for label, p := range read[wire.Loose[map[string]wire.Number]](fields["probabilities"]).Value { //arch:sorted each is kept by its own label
		route, err := engine.ParseRoute(label)
		if err != nil || !p.Given {
			continue
		}
		if a.Probabilities == nil {
			a.Probabilities = make(map[engine.Route]float64)
		}
		a.Probabilities[route] = p.Value
	}
	return nil
}

func (a *answer) predicate(name string, p wire.Number) {
	if !p.Given {
		return
	}
	if a.Predicates == nil {
		a.Predicates = make(map[string]float64)
	}
	a.Predicates[name] = p.Value
}

// read reads a value of a type that takes whatever stands there, also nothing.
func read[T any](raw json.RawMessage) (v T) {
	_ = json.Unmarshal(raw, &v)
	return v
}

// object reads one JSON object, its keys exactly as they are written. Of two of
// one name the last counts, but those named here may not come twice.
func object(raw []byte, once ...string) (map[string]json.RawMessage, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, errors.New("is empty")
	}
	fields := make(map[string]json.RawMessage)
	err := wire.Members(raw, func(key string, value json.RawMessage) error {
		if _, again := fields[key]; again && slices.Contains(once, key) {
			return fmt.Errorf("has %s twice", key)
		}
		fields[key] = value
		return nil
	})
	return fields, err
}

// take reads a field, which may be missing or null.
func take(fields map[string]json.RawMessage, key string, into any, want string) error {
	raw, ok := fields[key]
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the answer's %s is not %s", key, want)
	}
	return nil
}
