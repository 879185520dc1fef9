package rules

import (
	"cmp"
	"errors"
	"fmt"

	"attend/internal/engine"
	"attend/internal/expr"
)

// Compile makes what a policy says of judging into functions: the judge "rule",
// rules whose text stands in the policy, and the overrides. It is an
// [engine.Compile]. Rules that are not pure, and every other judge, are asked
// by the runner.
func Compile(p *engine.Policy) (engine.Compiled, error) {
	var c engine.Compiled
	switch {
	case p.Rules != "":
		s, mistakes := Load(p.Rules)
		if len(mistakes) > 0 {
			return c, fmt.Errorf("rules: %w", mistakes)
		}
		if s.Pure() {
			c.Judge, c.Bodies = s.Judge, s.Bodies()
		}
	case p.Judge == "rule":
		c.Judge = engine.RuleJudge
	}
	override, bodies, err := overrides(p.Overrides)
	if err != nil {
		return engine.Compiled{}, err
	}
	c.Override, c.Bodies = override, c.Bodies || bodies
	return c, nil
}

// overrides makes one function of override rules: the first whose condition is
// met, and whose route is on offer, counts. A condition that fails is not met;
// the verdict tells of it.
func overrides(list []engine.OverrideRule) (_ engine.Override, bodies bool, _ error) {
	if len(list) == 0 {
		return nil, false, nil
	}
	env, err := expr.New(expr.Verdict)
	if err != nil {
		return nil, false, err
	}
	programs := make([]*expr.Program, len(list))
	for i, o := range list {
		if programs[i], err = compileOverride(env, o); err != nil {
			return nil, false, fmt.Errorf("override %d: %w", i+1, err)
		}
		bodies = bodies || programs[i].Uses(expr.Bodies)
	}
	return func(w *engine.Window, v *engine.Verdict) (engine.Route, bool) {
		vars := expr.OfVerdict(w, v)
		for i, p := range programs {
			met, err := p.Met(vars)
			if err != nil {
				v.Calls = append(v.Calls, engine.Exchange{
					Judge: "override", Model: cmp.Or(list[i].Name, fmt.Sprintf("override %d", i+1)), Outcome: "error",
					Message: engine.Shorten(engine.EscapeLine(err.Error()), 1<<10),
				})
			}
			if met && offers(w, list[i].Then) {
				v.Override = list[i].Name
				return list[i].Then, true
			}
		}
		return 0, false
	}, bodies, nil
}

func offers(w *engine.Window, r engine.Route) bool {
	for _, o := range w.Offered {
		if o == r {
			return true
		}
	}
	return false
}

// compileOverride compiles one override. What a fold does must not depend on the
// machine, so that named time zones are refused.
func compileOverride(env *expr.Env, o engine.OverrideRule) (*expr.Program, error) {
	p, err := env.Compile(o.When)
	if err != nil {
		return nil, err
	}
	if p.Uses(expr.Zone) {
		return nil, errors.New("names a time zone, whose meaning depends on the machine: write its distance from UTC, as \"+02:00\"")
	}
	if o.Then == 0 {
		return nil, errors.New("then: a route is missing")
	}
	return p, nil
}

// CheckOverride reports what is wrong with the condition of an override, with
// lines and columns within it.
func CheckOverride(when string) Mistakes {
	env, err := expr.New(expr.Verdict)
	if err == nil {
		_, err = compileOverride(env, engine.OverrideRule{When: when, Then: engine.Queue})
	}
	return mistakesOf(err)
}

// mistakesOf takes an error of compiling apart.
func mistakesOf(err error) Mistakes {
	if err == nil {
		return nil
	}
	var e *expr.Error
	if !errors.As(err, &e) {
		return Mistakes{{Line: 1, Column: 1, Problem: err.Error()}}
	}
	out := make(Mistakes, len(e.Mistakes))
	for i, m := range e.Mistakes {
		out[i] = Mistake{Line: m.Line, Column: m.Column, Problem: m.Problem}
	}
	return out
}
