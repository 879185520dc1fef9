package engine

import (
	"fmt"
	"slices"
)

// Rules are what belongs to every scope: the numbered policies, with what they
// compile to, and the silences. Look-ups are by time or number, so the order
// in which scopes are folded does not matter.
type Rules struct {
	policies []stamped[*Policy] // by rising number
	silences []Silence          // by id order of arrival
	compile  Compile
	fallback Policy
	bodies   bool     // a policy known looks at what events say
	position Position // of the last record taken
}

type stamped[T any] struct {
	at    Time
	value T
}

// Compile turns what a policy says of judging into something that runs. It must
// be a pure function of the policy. An error is of a policy that this binary
// does not understand.
type Compile func(p *Policy) (Compiled, error)

// Compiled is a policy's judging as functions.
type Compiled struct {
	Judge    PureJudge // nil: the policy's judge does IO, or is not known
	Override Override  // nil: nothing overrides what a judge says
	Bodies   bool      // either looks at the text or data of events
}

// PureJudge is a judge without IO. It must answer from w.Offered and depend on
// w alone. The fold asks it at the instant of the close.
type PureJudge func(w *Window) Answer

// Override may replace a route that a judge gave; ok is false to let it stand.
// It must be a pure function. A route that was not offered is ignored. It may
// write on the verdict its name (Override), and what of it failed (Calls).
type Override func(w *Window, v *Verdict) (route Route, ok bool)

// Window is what a judge is asked about.
type Window struct {
	ID        string
	Scope     string
	Events    Members
	Reason    Reason
	Trigger   Trigger
	Waits     int
	Dropped   int
	Gap       bool
	SettledAt Time
	Offered   []Route
	Recent    []Recent // the scope's last verdicts, oldest first
	Now       Time     // when it is judged: for a pure judge the instant of the close

	bodies map[Position]*Event
}

// Body is what the event at a place of Events says; nil where that is not
// known. The caller must not change it.
func (w *Window) Body(i int) *Event { return w.bodies[w.Events[i].Position] }

// NewRules returns rules with no policy yet. With a nil compile no judge is
// pure and nothing overrides one.
func NewRules(compile Compile) *Rules {
	r := &Rules{compile: compile, fallback: Policy{Default: Defaults()}}
	_ = r.prepare(&r.fallback) // the defaults are in range, and name no judge
	return r
}

// prepare makes a policy ready for look-ups and for judging. One with an error
// is ready too, as far as it can be: its judge is then not known.
func (r *Rules) prepare(p *Policy) error {
	if err := p.Compile(); err != nil {
		return err
	}
	if r.compile == nil {
		return nil
	}
	judging, err := r.compile(p)
	if err != nil {
		return fmt.Errorf("judge %q: %w", p.Judge, err)
	}
	p.judging = judging
	r.bodies = r.bodies || judging.Bodies
	return nil
}

// Apply takes a record of every scope: a policy or a silence. Other records
// change nothing, nor does one that was taken already: an owner that starts
// reads all of them, and then the log behind its checkpoint.
//
// An error is a *PolicyError: the record stands in the log, so it is in force
// all the same, and its judge is as one that is not known.
func (r *Rules) Apply(rec Record) error {
	if rec.Step == nil || rec.Position > 0 && rec.Position <= r.position {
		return nil
	}
	switch {
	case rec.Step.Kind == StepPolicy && rec.Step.Policy != nil:
		if len(r.policies) > 0 && rec.Step.Policy.Number <= r.Latest().Number {
			break // two daemons wrote it at once: the first counts
		}
		p := new(*rec.Step.Policy) // the record may be shared
		p.judging = Compiled{}
		err := r.prepare(p)
		r.policies = append(r.policies, stamped[*Policy]{rec.Stamp, p})
		r.position = max(r.position, rec.Position)
		if err != nil {
			return &PolicyError{Number: p.Number, Err: err}
		}
	case rec.Step.Kind == StepSilence && rec.Step.Silence != nil:
		s := *rec.Step.Silence
		i := slices.IndexFunc(r.silences, func(o Silence) bool { return o.ID == s.ID })
		switch {
		case s.Ended && i >= 0:
			// What is due at the stamp comes before the record.
			r.silences[i].Until = min(r.silences[i].Until, rec.Stamp+1)
		case i < 0 && !s.Ended:
			s.Since = rec.Stamp
			r.silences = append(r.silences, s)
		}
	}
	r.position = max(r.position, rec.Position)
	return nil
}

// PolicyError tells that a policy in the log cannot be taken whole by this
// binary.
type PolicyError struct {
	Number uint32
	Err    error
}

func (e *PolicyError) Error() string { return fmt.Sprintf("policy %d: %v", e.Number, e.Err) }

func (e *PolicyError) Unwrap() error { return e.Err }

// Latest returns the newest policy; before any record, the defaults.
func (r *Rules) Latest() *Policy {
	if n := len(r.policies); n > 0 {
		return r.policies[n-1].value
	}
	return &r.fallback
}

// Policies returns every policy known, by rising number, with its stamp.
func (r *Rules) Policies() []Record {
	recs := make([]Record, len(r.policies))
	for i, p := range r.policies {
		recs[i] = Record{Stamp: p.at, Step: &Step{Kind: StepPolicy, Policy: p.value}}
	}
	return recs
}

// Silences returns every silence known.
func (r *Rules) Silences() []Silence { return slices.Clone(r.silences) }

// Silence returns one, as far as it is known.
func (r *Rules) Silence(id string) (Silence, bool) {
	i := slices.IndexFunc(r.silences, func(o Silence) bool { return o.ID == id })
	if i < 0 {
		return Silence{}, false
	}
	return r.silences[i], true
}

// SilencesOf returns those that may cover windows of a scope that close at an
// instant.
func (r *Rules) SilencesOf(scope string, at Time) []Silence {
	var found []Silence
	for i := range r.silences {
		if s := &r.silences[i]; s.Since < at && at < s.Until && Glob(s.Scope, scope) {
			found = append(found, *s)
		}
	}
	return found
}

// At returns the policy in force for what is due at an instant: the newest
// with a stamp before it, else the oldest. A record of the same instant comes
// after what is due, and who folds the log again knows it from the start.
func (r *Rules) At(t Time) *Policy {
	for i := len(r.policies) - 1; i >= 0; i-- {
		if r.policies[i].at < t || i == 0 {
			return r.policies[i].value
		}
	}
	return &r.fallback
}

// Numbered returns the policy of a number, or the nearest older one that is
// still known.
func (r *Rules) Numbered(n uint32) *Policy {
	for i := len(r.policies) - 1; i >= 0; i-- {
		if r.policies[i].value.Number <= n || i == 0 {
			return r.policies[i].value
		}
	}
	return &r.fallback
}

// silencedBy returns the silence that covers a window closing at due: it must
// hold an act or flush, and every one of them must match (design, section 5,
// 16).
func (r *Rules) silencedBy(scope string, members Members, due Time) (id string, ok bool) {
	for i := range r.silences {
		s := &r.silences[i]
		if due > s.Since && due < s.Until && s.covers(members) && Glob(s.Scope, scope) {
			return s.ID, true
		}
	}
	return "", false
}

func (s *Silence) covers(members Members) bool {
	acts := 0
	for i := range members {
		m := &members[i]
		if !m.Kind.Act() {
			continue
		}
		acts++
		if m.Kind == Flush && !s.IncludeFlush || s.Event != "" && !Glob(s.Event, m.Name) {
			return false
		}
	}
	return acts > 0
}
