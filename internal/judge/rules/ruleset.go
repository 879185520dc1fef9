package rules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"attend/internal/engine"
	"attend/internal/expr"
	"attend/internal/judge"
)

// Ruleset is a rules file, compiled. It is safe for concurrent use.
type Ruleset struct {
	rules    []rule
	fallback engine.Route
}

type rule struct {
	label      string // its name, or "rule 3"
	when       *expr.Program
	then       engine.Route
	confidence *float64
	predicates map[string]float64
}

// Default is the label of what no rule matches.
const Default = "default"

// Match is what became of one window.
type Match struct {
	Answer engine.Answer
	// Rule is the label of the rule that matched: its name, or "rule 3", or
	// [Default].
	Rule string
	// Failures are the conditions before it that failed, and so were not met.
	Failures []Failure
}

// Failure is a condition that could not be worked out for a window.
type Failure struct {
	Rule    string // its label
	Problem string // holds nothing of what events say
	Quoted  string // the same, and may quote them
}

// Labels lists the rules in order, and [Default].
func (s *Ruleset) Labels() []string {
	labels := make([]string, 0, len(s.rules)+1)
	for i := range s.rules {
		labels = append(labels, s.rules[i].label)
	}
	return append(labels, Default)
}

// Pure reports whether the fold may ask the rules: they look at nothing but the
// window. Others are asked as [Judge].
func (s *Ruleset) Pure() bool { return !s.use("facts") && !s.use(expr.Zone) }

// Facts reports whether a rule looks at facts.
func (s *Ruleset) Facts() bool { return s.use("facts") }

// Bodies reports whether a rule looks at what events say.
func (s *Ruleset) Bodies() bool { return s.use(expr.Bodies) }

// Predicates lists what rules answer of predicates, by name, in order.
func (s *Ruleset) Predicates() []string {
	names := make(map[string]bool)
	for _, r := range s.rules {
		for name := range r.predicates { //arch:sorted below
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (s *Ruleset) use(name string) bool {
	return slices.ContainsFunc(s.rules, func(r rule) bool { return r.when.Uses(name) })
}

// Judge answers a window as the fold knows it: an [engine.PureJudge].
func (s *Ruleset) Judge(w *engine.Window) engine.Answer {
	m := s.Match(w)
	return m.Answer
}

// Match tells which rule a window meets. There are no facts.
func (s *Ruleset) Match(w *engine.Window) Match { return s.match(expr.OfWindow(w), w.Offered) }

// match goes through the rules in order. A rule whose route is not on offer, as
// wait may be, is passed over.
func (s *Ruleset) match(vars *expr.Vars, offered []engine.Route) Match {
	var m Match
	for i := range s.rules {
		r := &s.rules[i]
		if !slices.Contains(offered, r.then) {
			continue
		}
		met, err := r.when.Met(vars)
		if err != nil {
			m.Failures = append(m.Failures, Failure{Rule: r.label, Problem: err.Error(), Quoted: expr.Quoted(err)})
		}
		if met {
			m.Rule = r.label
			m.Answer = engine.Answer{Route: r.then, Confidence: r.confidence, Predicates: r.predicates}
			return m.explained()
		}
	}
	m.Rule, m.Answer = Default, engine.Answer{Route: s.fallback}
	return m.explained()
}

// mostTold is how many failures an answer tells of.
const mostTold = 5

// explained puts on the answer which rule it was, and what failed before it.
func (m Match) explained() Match {
	m.Answer.By = m.Rule
	var told []string
	for _, f := range m.Failures[:min(len(m.Failures), mostTold)] {
		told = append(told, f.Rule+" failed: "+f.Problem)
	}
	if more := len(m.Failures) - mostTold; more > 0 {
		told = append(told, fmt.Sprintf("%d more failed", more))
	}
	m.Answer.Trouble = engine.Shorten(engine.EscapeLine(strings.Join(told, "; ")), 1<<10)
	return m
}

// Judge asks rules through the call path, with the facts of the call.
type Judge struct{ Rules *Ruleset }

var _ judge.Judge = Judge{}

// Judge answers a window. It never fails.
func (j Judge) Judge(_ context.Context, in *judge.Input) (judge.Reply, error) {
	start := time.Now()
	offered := make([]engine.Route, len(in.Routes))
	for i := range in.Routes {
		offered[i] = in.Routes[i].Route
	}
	m := j.Rules.match(expr.OfInput(in), offered)
	name := engine.JudgeName{Name: "rules", Model: m.Answer.By}
	call := engine.Exchange{
		Judge: name.Name, Model: name.Model, Outcome: "answered",
		Message: m.Answer.Trouble, TookMs: time.Since(start).Milliseconds(),
	}
	return judge.Reply{Answer: m.Answer, Judge: name, Calls: []engine.Exchange{call}}, nil
}
