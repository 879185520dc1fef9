package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"attend/internal/engine"
)

// Plan is what a seed comes to: everything that is not decided by the run
// itself.
type Plan struct {
	Seed     uint64
	Policies []engine.Policy // as configured, one after the other; numbers are given by the log
	Ops      []Op            // by rising time

	Checkpoint struct { // of the runners
		Records  int
		Interval time.Duration
		Scopes   int
	}
	Rates Rates
	// MaxCalls is how many judge calls a runner makes at once; 0 is its default.
	MaxCalls int
	// Replicas share the store by leases; 0 is one daemon that owns all of it.
	Replicas int
	LeaseTTL time.Duration
	// Only are the faults that may happen, by name; nil for all that are drawn.
	Only map[string]bool
	// Dedup is set when an id is remembered for the whole run.
	Dedup bool
}

// Rates are how many of a thousand calls of the store fare so.
type Rates struct {
	Before, After, Slow, Crash int
}

// Verb is what happens.
type Verb string

// The verbs of a plan.
const (
	Send    Verb = "send"    // a producer sends events
	Flush   Verb = "flush"   // somebody calls flush on a scope
	Gap     Verb = "gap"     // a source reports lost events
	Requeue Verb = "requeue" // a dead letter is to be judged again
	Silence Verb = "silence" // a silence begins
	Speak   Verb = "unsilence"
	Reload  Verb = "reload"  // the next policy is configured
	Crash   Verb = "crash"   // kill -9
	Stop    Verb = "stop"    // SIGTERM
	Replace Verb = "replace" // another daemon starts while one still runs
	Jump    Verb = "jump"    // the wall clock is set, forward or back
)

// Op is one thing that happens.
type Op struct {
	At     time.Duration // since the world began
	Verb   Verb
	Scope  string
	Events []Sent
	By     time.Duration // of a jump; how long a silence lasts
	ID     string        // of a silence
	Nth    int           // of a requeue: which of the dead letters so far
}

// Sent is an event on its way.
type Sent struct {
	Scope, Name, ID, Text string
}

func (o *Op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%6d %s", o.At.Milliseconds(), o.Verb)
	if o.Scope != "" {
		fmt.Fprintf(&b, " %s", o.Scope)
	}
	for i := range o.Events {
		e := &o.Events[i]
		fmt.Fprintf(&b, " %s/%s/%s", e.Scope, e.Name, e.ID)
	}
	if o.ID != "" {
		fmt.Fprintf(&b, " %s", o.ID)
	}
	if o.By != 0 {
		fmt.Fprintf(&b, " %v", o.By)
	}
	return b.String()
}

// The judges of a world. The one named io is asked by the runner; the others
// are pure.
const (
	judgeIO    = "io"
	judgeReads = "reads"
)

// unread is the route of a window whose events could not be read. Nothing else
// leads to it where the judge is pure.
const unread = engine.Interrupt

// compile gives the fold its judges, and the overrides: each holds where an
// event says what it looks for.
func compile(p *engine.Policy) (engine.Compiled, error) {
	c := engine.Compiled{Judge: pureJudges()[p.Judge], Bodies: p.Judge == judgeReads || len(p.Overrides) > 0}
	if len(p.Overrides) > 0 {
		c.Override = func(w *engine.Window, _ *engine.Verdict) (engine.Route, bool) {
			for i := range w.Events {
				body := w.Body(i)
				if body == nil {
					return unread, true
				}
				if body.Text == p.Overrides[0].When {
					return p.Overrides[0].Then, true
				}
			}
			return 0, false
		}
	}
	return c, nil
}

// pureJudges are known to the fold by name.
func pureJudges() map[string]engine.PureJudge {
	return map[string]engine.PureJudge{
		"rule":  engine.RuleJudge,
		"notes": func(*engine.Window) engine.Answer { return engine.Answer{Route: engine.Note} },
		"fails": func(*engine.Window) engine.Answer { return engine.Answer{Route: 99} },
		judgeReads: func(w *engine.Window) engine.Answer {
			n := int(w.Now) + len(w.Recent)
			for i := range w.Events {
				body := w.Body(i)
				if body == nil {
					return engine.Answer{Route: unread}
				}
				n += len(body.ID) + len(body.Text)
			}
			routes := w.Offered[1:] // not unread
			return engine.Answer{Route: routes[n%len(routes)]}
		},
		"waits": func(w *engine.Window) engine.Answer {
			if slices.Contains(w.Offered, engine.Wait) {
				return engine.Answer{Route: engine.Wait}
			}
			return engine.Answer{Route: engine.Queue}
		},
	}
}

// scopeName names the scopes of a world.
func scopeName(i int) string { return fmt.Sprint("s", i) }

// maxScopes is how many scopes a world has at most.
const maxScopes = 5

// NewPlan draws the plan of a seed.
func NewPlan(seed uint64) *Plan {
	p := &Plan{Seed: seed}
	d := newDraws(seed, "plan")
	p.Dedup = d.chance(600)
	judge := func() string {
		return pick(d, judgeIO, judgeIO, judgeIO, "rule", "waits", "notes", "fails", judgeReads, judgeReads)
	}
	first, change := judge(), d.chance(200)
	for range pick(d, 1, 1, 2, 3) {
		policy := p.policy(d)
		if policy.Judge = first; change {
			policy.Judge = judge()
		}
		if d.chance(200) {
			policy.Overrides = []engine.OverrideRule{{When: aText(d), Then: pick(d, engine.Ask, engine.Note, engine.Wait)}}
		}
		p.Policies = append(p.Policies, policy)
	}
	p.Checkpoint.Records = pick(d, 5, 20, 100, 100_000)
	// Off the grid of whole milliseconds: see the package's words on time.
	p.Checkpoint.Interval = pick(d, 200*time.Millisecond, time.Second, 10*time.Second, time.Minute) + offGrid
	p.Checkpoint.Scopes = pick(d, 1, 2, 200)
	if !d.chance(200) { // else a calm one
		p.Rates = Rates{
			Before: pick(d, 0, 5, 30, 150), After: pick(d, 0, 5, 30, 150),
			Slow: pick(d, 0, 10, 50, 200), Crash: pick(d, 0, 0, 1, 5, 20),
		}
	}
	p.MaxCalls = pick(d, 0, 0, 1, 2)
	p.ops(d)
	if d.chance(400) {
		p.Replicas, p.LeaseTTL = pick(d, 2, 2, 3), pick(d, 3*time.Second, 300*time.Millisecond)
		// A pass writes each shard by itself.
		p.Checkpoint.Records = pick(d, 50, 100_000)
		p.Checkpoint.Interval = max(p.Checkpoint.Interval, 2*time.Second+offGrid)
	}
	return p
}

func (p *Plan) policy(d *draws) engine.Policy {
	s := engine.Defaults()
	s.ClosingGraceMs = pick(d, int64(2000), 0, 20, 300)
	s.StreamGapMs = pick(d, int64(1500), 0, 10, 200)
	s.PassiveQuietMs = pick(d, int64(5000), 0, 50, 700)
	s.MaxWindowMs = pick(d, int64(10000), 0, 60, 1000)
	s.MaxEvents = pick(d, 4, 1, 2, 200)
	s.MaxWindowBytes = pick(d, int64(4<<20), 60, 200)
	s.WaitHorizonMs = pick(d, int64(3000), 0, 100, 500)
	s.MaxWaits = pick(d, 3, 0, 1)
	s.JudgeTimeoutMs = pick(d, int64(2000), 10, 100)
	s.RetryBackoffMs = pick(d, []int64{100, 500}, []int64{}, []int64{0}, []int64{20, 5, 2000})
	s.RetryJitter = pick(d, 0, 0.2)
	s.RecentCount = pick(d, 8, 0, 2)
	if !p.Dedup {
		s.DedupMs = pick(d, int64(86400000), 0, 50, 2000)
		s.DedupIDs = pick(d, 65536, 0, 1, 3)
	}
	if d.chance(300) {
		s.Floor = nil
	}
	policy := engine.Policy{Kinds: make(map[string]engine.Kind), Default: s}
	for _, k := range engine.Kinds() {
		policy.Kinds[k.String()] = k
	}
	if d.chance(200) {
		policy.Kinds[engine.Passive.String()] = engine.Closing
	}
	for i := range maxScopes {
		own := s
		own.JudgeTimeoutMs += int64(i) // calls that start together do not end together
		policy.Scopes = append(policy.Scopes, engine.ScopeSettings{Scope: scopeName(i), Settings: own})
	}
	p.sinks(d, &policy)
	return policy
}

func (p *Plan) ops(d *draws) {
	scopes, at := 1+d.below(maxScopes), time.Duration(0)
	trouble := pick(d, 0, 100, 300) // of a thousand ops
	reloads, silences, events := len(p.Policies)-1, 0, 0
	for range 5 + d.below(50) {
		at += time.Duration(pick(d, 0, 1, 3, 20, 20, 100, 500, 2000)) * time.Millisecond
		op := Op{At: at, Verb: Send, Scope: scopeName(d.below(scopes))}
		switch n := d.below(1000); {
		case n < trouble:
			op.Verb = pick(d, Crash, Crash, Stop, Replace, Jump, Jump, Reload, Silence, Speak, Requeue, Requeue)
		case n > 900:
			op.Verb = pick(d, Flush, Flush, Flush, Gap)
		}
		switch op.Verb {
		case Send:
			op.Scope = ""
			for range pick(d, 1, 1, 1, 2, 4) {
				events++
				op.Events = append(op.Events, p.event(d, scopes, events))
			}
		case Reload:
			if reloads == 0 {
				continue
			}
			op.Scope = ""
			reloads--
		case Silence:
			silences++
			op.ID, op.By = fmt.Sprint("n", silences), time.Duration(pick(d, 0, 100, 3000))*time.Millisecond
		case Speak:
			op.ID = fmt.Sprint("n", 1+d.below(silences+1))
		case Jump:
			op.Scope = ""
			op.By = pick(d, -time.Hour, -2*time.Second, -5*time.Millisecond, 5*time.Millisecond, 2*time.Second, time.Minute)
		case Requeue:
			op.Nth = d.below(10)
		case Crash, Stop, Replace:
			op.Scope, op.Nth = "", d.below(4)
		case Flush, Gap:
		}
		p.Ops = append(p.Ops, op)
	}
}

func (p *Plan) event(d *draws, scopes, n int) Sent {
	kind := pick(d, engine.Consequence, engine.Closing, engine.Context, engine.Continuous, engine.Passive, engine.Flush, engine.Closing)
	e := Sent{Scope: scopeName(d.below(scopes)), Name: kind.String(), ID: fmt.Sprint("e", n)}
	if d.chance(150) {
		e.ID = fmt.Sprint("e", 1+d.below(n)) // one that was sent before, perhaps to this scope
	}
	e.Text = aText(d)
	return e
}

func aText(d *draws) string { return strings.Repeat("x", pick(d, 0, 0, 17, 40)) }
