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
	maxQuestion   = 4 << 10  // bytes of one, with its name
	maxQuestions  = 16 << 10 // bytes of all: a quarter of what a model is shown
	maxImages     = 128      // as many as a judge takes (seed, "Images")
	maxImageBytes = 32 << 20 // in all, decoded
)

// maxName is what a trace shows of a question's name, in bytes.
const maxName = 100

// Gathered is what the hooks brought for a call.
type Gathered struct {
	Facts      json.RawMessage
	Predicates []engine.Predicate // questions besides those of the settings
	Images     []judge.Image
	// Failed are the traces of hooks that brought nothing, or not all: that never
	// fails the call.
	Failed []engine.Trace
	refs   []engine.ImageRef // of the images, in their order
}

// Names of such traces.
const (
	contextFailed = "contextFailed"
	captureFailed = "captureFailed"
)

func logHook(log *slog.Logger, t *engine.Trace, scope, window string) {
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
	for i := range c.gathered.Failed {
		steps = append(steps, engine.Step{Kind: engine.StepTrace, Window: c.window, Trace: &c.gathered.Failed[i]})
	}
	start.Call.Predicates, start.Call.Images = c.gathered.Predicates, c.gathered.refs
	if c.asks.Record {
		start.Call.Facts = c.gathered.Facts
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
		c.gathered = new(Gathered)
		return true
	}
	asks := c.asks
	set := r.rules.Latest().For(s.name)
	ctx, c.cancel = context.WithCancel(ctx)
	cancel := c.cancel
	r.calls.Go(func() {
		defer cancel()
		got := asks.gather(ctx, s.name, set, &r.strays)
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

// Gather asks the hooks side by side, each within its time, and keeps what may be
// shown of what they bring. Of one whose time is over it waits some seconds for
// the end.
func (a *Asks) Gather(ctx context.Context, scope string, set *engine.Settings) Gathered {
	var strays sync.WaitGroup
	defer await(&strays, stopGrace)
	return a.gather(ctx, scope, set, &strays)
}

func (a *Asks) gather(ctx context.Context, scope string, set *engine.Settings, strays *sync.WaitGroup) Gathered {
	var got, images Gathered
	var both sync.WaitGroup
	both.Go(func() { got = a.gatherContext(ctx, scope, set, strays) })
	both.Go(func() { images = a.gatherImages(ctx, scope, set, strays) })
	both.Wait()
	got.Images, got.refs = images.Images, images.refs
	got.Failed = slices.Concat(got.Failed, images.Failed)
	return got
}

func (a *Asks) gatherContext(ctx context.Context, scope string, set *engine.Settings, strays *sync.WaitGroup) (got Gathered) {
	if a.Context == nil {
		return got
	}
	begun := time.Now()
	brought, err := fetch(ctx, strays, "contextTimeoutMs", set.ContextTimeoutMs, func(ctx context.Context) (judge.Context, error) {
		return a.Context(ctx, scope)
	})
	if err != nil { // what it brought beside the error counts
		got.fail(contextFailed, err, time.Since(begun))
	}
	if got.Facts, err = checkFacts(brought.Facts); err != nil {
		got.fail(contextFailed, err, time.Since(begun))
	}
	if n := len(brought.Predicates); n > maxPredicates {
		got.fail(contextFailed, fmt.Errorf("the context hook asks %d questions: at most %d", n, maxPredicates), time.Since(begun))
		return got
	}
	var left []string
	room, asked := maxQuestions, slices.Clone(set.Predicates)
	for _, p := range brought.Predicates {
		if slices.ContainsFunc(asked, func(q engine.Predicate) bool { return q.Name == p.Name }) {
			got.fail(contextFailed, fmt.Errorf("the context hook asks %q, which is asked already: its question is left out", p.Name), time.Since(begun))
			continue
		}
		size := len(p.Name) + len(p.Question)
		if size > min(maxQuestion, room) {
			left = append(left, engine.Shorten(p.Name, maxName))
			continue
		}
		room -= size
		asked = append(asked, p)
		got.Predicates = append(got.Predicates, p)
	}
	if len(left) > 0 {
		got.fail(contextFailed, fmt.Errorf("of the context hook's questions %d are left out, %q first: one may have %d bytes, all together %d",
			len(left), left[0], maxQuestion, maxQuestions), time.Since(begun))
	}
	return got
}

func (a *Asks) gatherImages(ctx context.Context, scope string, set *engine.Settings, strays *sync.WaitGroup) (got Gathered) {
	if a.Capture == nil {
		return got
	}
	begun := time.Now()
	brought, err := fetch(ctx, strays, "captureTimeoutMs", set.CaptureTimeoutMs, func(ctx context.Context) ([]judge.Image, error) {
		return a.Capture(ctx, scope)
	})
	if err != nil { // what it brought beside the error counts
		got.fail(captureFailed, err, time.Since(begun))
	}
	if got.Images, got.refs, err = checkImages(brought); err != nil {
		got.fail(captureFailed, err, time.Since(begun))
	}
	return got
}

// fetch asks a hook. It ends with its timeout even where the hook does not.
func fetch[T any](ctx context.Context, strays *sync.WaitGroup, name string, ms int64, ask func(context.Context) (T, error)) (T, error) {
	type answer struct {
		got T
		err error
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
	defer cancel()
	answered := make(chan answer, 1)
	strays.Go(func() {
		got, err := ask(ctx)
		answered <- answer{got, err}
	})
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
func (g *Gathered) fail(name string, err error, took time.Duration) {
	g.Failed = append(g.Failed, engine.Trace{
		Name: name, Message: engine.Shorten(engine.EscapeLine(err.Error()), maxMessage),
		Fields: map[string]string{"tookMs": fmt.Sprint(took.Milliseconds())},
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

// checkImages keeps the first images, as many as may be, and tells them apart; of
// images of which one is none it keeps nothing. The error tells what is left out.
func checkImages(images []judge.Image) (kept []judge.Image, refs []engine.ImageRef, err error) {
	bytes := 0
	for i := range images[:min(len(images), maxImages)] {
		p, err := judge.Look(images[i])
		if err != nil {
			return nil, nil, fmt.Errorf("image %d: %w", i+1, err)
		}
		if bytes += p.Bytes; bytes > maxImageBytes {
			break
		}
		refs = append(refs, p.Ref())
	}
	if len(refs) < len(images) {
		err = fmt.Errorf("of %d images the first %d are shown: at most %d, of %d bytes in all", len(images), len(refs), maxImages, maxImageBytes)
	}
	return images[:len(refs)], refs, err
}
