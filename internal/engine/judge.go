package engine

import (
	"fmt"
	"math"
)

// Stages at which a dead letter can be made.
const (
	StageJudge   = "judge"
	StageSink    = "sink"
	StageWebhook = "webhook"
)

// RuleJudge is the judge named "rule": a window that settled with flush
// interrupts, any other is queued.
func RuleJudge(w *Window) Answer {
	if w.Reason == ReasonFlush {
		return Answer{Route: Interrupt}
	}
	return Answer{Route: Queue}
}

// Offer lists the routes on offer, in the fixed order.
func Offer(mayWait bool) []Route {
	if mayWait {
		return Routes()
	}
	return Routes()[:routeCount-1]
}

// judgePure decides a window at an instant, without calls and without the slot.
func (s *State) judgePure(p Pending, judge PureJudge, policy *Policy, now Time) {
	set := policy.For(s.Scope)
	w := s.window(&p.Settled, p.Members, Offer(p.Settled.MayWait && p.Settled.Waits < set.MaxWaits), set)
	w.Now, w.bodies = now, s.bodies
	a := judge(w)
	v, err := Decide(policy.judging.Override, set, w, a)
	if err != nil {
		p.Dead, p.At = err.Error(), now
		s.pend(p)
		return
	}
	v.At, v.Policy = now, policy.Number
	v.Judge = &JudgeName{Name: policy.Judge, Model: a.By}
	if a.Trouble != "" {
		v.Calls = append([]Exchange{{Judge: policy.Judge, Model: a.By, Outcome: "answered", Message: a.Trouble}}, v.Calls...)
	}
	if v.Route == Wait {
		v.HeldUntil = now + Time(set.WaitHorizonMs)
	}
	p.Verdict = v
	s.pend(p)
	s.conclude(&p.Settled, p.Members, v, set.RecentCount)
}

func (s *State) window(st *Settled, members Members, offered []Route, set *Settings) *Window {
	at := st.SettledAt
	if at == 0 { // closed by the fold: the judge answers at that instant
		at = st.Due
	}
	return &Window{
		ID: st.Window, Scope: s.Scope, Events: members, Reason: st.Reason, Trigger: st.Trigger,
		Waits: st.Waits, Dropped: st.Dropped, Gap: st.Gap, SettledAt: at, Offered: offered,
		Recent: s.Recent[max(0, len(s.Recent)-set.RecentCount):],
	}
}

// Decide turns an answer into a verdict: it normalises the numbers (design,
// section 5, 12) and applies, in this order, the override of the policy in
// force (nil for none), the act threshold and the floor. Only the route can fail it.
func Decide(override Override, set *Settings, w *Window, a Answer) (*Verdict, error) {
	if !offered(w.Offered, a.Route) {
		return nil, fmt.Errorf("the judge answered %q, which was not offered", a.Route)
	}
	probabilities, given := normalise(w.Offered, a)
	v := &Verdict{
		Window: w.ID, Route: a.Route, JudgedRoute: a.Route,
		Probabilities: &probabilities, Predicates: predicates(a.Predicates), Confidence: a.Confidence,
	}
	if c := a.Confidence; c != nil && !share(*c) {
		v.Confidence = nil
	}
	if override != nil {
		route, ok := override(w, v)
		if !ok || !offered(w.Offered, route) || route == v.Route {
			route, v.Override = v.Route, ""
		}
		v.change(route, ChangedByOverride)
	}
	if set.ActThreshold > 0 && given && v.Route != Wait {
		v.change(threshold(&probabilities, set.ActThreshold, v.Route, a.Route, w.Offered), ChangedByThreshold)
	}
	if v.Route != Wait {
		v.change(floor(set.Floor, w.Events, v.Route), ChangedByFloor)
	}
	return v, nil
}

func (v *Verdict) change(to Route, by Change) {
	if to != v.Route {
		v.Route = to
		v.Changed = append(v.Changed, by)
	}
}

func offered(routes []Route, r Route) bool {
	for _, o := range routes {
		if o == r {
			return true
		}
	}
	return false
}

// share reports whether a number is one from 0 to 1; NaN is not.
func share(x float64) bool { return x >= 0 && x <= 1 && !math.IsNaN(x) }

// normalise keeps the offered routes' numbers that are in [0, 1] and makes
// them sum to 1. Where they sum to 0 the chosen route gets 1, and given is
// false: the judge gave no usable probabilities.
func normalise(routes []Route, a Answer) (p Probabilities, given bool) {
	sum := 0.0
	for _, r := range routes {
		if x, ok := a.Probabilities[r]; ok && share(x) {
			p[r-1] = x
			sum += x
		}
	}
	if sum == 0 {
		p[a.Route-1] = 1
		return p, false
	}
	for i := range p {
		p[i] /= sum
	}
	return p, true
}

func predicates(given map[string]float64) map[string]float64 {
	if len(given) == 0 {
		return nil
	}
	kept := make(map[string]float64, len(given))
	for name, x := range given { //arch:sorted each entry is copied by itself
		if share(x) {
			kept[name] = x
		}
	}
	return kept
}

// threshold takes an act route exactly when act/(act+skip) reaches t, then the
// likeliest offered one (ties: the judged route, else the fixed order); else
// skip. With no weight on either the route stays.
func threshold(p *Probabilities, t float64, route, judged Route, routes []Route) Route {
	act := p.Of(Interrupt) + p.Of(Queue) + p.Of(Note) + p.Of(Ask)
	if act+p.Of(Skip) <= 0 {
		return route
	}
	const slack = 1e-9 // shares written in decimals reach a threshold that floats just miss
	if act/(act+p.Of(Skip)) < t-slack {
		return Skip
	}
	best := Route(0)
	for _, r := range routes {
		if !r.Act() {
			continue
		}
		if best == 0 || p.Of(r) > p.Of(best) || p.Of(r) == p.Of(best) && r == judged {
			best = r
		}
	}
	return best
}

// floor raises a route to the highest floor of the kinds in the window.
func floor(f Floor, members Members, route Route) Route {
	least := Route(0)
	for i := range members {
		if r, ok := f[members[i].Kind]; ok && (least == 0 || r.rank() > least.rank()) {
			least = r
		}
	}
	if least != 0 && route.rank() < least.rank() {
		return least
	}
	return route
}
