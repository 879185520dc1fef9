package judge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"attend/internal/engine"
)

// Outcomes of an exchange beside the classes of failure (engine.Exchange).
const (
	outcomeAnswered = "answered"
	outcomeBelow    = "below"   // answered, under the bar that is set for it
	outcomePassed   = "passed"  // not asked: its condition failed
	outcomeTimeout  = "timeout" // its time was over
)

// Named gives a judge the name under which it is configured, on its answers
// and its exchanges. It leaves at least one exchange on the record, whether the
// judge makes requests or not, and an answer whose route was not offered is
// Malformed. Every error of it is an *Error.
func Named(name string, j Judge) Judge { return &named{name: name, judge: j} }

type named struct {
	name  string
	judge Judge
}

// Judge implements Judge.
func (n *named) Judge(ctx context.Context, in *Input) (Reply, error) {
	start := time.Now()
	reply, err := n.judge.Judge(ctx, in)
	took := time.Since(start)
	if err == nil && !offered(in, reply.Answer.Route) {
		err = unoffered(reply)
	}
	if err != nil {
		return Reply{}, n.failure(ctx, err, took)
	}
	reply.Judge.Name = n.name
	if len(reply.Calls) == 0 {
		reply.Calls = []engine.Exchange{{Model: reply.Judge.Model, Outcome: outcomeAnswered, TookMs: took.Milliseconds()}}
	}
	n.sign(reply.Calls)
	return reply, nil
}

// Held implements Gate.
func (n *named) Held() *Error { return HeldBy(n.judge) }

// failure makes any error an *Error of this judge, with an exchange that tells
// of it.
func (n *named) failure(ctx context.Context, err error, took time.Duration) *Error {
	e := Error{Class: Transient, Message: err.Error()}
	var classed *Error
	if errors.As(err, &classed) {
		e = *classed
	} else if ctx.Err() != nil {
		e.Message = fmt.Sprintf("no answer within %s", took.Round(time.Millisecond))
	}
	if len(e.Calls) == 0 {
		x := engine.Exchange{
			Outcome: string(e.Class), Message: e.Message, Status: e.Status, RequestID: e.RequestID,
			RetryAfterMs: e.RetryAfter.Milliseconds(), TookMs: took.Milliseconds(),
		}
		if e.Class == Transient && ctx.Err() != nil {
			x.Outcome = outcomeTimeout
		}
		e.Calls = []engine.Exchange{x}
	}
	n.sign(e.Calls)
	return &e
}

func (n *named) sign(calls []engine.Exchange) {
	for i := range calls {
		calls[i].Judge = n.name
	}
}

func offered(in *Input, r engine.Route) bool {
	for i := range in.Routes {
		if in.Routes[i].Route == r {
			return true
		}
	}
	return false
}

// unoffered turns an answer that cannot be taken into a failure.
func unoffered(r Reply) *Error {
	e := &Error{Class: Malformed, Message: fmt.Sprintf("the judge answered %q, which was not offered", r.Answer.Route), Calls: r.Calls}
	if n := len(e.Calls); n > 0 {
		e.Calls[n-1].Outcome, e.Calls[n-1].Message = string(Malformed), e.Message
	}
	return e
}
