package runner

import (
	"errors"
	"slices"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/store"
)

// What of an exchange stands in the log at most.
const (
	maxExchanges = 64
	maxExchanged = 64 << 10 // bytes of a prompt or an answer
	maxMessage   = 1 << 10
)

// exchanged are the exchanges of a reply or of an error.
func exchanged(reply judge.Reply, err error) []engine.Exchange {
	var e *judge.Error
	if errors.As(err, &e) {
		return e.Calls
	}
	return reply.Calls
}

// exchanges are those of an outcome as they stand in the log: at least one,
// bounded, and without what was said where that is not to be recorded.
func (r *Runner) exchanges(o *outcome, name, why string) []engine.Exchange {
	calls := slices.Clone(o.calls[:min(len(o.calls), maxExchanges)])
	if len(calls) == 0 {
		calls = []engine.Exchange{{Judge: name, Model: o.reply.Judge.Model, Outcome: why, TookMs: o.took.Milliseconds()}}
	}
	for i := range calls {
		c := &calls[i]
		c.Message = engine.Shorten(engine.EscapeLine(c.Message), maxMessage)
		c.Prompt, c.Answer = engine.Shorten(c.Prompt, maxExchanged), engine.Shorten(c.Answer, maxExchanged)
		if !o.call.asks.Record {
			c.Prompt, c.Answer = "", ""
		}
	}
	return calls
}

// tellDead logs the windows of an entry that no judge could answer.
func (r *Runner) tellDead(e *store.Entry) {
	for i := range e.Steps {
		if d := e.Steps[i].DeadLetter; d != nil && d.Stage == engine.StageJudge {
			r.log.Warn("a window became a dead letter", "scope", d.Scope, "window", d.WindowID, "attempts", d.Attempts, "message", d.Message)
		}
	}
}

// outcomes of exchanges that have a label of their own (engine.Exchange).
func outcomes() []string {
	return []string{"answered", "below", "passed", "error", "malformed", "permanent", "refused", "held", "timeout"}
}

// other stands for what has no label of its own.
const other = "other"

// exchanges counts what was exchanged with judges, once it stands in the log.
func (m *metrics) exchanges(calls []engine.Exchange) {
	for i := range calls {
		c := &calls[i]
		name, outcome := other, other
		if slices.Contains(*m.judges.Load(), c.Judge) {
			name = c.Judge
		}
		if slices.Contains(m.outcomes, c.Outcome) {
			outcome = c.Outcome
		}
		m.calls.WithLabelValues(name, outcome).Inc()
		if outcome == string(judge.Held) || outcome == "passed" {
			continue // nobody was asked
		}
		m.callSeconds.WithLabelValues(name).Observe(float64(c.TookMs) / 1000)
		m.tokens.WithLabelValues(name, "input").Add(float64(max(c.InputTokens, 0)))
		m.tokens.WithLabelValues(name, "output").Add(float64(max(c.OutputTokens, 0)))
	}
}
