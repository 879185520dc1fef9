package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"attend/internal/engine"
	"attend/internal/judge"
)

// parse reads an answer: exactly one JSON object, no member twice, none that
// was not asked for, a route on offer. Numbers may be left out; one out of
// [0, 1] is for the engine to drop. The text of an error holds nothing of the
// answer: an event may have had a hand in it.
func parse(text string, in *judge.Input) (engine.Answer, *judge.Error) {
	var a engine.Answer
	err := members(text, func(key string, raw json.RawMessage) error {
		switch key {
		case "route":
			return readRoute(raw, in, &a)
		case "confidence":
			x, err := number(raw)
			a.Confidence = &x
			return err
		case "probabilities":
			a.Probabilities = make(map[engine.Route]float64)
			return members(string(raw), func(key string, raw json.RawMessage) error {
				r, err := engine.ParseRoute(key)
				if err != nil {
					return errors.New("has a probability of no route")
				}
				a.Probabilities[r], err = number(raw)
				return err
			})
		case "predicates":
			a.Predicates = make(map[string]float64)
			return members(string(raw), func(key string, raw json.RawMessage) (err error) {
				for i, p := range in.Predicates {
					if key == predicateKey(i) {
						a.Predicates[p.Name], err = number(raw)
						return err
					}
				}
				return errors.New("answers a question that was not asked")
			})
		default:
			return errors.New("has a member that was not asked for")
		}
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
	if json.Unmarshal(raw, &name) != nil {
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

// members visits a JSON object's members in order, whose names are exact.
func members(text string, visit func(key string, value json.RawMessage) error) error {
	d := json.NewDecoder(strings.NewReader(text))
	noObject := errors.New("is not one JSON object")
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return noObject
	}
	seen := make(map[string]bool)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return noObject
		}
		name, _ := key.(string)
		if seen[name] {
			return errors.New("has a member twice")
		}
		seen[name] = true
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return noObject
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return noObject
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return noObject
	}
	return nil
}

// number reads a JSON number. One that no float holds is out of every range.
func number(raw json.RawMessage) (float64, error) {
	var n json.Number
	if raw[0] == '"' || json.Unmarshal(raw, &n) != nil || n == "" {
		return 0, errors.New("has a number that is none")
	}
	x, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return math.MaxFloat64, nil
	}
	return x, nil
}
