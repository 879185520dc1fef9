package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/judge/rules"
	"attend/internal/replay"
)

// tried is what rules make of a file of events.
type tried struct {
	Events  int           `json:"events"`
	Windows []triedWindow `json:"windows"` // in the order of their verdicts
	Rules   []triedRule   `json:"rules"`   // in the order of the file, the default last
	Never   []string      `json:"never"`   // rules that matched no window
	Failed  []triedFault  `json:"failed"`  // conditions that failed, most often first
	Facts   bool          `json:"facts"`   // a rule looks at facts, and here there are none
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
	Rule        string          `json:"rule"` // "" where a silence decided
	Route       engine.Route    `json:"route"`
	JudgedRoute engine.Route    `json:"judgedRoute"`
	Changed     []engine.Change `json:"changed"`
	Failed      []string        `json:"failed"` // conditions that failed on it
}

type triedEvent struct {
	Name string      `json:"name"`
	Kind engine.Kind `json:"kind"`
}

type triedRule struct {
	Rule    string `json:"rule"`
	Matched int    `json:"matched"`
	Failed  int    `json:"failed"`
}

type triedFault struct {
	Rule    string `json:"rule"`
	Problem string `json:"problem"`
	Windows int    `json:"windows"`
}

// against tries the rules of a configuration on a file of events.
func against(flags *pflag.FlagSet, env []string, file string, stdin io.Reader) (*tried, error) {
	cfg, err := config.Load(flags, env)
	if err != nil {
		return nil, fmt.Errorf("the configuration cannot be used:\n%w", err)
	}
	i := slices.IndexFunc(cfg.Judges.Entries, func(j config.Judge) bool { return j.Type == config.JudgeRules })
	if i < 0 {
		return nil, errors.New("--against tries rules, and no judge is made of them: name their file with --rules")
	}
	set, mistakes := rules.Load(cfg.Judges.Entries[i].Rules)
	if len(mistakes) > 0 {
		return nil, fmt.Errorf("rules: %w", mistakes)
	}
	source, in, done, err := openEvents(file, stdin)
	if err != nil {
		return nil, err
	}
	defer done()
	policy := cfg.Policy()
	policy.Number = 1
	t := &trial{set: set, matches: make(map[string]windowMatch), settled: make(map[string]*engine.Settled)}
	if err := t.run(source, in, &policy); err != nil {
		return nil, err
	}
	return t.conclude(), nil
}

// trial goes through the events.
type trial struct {
	set     *rules.Ruleset
	matches map[string]windowMatch     // by window, until its verdict
	settled map[string]*engine.Settled // in the same way
	out     tried
}

type windowMatch struct {
	rules.Match
	events engine.Members
}

// compile makes the rules the judge of the fold, facts or not, and notes what
// they match.
func (t *trial) compile(p *engine.Policy) (engine.Compiled, error) {
	c, err := rules.Compile(p)
	c.Bodies = c.Bodies || t.set.Bodies()
	c.Judge = func(w *engine.Window) engine.Answer {
		m := t.set.Match(w)
		t.matches[w.ID] = windowMatch{m, w.Events}
		return m.Answer
	}
	return c, err
}

func (t *trial) run(source string, in io.Reader, policy *engine.Policy) error {
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
		return err
	}
	if sum.Exported {
		world.Run(sum.Last)
	} else {
		world.Drain(math.MaxInt64)
	}
	return nil
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
	case rec.Step.Verdict != nil:
		t.window(rec)
		delete(t.settled, rec.Step.Window)
		delete(t.matches, rec.Step.Window)
	}
}

func (t *trial) window(rec *engine.Record) {
	v, st := rec.Step.Verdict, t.settled[rec.Step.Window]
	if st == nil {
		return
	}
	m := t.matches[rec.Step.Window]
	w := triedWindow{
		Window: rec.Step.Window, Scope: rec.Scope, At: rec.Stamp, Reason: st.Reason, Trigger: st.Trigger, Waits: st.Waits,
		Rule: m.Rule, Route: v.Route, JudgedRoute: v.JudgedRoute, Changed: append([]engine.Change{}, v.Changed...),
		Events: make([]triedEvent, len(m.events)), Failed: []string{},
	}
	for i := range m.events {
		w.Events[i] = triedEvent{m.events[i].Name, m.events[i].Kind}
	}
	for _, f := range m.Failures {
		w.Failed = append(w.Failed, f.Rule+": "+f.Problem)
		i := slices.IndexFunc(t.out.Failed, func(o triedFault) bool { return o.Rule == f.Rule && o.Problem == f.Problem })
		if i < 0 {
			i = len(t.out.Failed)
			t.out.Failed = append(t.out.Failed, triedFault{Rule: f.Rule, Problem: f.Problem})
		}
		t.out.Failed[i].Windows++
	}
	t.out.Windows = append(t.out.Windows, w)
}

func (t *trial) conclude() *tried {
	out := &t.out
	out.Facts = t.set.Facts()
	out.Windows = append([]triedWindow{}, out.Windows...)
	out.Never = []string{}
	for _, label := range t.set.Labels() {
		r := triedRule{Rule: label}
		for i := range out.Windows {
			if out.Windows[i].Rule == label {
				r.Matched++
			}
		}
		for _, f := range out.Failed {
			if f.Rule == label {
				r.Failed += f.Windows
			}
		}
		out.Rules = append(out.Rules, r)
		if r.Matched == 0 && label != rules.Default {
			out.Never = append(out.Never, label)
		}
	}
	out.Failed = append([]triedFault{}, out.Failed...)
	slices.SortStableFunc(out.Failed, func(a, b triedFault) int { return cmp.Compare(b.Windows, a.Windows) })
	return out
}

// writeTried prints what the rules made of the events, and then what is to say
// of the configuration.
func writeTried(w io.Writer, output outputFlag, t *tried, r *config.Report) error {
	if output == outputJSON {
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(struct {
			*tried
			Warnings []config.Warning `json:"warnings"`
			Mistakes config.Mistakes  `json:"mistakes"`
		}{t, r.Warnings, r.Mistakes}); err != nil {
			return fmt.Errorf("encode report: %w", err)
		}
		_, err := io.WriteString(w, visibleReport(b.String()))
		return err
	}
	var b strings.Builder
	for i := range t.Windows {
		describeTried(&b, &t.Windows[i])
	}
	fmt.Fprintf(&b, "\n%s in %s\n\n", count(t.Events, "event"), count(len(t.Windows), "window"))
	b.WriteString(table("RULE\tMATCHED\tFAILED", t.Rules, func(r triedRule) string {
		return fmt.Sprintf("%s\t%d\t%d", visible(r.Rule), r.Matched, r.Failed)
	}))
	if len(t.Never) > 0 {
		fmt.Fprintf(&b, "\nnever matched: %s\n", visible(strings.Join(t.Never, ", ")))
	}
	for _, f := range t.Failed {
		fmt.Fprintf(&b, "failed on %s: %s: %s\n", count(f.Windows, "window"), visible(f.Rule), visible(f.Problem))
	}
	if t.Facts {
		b.WriteString("facts are empty here: they are fetched by the daemon alone\n")
	}
	b.WriteString("\n" + verdict(r))
	_, err := io.WriteString(w, b.String())
	return err
}

// describeTried writes a window on a line, with its events below.
func describeTried(b *strings.Builder, w *triedWindow) {
	fmt.Fprintf(b, "%s  %s  %s, %s: ", replayClock(w.At), visible(w.Scope), w.Reason, count(len(w.Events), "event"))
	b.WriteString(w.Route.String())
	if w.Rule != "" {
		fmt.Fprintf(b, " by %s", visible(w.Rule))
	}
	if len(w.Changed) > 0 {
		changes := make([]string, len(w.Changed))
		for i, c := range w.Changed {
			changes[i] = string(c)
		}
		if w.JudgedRoute != 0 {
			fmt.Fprintf(b, ", judged %s", w.JudgedRoute)
		}
		fmt.Fprintf(b, ", changed by %s", strings.Join(changes, ", "))
	}
	b.WriteByte('\n')
	if len(w.Events) > 0 {
		fmt.Fprintf(b, "          %s\n", visible(namesOf(w.Events)))
	}
	for _, f := range w.Failed {
		fmt.Fprintf(b, "          failed: %s\n", visible(f))
	}
}

// namesOf lists names in order; the same name in a row is counted.
func namesOf(events []triedEvent) string {
	var parts []string
	for i := 0; i < len(events); {
		n := 1
		for i+n < len(events) && events[i+n].Name == events[i].Name {
			n++
		}
		part := events[i].Name
		if n > 1 {
			part += fmt.Sprintf(" ×%d", n)
		}
		parts = append(parts, part)
		i += n
	}
	return strings.Join(parts, ", ")
}
