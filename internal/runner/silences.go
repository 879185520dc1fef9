package runner

import (
	"math"

	"attend/internal/engine"
)

// empty is the view of a scope that holds nothing.
func (r *Runner) empty(name string) ScopeView {
	v := ScopeView{Scope: name, Policy: r.rules.Latest().Number, Silences: []SilenceView{}}
	for _, s := range r.rules.SilencesOf(name, engine.Time(r.now())) {
		shown := SilenceView{ID: s.ID, IncludeFlush: s.IncludeFlush, Since: s.Since, Who: s.Who, Why: s.Why}
		if s.Event != "" {
			shown.Event = &s.Event
		}
		if s.Until != math.MaxInt64 {
			shown.Until = &s.Until
		}
		v.Silences = append(v.Silences, shown)
	}
	return v
}

// activeSilences counts those that have not ended, for the gauge of them.
func (r *Runner) activeSilences() float64 {
	now := engine.Time(r.now())
	r.mu.RLock()
	defer r.mu.RUnlock()
	active := 0
	for _, s := range r.rules.Silences() {
		if now < s.Until {
			active++
		}
	}
	return float64(active)
}
