package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/spf13/cobra"

	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/expr"
	"attend/internal/judge"
	"attend/internal/judge/rules"
	"attend/internal/replay"
)

// tried is what rules make of a file of events.
type tried struct {
	Events  int           `json:"events"`
	Windows []triedWindow `json:"windows"` // in the order of their verdicts
	Open    int           `json:"open"`    // windows that have not settled where a log export ends
	Rules   []triedRule   `json:"rules"`   // in the order of the judges and their files, each default last
	Never   []string      `json:"never"`   // rules that matched no window
	Asked   []triedAsked  `json:"asked"`   // judges that would be asked, and are not here
	Failed  []triedFault  `json:"failed"`  // conditions that failed, most often first
	Facts   bool          `json:"facts"`   // a rule or condition looks at facts, and here there are none
	several bool          // judges
}

// triedWindow is one window and what was decided.
type triedWindow struct {
	Window      string          `json:"window"`
	Scope       string          `json:"scope"`
	At          engine.Time     `json:"at"`
	Reason      engine.Reason   `json:"reason"`
	Trigger     engine.Trigger  `json:"trigger"`
	Waits       int             `json:"waits"`
	Events      []triedEvent    `json:"events"`
	Judge       string          `json:"judge"`  // that decided, or would be asked; "" where a silence decided, and where no judge's condition holds
	Rule        string          `json:"rule"`   // "" where none decided
	Asks        bool            `json:"asks"`   // what the judge would say is not known: there is no route
	Nobody      bool            `json:"nobody"` // no judge's condition holds: a dead letter
	Route       engine.Route    `json:"route,omitempty"`
	JudgedRoute engine.Route    `json:"judgedRoute,omitempty"`
	Changed     []engine.Change `json:"changed"`
	Override    string          `json:"override,omitempty"`
	Failed      []string        `json:"failed"` // conditions that failed on it
}

type triedEvent struct {
	Name string      `json:"name"`
	Kind engine.Kind `json:"kind"`
}

type triedRule struct {
	Judge   string `json:"judge"`
	Rule    string `json:"rule"`
	Matched int    `json:"matched"`
	Failed  int    `json:"failed"`
}

type triedAsked struct {
	Judge   string           `json:"judge"`
	Type    config.JudgeType `json:"type"`
	Windows int              `json:"windows"`
}

type triedFault struct {
	Judge   string `json:"judge"`
	Rule    string `json:"rule"` // "" for the condition of the judge
	Problem string `json:"problem"`
	Windows int    `json:"windows"`
}

// against tries the judges of a configuration on a file of events.
func against(cmd *cobra.Command, env []string, file string) (*tried, error) {
	cfg, err := config.Load(cmd.Flags(), env)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be used:\n%w", err)
	}
	t := &trial{matches: make(map[string]windowMatch), settled: make(map[string]*engine.Settled)}
	if err := t.seat(cfg); err != nil {
		return nil, err
	}
	source, in, done, err := openEvents(file, cmd.InOrStdin())
	if err != nil {
		return nil, err
	}
	defer done()
	policy := labelled(cfg)
	sum, err := t.run(source, in, &policy)
	if err != nil {
		return nil, err
	}
	noteTimes(cmd.ErrOrStderr(), source, sum)
	return t.conclude(), nil
}

// trial goes through the events.
type trial struct {
	entries []triedEntry
	judge   judge.Judge                // of the entries, as the daemon composes them
	matches map[string]windowMatch     // by window, until its verdict
	settled map[string]*engine.Settled // in the same way
	past    bool                       // the end of the log: what settles now is open there
	out     tried

	window *engine.Window // that is judged
	match  windowMatch    // what is said of it
}

// triedEntry is a judge: rules, or one of which the name alone is known.
type triedEntry struct {
	config.Judge
	set *rules.Ruleset // nil for what is no rules
}

type windowMatch struct {
	judge    *triedEntry // nil for none
	rule     string
	failures []triedFault
	events   engine.Members
}

// seat puts the configured judges in their order, none of which asks anybody.
func (t *trial) seat(cfg *config.Config) error {
	t.entries = make([]triedEntry, len(cfg.Judges.Entries))
	t.out.several = len(t.entries) > 1
	var all judge.Composition
	found := false
	for i := range cfg.Judges.Entries {
		e := &t.entries[i]
		e.Judge = cfg.Judges.Entries[i]
		if e.Type == config.JudgeRules {
			var mistakes rules.Mistakes
			if e.set, mistakes = rules.Load(e.Rules); len(mistakes) > 0 {
				return fmt.Errorf("rules: %w", mistakes)
			}
			found = true
			t.out.Facts = t.out.Facts || e.set.Facts()
		}
		entry, err := t.entry(e)
		if err != nil {
			return err
		}
		all = append(all, entry)
	}
	if !found {
		return errors.New("--against tries rules, and no judge is made of them: name their file with --rules")
	}
	var err error
	t.judge, err = judge.Compose(all)
	return err
}

// entry is a judge's place among the others. What one that asks somebody would
// say is not known, so that nobody is asked after it.
func (t *trial) entry(e *triedEntry) (judge.Entry, error) {
	out := judge.Entry{Name: e.Name, Below: e.Below, OnErrorNext: e.OnNext, Judge: judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
		return t.ask(e), nil
	})}
	if e.When == "" {
		return out, nil
	}
	when, err := expr.Compile(expr.Window, e.When)
	if err != nil {
		return out, fmt.Errorf("when: %w", err)
	}
	t.out.Facts = t.out.Facts || when.Uses("facts")
	out.When = func(in *judge.Input) (bool, error) {
		holds, err := when.Met(expr.OfInput(in))
		if err != nil {
			t.match.failures = append(t.match.failures, triedFault{Judge: e.Name, Problem: expr.Quoted(err)})
		}
		return holds, err
	}
	return out, nil
}

func (e *triedEntry) asksNobody() bool {
	return e.Type == config.JudgeRules || e.Type == config.JudgeRule
}

// ask notes who decides. In the place of an answer that is not known stands
// that of the judge rule.
func (t *trial) ask(e *triedEntry) judge.Reply {
	t.match.judge, t.match.rule = e, ""
	if e.set == nil {
		a, sure := engine.RuleJudge(t.window), 1.0
		a.Confidence = &sure // nobody is asked after it
		return judge.Reply{Answer: a}
	}
	m := e.set.Match(t.window)
	t.match.rule = m.Rule
	for _, f := range m.Failures {
		t.match.failures = append(t.match.failures, triedFault{Judge: e.Name, Rule: f.Rule, Problem: f.Quoted})
	}
	return judge.Reply{Answer: m.Answer}
}

// compile makes the judges those of the fold, and notes what they say.
func (t *trial) compile(p *engine.Policy) (engine.Compiled, error) {
	c, err := rules.Compile(p)
	c.Bodies = true
	c.Judge = func(w *engine.Window) engine.Answer {
		t.window, t.match = w, windowMatch{events: w.Events}
		reply, err := t.judge.Judge(context.Background(), inputOf(w, p.For(w.Scope)))
		t.matches[w.ID] = t.match
		if err != nil { // no condition holds
			return engine.RuleJudge(w)
		}
		return reply.Answer
	}
	return c, err
}

func (t *trial) run(source string, in io.Reader, policy *engine.Policy) (replay.Summary, error) {
	world := replay.New(replay.Options{Compile: t.compile, Emit: t.emit})
	started := false
	reader := replay.Reader{Fresh: true}
	sum, err := reader.Read(source, in, func(in replay.Input) error {
		if !started {
			started = true
			if err := world.Take(in.At, replay.Input{Step: &engine.Step{Kind: engine.StepPolicy, Policy: policy}}); err != nil {
				return err
			}
		}
		return world.Take(in.At, in)
	})
	if err != nil {
		return sum, err
	}
	if sum.Exported {
		world.Run(sum.Last)
		t.past = true
	}
	world.Drain(math.MaxInt64)
	return sum, nil
}

// emit sees every record of the replay.
func (t *trial) emit(rec *engine.Record, out *engine.Outcome) {
	switch {
	case rec.Event != nil:
		if !out.Duplicate {
			t.out.Events++
		}
	case rec.Step.Settled != nil:
		t.settled[rec.Step.Window] = rec.Step.Settled
	case rec.Step.Verdict != nil && t.past:
		t.out.Open++
	case rec.Step.Verdict != nil:
		t.verdict(rec)
		delete(t.settled, rec.Step.Window)
		delete(t.matches, rec.Step.Window)
	}
}

func (t *trial) verdict(rec *engine.Record) {
	v, st := rec.Step.Verdict, t.settled[rec.Step.Window]
	if st == nil {
		return
	}
	m, judged := t.matches[rec.Step.Window]
	w := triedWindow{
		Window: rec.Step.Window, Scope: rec.Scope, At: rec.Stamp, Reason: st.Reason, Trigger: st.Trigger, Waits: st.Waits,
		Rule: m.rule, Changed: []engine.Change{}, Events: make([]triedEvent, len(m.events)), Failed: []string{},
	}
	for i := range m.events {
		w.Events[i] = triedEvent{m.events[i].Name, m.events[i].Kind}
	}
	if m.judge != nil {
		w.Judge, w.Asks = m.judge.Name, !m.judge.asksNobody()
	}
	if w.Nobody = judged && m.judge == nil; !w.Nobody && !w.Asks {
		w.Route, w.JudgedRoute, w.Override, w.Changed = v.Route, v.JudgedRoute, v.Override, append(w.Changed, v.Changed...)
	}
	for _, f := range m.failures {
		w.Failed = append(w.Failed, t.out.label(f.Judge, f.Rule)+": "+f.Problem)
		i := slices.IndexFunc(t.out.Failed, func(o triedFault) bool {
			return o.Judge == f.Judge && o.Rule == f.Rule && o.Problem == f.Problem
		})
		if i < 0 {
			i = len(t.out.Failed)
			t.out.Failed = append(t.out.Failed, f)
		}
		t.out.Failed[i].Windows++
	}
	t.out.Windows = append(t.out.Windows, w)
}

// label names a rule, with its judge where there are several.
func (t *tried) label(name, rule string) string {
	switch {
	case rule == "":
		return "when of " + name
	case !t.several:
		return rule
	default:
		return name + ": " + rule
	}
}

func (t *trial) conclude() *tried {
	out := &t.out
	out.Windows = append([]triedWindow{}, out.Windows...)
	out.Never, out.Asked = []string{}, []triedAsked{}
	for i := range t.entries {
		e := &t.entries[i]
		if e.set != nil {
			t.count(e)
			continue
		}
		asked := triedAsked{Judge: e.Name, Type: e.Type}
		for i := range out.Windows {
			if out.Windows[i].Judge == e.Name {
				asked.Windows++
			}
		}
		out.Asked = append(out.Asked, asked)
	}
	out.Failed = append([]triedFault{}, out.Failed...)
	slices.SortStableFunc(out.Failed, func(a, b triedFault) int { return cmp.Compare(b.Windows, a.Windows) })
	return out
}

// count tells how often each rule of a judge matched, and failed.
func (t *trial) count(e *triedEntry) {
	out := &t.out
	for _, rule := range e.set.Labels() {
		r := triedRule{Judge: e.Name, Rule: rule}
		for i := range out.Windows {
			if w := &out.Windows[i]; w.Judge == e.Name && w.Rule == rule {
				r.Matched++
			}
		}
		for _, f := range out.Failed {
			if f.Judge == e.Name && f.Rule == rule {
				r.Failed += f.Windows
			}
		}
		out.Rules = append(out.Rules, r)
		if r.Matched == 0 && rule != rules.Default {
			out.Never = append(out.Never, out.label(e.Name, rule))
		}
	}
}
