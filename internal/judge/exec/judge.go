package exec

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
)

// maxInput is how long the question to a judge may be, without its images, in
// bytes. A window that is longer is cut: see [judge.Render].
const maxInput = 1 << 20

// Judge makes a judge of a program (docs/judges-programs.md has the contract).
// The model of its answers is the one that the program names, if any.
//
// Errors: *judge.Error with the one exchange that was made. Malformed for an
// answer that is not one, or whose route was not offered; Permanent where the
// program says so; Transient for all else.
func Judge(e Endpoint) judge.Judge {
	return judge.Func(func(ctx context.Context, in *judge.Input) (judge.Reply, error) {
		q := ask(in)
		x := engine.Exchange{Prompt: wire.Clip(string(q.text)), Images: q.images, Cut: q.cut}
		raw, err := e.ask(ctx, q.whole, wire.MaxBody, &x)
		if err != nil {
			return judge.Reply{}, failed(err, &x)
		}
		a, err := parse(raw, in)
		if err != nil {
			malformed := &judge.Error{Class: judge.Malformed, Message: err.Error(), Status: x.Status, RequestID: x.RequestID, RetryAfter: time.Duration(x.RetryAfterMs) * time.Millisecond}
			wire.Fail(&x, malformed)
			return judge.Reply{}, failed(malformed, &x)
		}
		x.Outcome, x.Model = "answered", wire.Model(e.hide(a.model), "")
		x.InputTokens, x.OutputTokens = a.usage.Input.Count(), a.usage.Output.Count()
		return judge.Reply{
			Answer: a.Answer,
			Judge:  engine.JudgeName{Model: x.Model},
			Calls:  []engine.Exchange{x},
		}, nil
	})
}

// failed puts the exchange on an error of an endpoint.
func failed(err error, x *engine.Exchange) *judge.Error {
	e := judge.Error{Class: judge.Transient, Message: err.Error()}
	if classed := (*judge.Error)(nil); errors.As(err, &classed) {
		e = *classed
	}
	e.Calls = []engine.Exchange{*x}
	return &e
}

// question is what a judge is asked.
type question struct {
	text   []byte // without images
	whole  []byte
	images []engine.ImageRef
	cut    int // events for which there was no room
}

// ask writes an input as one JSON object: what is rendered for every judge, and
// what the others are told elsewhere, or not in full: the scope, the routes, the
// last verdicts and the images.
func ask(in *judge.Input) question {
	rest := *in
	rest.Recent = nil
	rendered := judge.Render(&rest, maxInput)
	q := question{cut: rendered.Cut}
	q.text = join(encode(struct {
		Scope  string          `json:"scope"`
		Now    engine.Time     `json:"now"`
		Routes []judge.Offer   `json:"routes"`
		Recent []engine.Recent `json:"recent,omitempty"`
	}{in.Scope, in.Now, in.Routes, in.Recent}), rendered.JSON)
	q.whole = q.text
	if len(in.Images) > 0 {
		q.whole = join(q.text, encode(struct {
			Images []judge.Image `json:"images"`
		}{in.Images}))
	}
	for _, image := range in.Images {
		picture, _ := judge.Look(image) // of what is no image too, there is something to tell it by
		q.images = append(q.images, picture.Ref())
	}
	return q
}

// join makes one JSON object of two that are not empty.
func join(a, b []byte) []byte {
	out := make([]byte, 0, len(a)+len(b))
	out = append(out, a[:len(a)-1]...)
	out = append(out, ',')
	return append(out, b[1:]...)
}

// encode writes what cannot fail to be written: texts, numbers, lists of them.
func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("{}")
	}
	return b
}
