package feed

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"attend/internal/engine"
)

// Kind is a kind of item in the feed.
type Kind string

// The kinds of item.
const (
	KindDecision   Kind = "decision"
	KindDeadLetter Kind = "deadLetter"
)

// ParseKind reads a kind's name; it is exact about case.
func ParseKind(s string) (Kind, error) {
	switch k := Kind(s); k {
	case KindDecision, KindDeadLetter:
		return k, nil
	default:
		return "", fmt.Errorf("unknown kind %q: want decision or deadLetter", s)
	}
}

// DefaultRoutes are the routes of a feed that an agent follows without naming
// any: all but skip, which has to be asked for, and wait, which is no outcome.
func DefaultRoutes() []engine.Route {
	return []engine.Route{engine.Interrupt, engine.Queue, engine.Note, engine.Ask}
}

// Filter selects items. The zero Filter selects every decision whatever its
// route (a window that is held has no decision, so wait never comes).
type Filter struct {
	// Scopes are globs as for kinds; an item matches when one of them does.
	// Empty selects every scope.
	Scopes []string
	// Routes of decisions; empty selects every route. Dead letters have none.
	Routes []engine.Route
	// Kinds of item; empty selects decisions alone.
	Kinds []Kind
	// Stages of dead letters; empty selects every stage.
	Stages []string
	// MinConfidence, in [0, 1], leaves out decisions whose confidence is lower
	// or unknown, but never one that the floor raised: that has to arrive
	// whatever a model was talked into.
	MinConfidence *float64
	// Visible, unless nil, tells which scopes the reader may see.
	Visible func(scope string) bool `json:"-"`
}

// Check reports what in the filter can never be meant.
func (f *Filter) Check() error {
	for _, glob := range f.Scopes {
		if glob == "" || len(glob) > 512 {
			return fmt.Errorf("scope pattern of %d bytes: want 1 to 512", len(glob))
		}
	}
	if slices.Contains(f.Routes, engine.Wait) {
		return errors.New("route wait: a held window has no decision yet; want interrupt, queue, note, ask or skip")
	}
	if c := f.MinConfidence; c != nil && !(*c >= 0 && *c <= 1) {
		return fmt.Errorf("minConfidence is %v: must be in [0, 1]", *c)
	}
	return nil
}

// Match reports whether the filter selects the item.
func (f *Filter) Match(it *Item) bool {
	if !f.matchScope(it.Scope) {
		return false
	}
	if it.DeadLetter != nil {
		return slices.Contains(f.Kinds, KindDeadLetter) && (len(f.Stages) == 0 || slices.Contains(f.Stages, it.DeadLetter.Stage))
	}
	return f.matchDecision(it.Decision)
}

func (f *Filter) matchScope(scope string) bool {
	if f.Visible != nil && !f.Visible(scope) {
		return false
	}
	if len(f.Scopes) == 0 {
		return true
	}
	return slices.ContainsFunc(f.Scopes, func(glob string) bool { return engine.Glob(glob, scope) })
}

func (f *Filter) matchDecision(d *engine.Decision) bool {
	if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, KindDecision) {
		return false
	}
	if d.Route == engine.Wait || len(f.Routes) > 0 && !slices.Contains(f.Routes, d.Route) {
		return false
	}
	if f.MinConfidence == nil || slices.Contains(d.Changed, engine.ChangedByFloor) {
		return true
	}
	return d.Confidence != nil && *d.Confidence >= *f.MinConfidence
}

// stepKinds are the kinds of step to read for the filter.
func (f *Filter) stepKinds() []engine.StepKind {
	if len(f.Kinds) == 0 {
		return []engine.StepKind{engine.StepDecision}
	}
	var kinds []engine.StepKind
	if slices.Contains(f.Kinds, KindDecision) {
		kinds = append(kinds, engine.StepDecision)
	}
	if slices.Contains(f.Kinds, KindDeadLetter) {
		kinds = append(kinds, engine.StepDeadLetter)
	}
	return kinds
}

// scope is the one scope that the filter selects, "" if there may be several.
func (f *Filter) scope() string {
	if len(f.Scopes) == 1 && !strings.ContainsAny(f.Scopes[0], `*?\`) {
		return f.Scopes[0]
	}
	return ""
}
