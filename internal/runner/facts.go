package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"attend/internal/engine"
	"attend/internal/judge"
)

// What hooks may bring for a call at most: facts and questions stand in the log
// with it.
const (
	maxFacts      = 64 << 10 // bytes
	maxPredicates = 199      // questions; a hosted judge takes 200, and the route is one
	maxImages     = 16
	maxImageBytes = 32 << 20 // in all, decoded
)

// gathered is what the hooks brought for a call. Each of them may fail: that
// leaves a trace and never fails the call.
type gathered struct {
	facts      json.RawMessage
	predicates []engine.Predicate
	images     []judge.Image
	refs       []engine.ImageRef // of the images, in their order
	failed     []hookTrace
}

// hookTrace is the trace of a hook that brought nothing, or not all.
type hookTrace struct{ engine.Trace }

// Names of such traces.
const (
	contextFailed = "contextFailed"
	captureFailed = "captureFailed"
)

func (t *hookTrace) log(log *slog.Logger, scope, window string) {
	if t.Name == captureFailed {
		log.Warn("captureFailed", "scope", scope, "window", window, "message", t.Message)
		return
	}
	log.Warn("contextFailed", "scope", scope, "window", window, "message", t.Message)
}

// begin starts the judge call that is due, once it has a place and what the
// hooks bring is in. Nothing stands in the log before: a fetch that a crash ends
// is made again.
func (r *Runner) begin(ctx context.Context, s *scope, now engine.Time) []engine.Step {
	start := s.state.StartCall(r.rules, r.judgeName())
	next := &call{window: start.Window, attempt: start.Call.Attempt, extra: start.Call.Extra}
	switch c := s.call; {
	case c != nil && c.window == next.window && c.waiting:
		c.attempt, c.extra = next.attempt, next.extra // it keeps its place in line
	case c == nil || c.window != next.window || c.attempt != next.attempt || c.extra != next.extra:
		r.endCall(s)
		s.call = next
	}
	if steps, held := r.hold(s, now); held {
		return steps
	}
	if !r.seat(s) || !r.gather(ctx, s) {
		return nil
	}
	c := s.call
	c.begun = true
	var steps []engine.Step
	for i := range c.gathered.failed {
		steps = append(steps, engine.Step{Kind: engine.StepTrace, Window: c.window, Trace: &c.gathered.failed[i].Trace})
	}
	start.Call.Predicates, start.Call.Images = c.gathered.predicates, c.gathered.refs
	if c.asks.Record {
		start.Call.Facts = c.gathered.facts
	}
	return append(steps, start)
}

// gather fetches what the judge is shown beside the window. It reports whether
// all of it is in.
func (r *Runner) gather(ctx context.Context, s *scope) bool {
	c := s.call
	switch {
	case c.gathered != nil:
		return true
	case c.cancel != nil:
		return false // on its way
	}
	c.asks = r.asks.Load()
	if c.asks.Judge == nil || c.asks.Context == nil && c.asks.Capture == nil || r.rules.Latest().PureJudge() != nil {
		c.gathered = new(gathered)
		return true
	}
	asks := c.asks
	set := r.rules.Latest().For(s.name)
	ctx, c.cancel = context.WithCancel(ctx)
	cancel := c.cancel
	r.calls.Go(func() {
		defer cancel()
		var facts, images gathered
		var both sync.WaitGroup
		both.Go(func() { facts = asks.gatherContext(ctx, s.name, set) })
		both.Go(func() { images = asks.gatherImages(ctx, s.name, set) })
		both.Wait()
		got := facts
		got.images, got.refs = images.images, images.refs
		got.failed = slices.Concat(facts.failed, images.failed)
		if ctx.Err() != nil {
			return
		}
		select {
		case r.outcomes <- outcome{scope: s, call: c, gathered: &got}:
		case <-ctx.Done():
		}
	})
	return false
}

func (a *Asks) gatherContext(ctx context.Context, scope string, set *engine.Settings) (got gathered) {
	if a.Context == nil {
		return got
	}
	begun := time.Now()
	brought, err := fetch(ctx, "contextTimeoutMs", set.ContextTimeoutMs, func(ctx context.Context) (judge.Context, error) {
		return a.Context(ctx, scope)
	})
	if err != nil { // what it brought beside the error counts
		got.fail(contextFailed, err, time.Since(begun))
	}
	if got.facts, err = checkFacts(brought.Facts); err != nil {
		got.fail(contextFailed, err, time.Since(begun))
	}
	if n := len(brought.Predicates); n > maxPredicates {
		got.fail(contextFailed, fmt.Errorf("the context hook asks %d questions: at most %d", n, maxPredicates), time.Since(begun))
		return got
	}
	asked := slices.Clone(set.Predicates)
	for _, p := range brought.Predicates {
		if slices.ContainsFunc(asked, func(q engine.Predicate) bool { return q.Name == p.Name }) {
			got.fail(contextFailed, fmt.Errorf("the context hook asks %q, which is asked already: its question is left out", p.Name), time.Since(begun))
			continue
		}
		asked = append(asked, p)
		got.predicates = append(got.predicates, p)
	}
	return got
}

func (a *Asks) gatherImages(ctx context.Context, scope string, set *engine.Settings) (got gathered) {
	if a.Capture == nil {
		return got
	}
	begun := time.Now()
	images, err := fetch(ctx, "captureTimeoutMs", set.CaptureTimeoutMs, func(ctx context.Context) ([]judge.Image, error) {
		return a.Capture(ctx, scope)
	})
	var refs []engine.ImageRef
	if err == nil {
		refs, err = checkImages(images)
	}
	if err != nil {
		got.fail(captureFailed, err, time.Since(begun))
		return got
	}
	got.images, got.refs = images, refs
	return got
}

// fetch asks a hook. It ends with its timeout even where the hook does not.
func fetch[T any](ctx context.Context, name string, ms int64, ask func(context.Context) (T, error)) (T, error) {
	type answer struct {
		got T
		err error
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
	defer cancel()
	answered := make(chan answer, 1)
	go func() {
		got, err := ask(ctx)
		answered <- answer{got, err}
	}()
	a := answer{err: context.DeadlineExceeded}
	select {
	case a = <-answered:
	case <-ctx.Done():
	}
	if a.err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		a.got = *new(T)
		a.err = fmt.Errorf("no answer within %s (%d)", name, ms)
	}
	return a.got, a.err
}

// fail leaves the trace of a hook that brought nothing, or not all.
func (g *gathered) fail(name string, err error, took time.Duration) {
	g.failed = append(g.failed, hookTrace{engine.Trace{
		Name: name, Message: engine.Shorten(engine.EscapeLine(err.Error()), maxMessage),
		Fields: map[string]string{"tookMs": fmt.Sprint(took.Milliseconds())},
	}})
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

// checkImages refuses what is no image, and tells the others apart.
func checkImages(images []judge.Image) ([]engine.ImageRef, error) {
	if len(images) > maxImages {
		return nil, fmt.Errorf("there are %d images: at most %d", len(images), maxImages)
	}
	var refs []engine.ImageRef
	bytes := 0
	for i := range images {
		p, err := judge.Look(images[i])
		if err != nil {
			return nil, fmt.Errorf("image %d: %w", i+1, err)
		}
		if bytes += p.Bytes; bytes > maxImageBytes {
			return nil, fmt.Errorf("the images have more than %d bytes", maxImageBytes)
		}
		refs = append(refs, p.Ref())
	}
	return refs, nil
}
