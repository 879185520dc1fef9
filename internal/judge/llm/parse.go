package llm

import (
	"encoding/json"
	"errors"
	"fmt"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// parse reads an answer: exactly one JSON object, with exactly one route, which
// is on offer. Nothing else can fail it (design, section 5, 12): what was not
// asked for is passed over, and what is no number counts as absent; one out of
// [0, 1] is for the engine to drop. The text of an error holds nothing of the
// answer: an event may have had a hand in it.
func parse(text string, in *judge.Input) (engine.Answer, *judge.Error) {
	var a engine.Answer
	err := wire.Members([]byte(text), func(key string, raw json.RawMessage) error {
		switch key {
		case "route":
			return readRoute(raw, in, &a)
		case "confidence":
			a.Confidence = number(raw).Pointer()
		case "probabilities":
			a.Probabilities = probabilities(raw)
		case "predicates":
			a.Predicates = predicates(raw, in)
		}
		return nil
	})
	if err == nil && a.Route == 0 {
		err = errors.New("has no route")
	}
	if err != nil {
		return engine.Answer{}, malformed("the model's answer " + err.Error())
	}
	return a, nil
}

func malformed(message string) *judge.Error {
	return &judge.Error{Class: judge.Malformed, Message: message}
}

func refused(message string) *judge.Error {
	return &judge.Error{Class: judge.Refused, Message: message}
}

func readRoute(raw json.RawMessage, in *judge.Input, a *engine.Answer) error {
	var name string
	switch {
	case a.Route != 0:
		return errors.New("has a route twice")
	case json.Unmarshal(raw, &name) != nil:
		return errors.New("has a route that is no text")
	}
	for _, o := range in.Routes {
		if o.Route.String() == name {
			a.Route = o.Route
			return nil
		}
	}
	if r, err := engine.ParseRoute(name); err == nil {
		return fmt.Errorf("is %s, which was not offered", r)
	}
	return errors.New("is no route")
}

// probabilities keeps those of routes.
func probabilities(raw json.RawMessage) map[engine.Route]float64 {
	out := make(map[engine.Route]float64)
	for label, p := range numbers(raw) { //arch:sorted each is kept by its own label
		if r, err := engine.ParseRoute(label); err == nil && p.Given {
			out[r] = p.Value
		}
	}
	return out
}

// predicates keeps the answers to what was asked.
func predicates(raw json.RawMessage, in *judge.Input) map[string]float64 {
	given := numbers(raw)
	out := make(map[string]float64)
	for i, p := range in.Predicates {
		if x := given[predicateKey(i)]; x.Given {
			out[p.Name] = x.Value
		}
	}
	return out
}

func numbers(raw json.RawMessage) map[string]wire.Number {
	var out wire.Loose[map[string]wire.Number]
	_ = json.Unmarshal(raw, &out) // it never fails
	return out.Value
}

func number(raw json.RawMessage) wire.Number {
	var n wire.Number
	_ = json.Unmarshal(raw, &n) // it never fails
	return n
}
