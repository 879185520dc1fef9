package runner

import (
	"strconv"

	"attend/internal/engine"
	"attend/internal/judge"
)

// judgeHeld is the trace of a window that waits until a judge can be asked.
const judgeHeld = "judgeHeld"

// How long a window waits before it is looked again whether a judge can be asked.
const (
	leastHeldMs = 1000
	mostHeldMs  = 60_000 // a reload may have raised a budget
)

// hold reports whether nobody can be asked now: a breaker is open, a budget is
// spent. The window then takes no place, no hook is asked for it, and however
// long it lasts, and however often it is looked, one trace is all that it
// leaves.
func (r *Runner) hold(s *scope, now engine.Time) (steps []engine.Step, held bool) {
	c := s.call
	if c.waiting || c.cancel != nil || c.gathered != nil {
		return nil, false // it stands in line, or its hooks are asked already
	}
	if now < c.held {
		return nil, true
	}
	c.held = 0
	asks := r.asks.Load()
	if asks.Judge == nil || r.rules.Latest().PureJudge() != nil {
		return nil, false
	}
	why := judge.HeldBy(asks.Judge)
	if why == nil {
		return nil, false
	}
	r.unseat(c)
	set := r.rules.Latest().For(s.name)
	ms := min(max(why.RetryAfter.Milliseconds(), leastHeldMs), mostHeldMs)
	jitter := set.RetryJitter * engine.Jitter(c.window, c.attempt)
	c.held = now + engine.Time(ms+int64(float64(ms)*jitter))
	if c.told {
		return nil, true
	}
	c.told = true
	return []engine.Step{{Kind: engine.StepTrace, Window: c.window, Trace: &engine.Trace{
		Name: judgeHeld, Message: engine.Shorten(engine.EscapeLine(why.Message), maxMessage),
		Fields: map[string]string{"retryAfterMs": strconv.FormatInt(ms, 10)},
	}}}, true
}
