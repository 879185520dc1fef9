// Package judge holds the contract of judges: what they are asked, what they
// answer, and how their failures are classed (seed, "Judges").
package judge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"attend/internal/engine"
)

// Judge decides what an agent should do with a settled window.
type Judge interface {
	// Judge answers one window. It returns when the context ends. An error that
	// is not an *Error is transient.
	Judge(ctx context.Context, in *Input) (Reply, error)
}

// Gate is a Judge that can tell beforehand that a call would be held, so that
// nothing is fetched for it and nothing is written down.
type Gate interface {
	// Held is the error, of class Held, that a call made now would end with,
	// whatever its window is. nil says that it may be made.
	Held() *Error
}

// HeldBy is what a judge's gate tells; a judge without one holds nothing.
func HeldBy(j Judge) *Error {
	if g, ok := j.(Gate); ok {
		return g.Held()
	}
	return nil
}

// Func makes a plain function a judge.
type Func func(ctx context.Context, in *Input) (Reply, error)

// Judge calls the function.
func (f Func) Judge(ctx context.Context, in *Input) (Reply, error) { return f(ctx, in) }

// Input is what a judge sees (seed, "The input"). Times are Unix milliseconds.
type Input struct {
	Scope      string             `json:"scope"`
	Window     Window             `json:"window"`
	Routes     []Offer            `json:"routes"`
	Guidance   string             `json:"guidance,omitempty"`
	Predicates []engine.Predicate `json:"predicates,omitempty"`
	Recent     []engine.Recent    `json:"recent"`
	Facts      json.RawMessage    `json:"facts,omitempty"`  // an object: what the context hook brought for this call
	Images     []Image            `json:"images,omitempty"` // what the capture hook brought for this call
	Now        engine.Time        `json:"now"`
}

// Image is what a capture hook brought (seed, "Images").
type Image struct {
	Data string `json:"data"`     // base64, without a data: prefix
	MIME string `json:"mimeType"` // image/png, image/jpeg, image/webp or image/gif
}

// Context is what a context hook brought for one call: facts (an object, nil
// for none), and questions that are asked besides those of the configuration.
type Context struct {
	Facts      json.RawMessage
	Predicates []engine.Predicate
}

// Window is the settled window, its events oldest first.
type Window struct {
	ID        string             `json:"id"`
	Events    []engine.EventView `json:"events"`
	Reason    engine.Reason      `json:"reason"`
	Trigger   engine.Trigger     `json:"trigger"`
	Waits     int                `json:"waits"`
	Dropped   int                `json:"dropped"`
	Gap       bool               `json:"gap"`
	SettledAt engine.Time        `json:"settledAt"`
}

// Offer is a route on offer, with its criterion where one is set.
type Offer struct {
	Route     engine.Route `json:"route"`
	Criterion string       `json:"criterion,omitempty"`
}

// Reply is an answer, who gave it, and what was exchanged for it.
type Reply struct {
	Answer engine.Answer
	Judge  engine.JudgeName
	// Calls are the exchanges with judges, in order: one for each that was asked.
	Calls []engine.Exchange
}

// Class says what a failed call means for the window.
type Class string

// The classes of failure.
const (
	Transient Class = "error"     // try again
	Malformed Class = "malformed" // an answer that cannot be taken: try again
	Permanent Class = "permanent" // dead-letter at once
	Refused   Class = "refused"   // the judge will not answer: dead-letter at once
	// Held says that no judge could be asked now: a breaker is open, a budget is
	// spent, every place is taken. The attempt does not count; RetryAfter says
	// when to try again.
	Held Class = "held"
)

// Error is a classed failure of a judge. Its text must hold neither a key nor
// the state that was sent.
type Error struct {
	Class      Class
	Message    string
	Status     int           // of the HTTP response, 0 for none
	RequestID  string        // as the judge's host names the call
	RetryAfter time.Duration // the judge asked for no call before this; 0 for nothing
	// Calls are the exchanges with judges up to the failure, in order.
	Calls []engine.Exchange
}

func (e *Error) Error() string {
	msg := e.Message
	if e.Status != 0 {
		msg = fmt.Sprintf("%s (status %d)", msg, e.Status)
	}
	if e.RequestID != "" {
		msg += ", request " + e.RequestID
	}
	return msg
}

// Failure makes the record of a failed call.
func Failure(err error) engine.Failed {
	f := engine.Failed{Why: string(Transient), Message: engine.Shorten(engine.EscapeLine(err.Error()), 1<<10)}
	var e *Error
	switch {
	case errors.As(err, &e):
		f.Why = string(e.Class)
		f.Calls = e.Calls
		f.Permanent = e.Class == Permanent || e.Class == Refused
		if e.RetryAfter > 0 {
			f.RetryAfterMs = max(e.RetryAfter.Milliseconds(), 1)
		}
	case errors.Is(err, context.DeadlineExceeded):
		f.Why, f.Message = outcomeTimeout, "the judge did not answer in time"
	}
	return f
}

// Compile knows the judge named "rule", which needs no IO: the fold asks it
// itself. Any other judge is asked by the runner.
func Compile(p *engine.Policy) (engine.Compiled, error) {
	if p.Judge == "rule" {
		return engine.Compiled{Judge: engine.RuleJudge}, nil
	}
	return engine.Compiled{}, nil
}
