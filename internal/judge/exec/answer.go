package exec

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"attend/internal/engine"
	"attend/internal/judge"
)

// answer is what a program said.
type answer struct {
	engine.Answer
	model string
	usage usage
}

// usage is what the model behind a program took, where it says so.
type usage struct {
	Input  int64 `json:"input_tokens"`
	Output int64 `json:"output_tokens"`
}

// parse reads an answer in either of its two shapes:
//
//	{"route", "probabilities"?, "predicates"?, "confidence"?}
//	{"answers": {"route": {"choice", "probabilities"?, "confidence"?}, "<predicate>": {"noul"}}}
//
// Both may name a "model" and its "usage". The latter is what System One
// answers, where a question is called as its predicate is. Fields that are not
// known are passed over, as programs like to say why; those that are known
// must be what they should be. An error repeats nothing of the answer.
func parse(raw []byte, in *judge.Input) (answer, error) {
	top, err := object(raw)
	if err != nil {
		return answer{}, fmt.Errorf("the answer %w", err)
	}
	var a answer
	if err := take(top, "model", &a.model, "text"); err != nil {
		return answer{}, err
	}
	if err := take(top, "usage", &a.usage, "an object of token counts"); err != nil {
		return answer{}, err
	}
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
	var predicates map[string]*float64
	if err := take(top, "predicates", &predicates, "an object of numbers"); err != nil {
		return err
	}
	for i := range in.Predicates {
		a.predicate(in.Predicates[i].Name, predicates[in.Predicates[i].Name])
	}
	return a.choice(top, "route", in)
}

func (a *answer) systemOne(top map[string]json.RawMessage, in *judge.Input) error {
	answers, err := object(top["answers"])
	if err != nil {
		return fmt.Errorf("the answer's answers: it %w", err)
	}
	for i := range in.Predicates {
		name := in.Predicates[i].Name
		said, ok := answers[name]
		if !ok || name == "route" { // that is the route's own key
			continue
		}
		var p struct {
			Noul *float64 `json:"noul"`
		}
		if err := json.Unmarshal(said, &p); err != nil {
			return errors.New("the answer to a predicate is no object with a number noul")
		}
		a.predicate(name, p.Noul)
	}
	route, ok := answers["route"]
	if !ok {
		return errors.New("the answer has no route")
	}
	fields, err := object(route)
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
	if err := take(fields, "confidence", &a.Confidence, "a number"); err != nil {
		return err
	}
	var probabilities map[string]*float64
	if err := take(fields, "probabilities", &probabilities, "an object of numbers"); err != nil {
		return err
	}
	var err error
	if a.Route, err = engine.ParseRoute(name); err != nil {
		return fmt.Errorf("the answer's %s is none of interrupt, queue, note, ask, skip and wait", key)
	}
	if !slices.ContainsFunc(in.Routes, func(o judge.Offer) bool { return o.Route == a.Route }) {
		return fmt.Errorf("the judge answered %q, which was not offered", a.Route)
	}
	for _, label := range slices.Sorted(maps.Keys(probabilities)) {
		route, err := engine.ParseRoute(label)
		if err != nil {
			return errors.New("the answer's probabilities name something that is no route")
		}
		if p := probabilities[label]; p != nil {
			if a.Probabilities == nil {
				a.Probabilities = make(map[engine.Route]float64)
			}
			a.Probabilities[route] = *p
		}
	}
	return nil
}

func (a *answer) predicate(name string, p *float64) {
	if p == nil {
		return
	}
	if a.Predicates == nil {
		a.Predicates = make(map[string]float64)
	}
	a.Predicates[name] = *p
}

// object reads one JSON object, its keys exactly as they are written.
func object(raw []byte) (map[string]json.RawMessage, error) {
	if len(raw) == 0 {
		return nil, errors.New("is empty")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, errors.New("is not one JSON object")
	}
	return fields, nil
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
