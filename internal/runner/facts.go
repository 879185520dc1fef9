package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"attend/internal/engine"
)

// maxFacts bounds what a judge is shown beside the window: it stands in the log
// with each call.
const maxFacts = 64 << 10

// Facts fetches what a judge is shown beside the window: a JSON object. It is
// asked anew for every call, and given the scope's contextTimeoutMs. What fails
// or is late leaves a trace and never fails the call.
type Facts func(ctx context.Context, scope string) (json.RawMessage, error)

// gathered is what a fetch brought.
type gathered struct {
	facts json.RawMessage
	err   error
	took  time.Duration
}

// begin starts the judge call that is due: at once, or when the facts are in.
// Nothing stands in the log before: a fetch that a crash ends is made again.
func (r *Runner) begin(ctx context.Context, s *scope) []engine.Step {
	start := s.state.StartCall(r.rules, r.judgeName())
	next := &call{window: start.Window, attempt: start.Call.Attempt, extra: start.Call.Extra}
	if r.opt.Facts == nil || r.judge == nil {
		s.call = next
		return []engine.Step{start}
	}
	if c := s.call; c == nil || c.window != next.window || c.attempt != next.attempt || c.extra != next.extra {
		s.breakOff()
		s.call = next
		r.gather(ctx, s, next)
		return nil
	}
	got := s.call.gathered
	if got == nil {
		return nil // on its way
	}
	start.Call.Facts = got.facts
	s.call.facts = got.facts
	if got.err == nil {
		return []engine.Step{start}
	}
	return []engine.Step{contextFailed(start.Window, got), start}
}

// contextFailed is the trace of a fetch that brought nothing.
func contextFailed(window string, got *gathered) engine.Step {
	return engine.Step{Kind: engine.StepTrace, Window: window, Trace: &engine.Trace{
		Name: "contextFailed", Message: engine.Shorten(engine.EscapeLine(got.err.Error()), 1<<10),
		Fields: map[string]string{"tookMs": fmt.Sprint(got.took.Milliseconds())},
	}}
}

// gather fetches the facts. The fetch ends with its timeout even where who is
// asked does not.
func (r *Runner) gather(ctx context.Context, s *scope, c *call) {
	timeout := time.Duration(r.policy.Load().For(s.name).ContextTimeoutMs) * time.Millisecond
	ctx, c.cancel = context.WithCancel(ctx)
	begun := time.Now()
	r.calls.Go(func() {
		defer c.cancel()
		stopped := ctx.Done()
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		fetched := make(chan gathered, 1)
		go func() {
			facts, err := r.opt.Facts(ctx, s.name)
			if err == nil {
				facts, err = checkFacts(facts)
			}
			fetched <- gathered{facts: facts, err: err}
		}()
		got := gathered{err: context.DeadlineExceeded}
		select {
		case got = <-fetched:
		case <-ctx.Done():
		}
		if got.err != nil {
			got.facts = nil
		}
		if errors.Is(got.err, context.DeadlineExceeded) {
			got.err = fmt.Errorf("no answer within contextTimeoutMs (%d)", timeout.Milliseconds())
		}
		got.took = time.Since(begun)
		select {
		case <-stopped:
			return
		default:
		}
		select {
		case r.outcomes <- outcome{scope: s, call: c, gathered: &got}:
		case <-stopped:
		}
	})
}

// checkFacts refuses what cannot stand in the log as facts.
func checkFacts(facts json.RawMessage) (json.RawMessage, error) {
	facts = bytes.TrimSpace(facts)
	switch {
	case len(facts) == 0:
		return nil, nil
	case len(facts) > maxFacts:
		return nil, fmt.Errorf("the facts have %d bytes: at most %d", len(facts), maxFacts)
	case facts[0] != '{' || !json.Valid(facts):
		return nil, errors.New("the facts are not a JSON object")
	}
	return facts, nil
}
