package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/judge/rules"
	"attend/internal/replay"
)

// newReplay builds `attend replay`.
func newReplay(p *process) *cobra.Command {
	r := &replayed{output: outputText}
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Show what the rules make of a file of events, without a daemon",
		Long: `Fold a file of events on a virtual clock, with the engine of the daemon: a day
passes in seconds, and the same file gives the same decisions. FILE is NDJSON;
- reads the standard input. A line is one of

  an event, as ingest takes it; it arrives at its "seenAt" (Unix ms), else at
    its "at", else with the line before
  {"flush": SCOPE, "at": MS}, a flush call
  a record of attend log export: with the stamps, kinds and policies of the
    log, so that its windows and decisions come out again. --kinds or --config
    put other rules in their place: what would have happened?

Judges are not called. The judges "rule" and "rules" are functions, and answer;
rules that look at facts are not, for facts are fetched. For another judge,
--answers is a file of what it says, one line a call, in the order of the calls:

  {"scope": "chat:42", "afterMs": 800, "route": "queue",
   "probabilities": {"queue": 0.7, "skip": 0.3}, "confidence": 0.6}
  {"scope": "chat:42", "afterMs": 100, "error": "overloaded", "retryAfterMs": 5000}
  {"error": "no credit", "permanent": true}

A line without a scope answers any scope; when no line is left the rule answers.
An exported log is such a file too: its calls end as they did.

--output json writes the log that this makes, events and steps, as attend log
export does.`,
		Example: `  attend replay events.ndjson --kinds kinds.json
  attend log export | attend replay -
  attend log export > log.ndjson && attend replay log.ndjson --kinds new-kinds.json
  attend replay log.ndjson --answers log.ndjson --output json |
    jq -c 'select(.step.kind == "decision") | .step.decision'`,
		Args: takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.fresh = cmd.Flags().Changed("kinds") || cmd.Flags().Changed("config") || cmd.Flags().Changed("act-threshold")
			cfg, err := config.LoadToShow(cmd.Flags(), p.env)
			if err != nil {
				return fmt.Errorf("the configuration cannot be used:\n%w", err)
			}
			r.policy = cfg.Policy()
			r.policy.Number, r.policy.Sinks, r.policy.Letters = 1, nil, ""
			r.notes = cmd.ErrOrStderr()
			in, name := cmd.InOrStdin(), "standard input"
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return fmt.Errorf("events: %w", err)
				}
				defer f.Close()
				in, name = f, args[0]
			}
			out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			if err := r.run(name, in, out); err != nil {
				return err
			}
			return out.Flush()
		},
	}
	flags := cmd.Flags()
	config.ConfigFlag(flags)
	flags.String("kinds", "", "`kinds` of events: a JSON or YAML file, or inline JSON")
	flags.String("act-threshold", "", "the `share` of act over skip, in (0, 1], from which the agent is called")
	flags.StringVar(&r.answers, "answers", "", "what the judge answers, in this `file`: one line a call, or an exported log")
	flags.VarP(&r.output, "output", "o", "what to print: a readable history, or every record as JSON, one a line")
	return cmd
}

// replayed is one replay of a file.
type replayed struct {
	policy  engine.Policy // of the configuration
	fresh   bool          // it replaces the policies of an exported log
	answers string
	output  outputFlag
	notes   io.Writer // for people: what is not part of the history

	world    *replay.World
	counts   replayCounts
	unmapped []string // names that no kind matches
	err      error    // of printing
}

// replayCounts are what the last line of a text history tells.
type replayCounts struct {
	events, duplicates, shed, windows, waits, deadLetters int
	routes                                                map[engine.Route]int
}

func (r *replayed) run(name string, in io.Reader, out io.Writer) error {
	opt := replay.Options{Compile: rules.Compile, Emit: r.printer(out)}
	if r.answers != "" {
		script, err := readAnswers(r.answers)
		if err != nil {
			return err
		}
		opt.Script = script
		opt.Compile = func(p *engine.Policy) (engine.Compiled, error) {
			c, err := rules.Compile(p)
			c.Judge = nil // every window asks the script
			return c, err
		}
	}
	r.world = replay.New(opt)
	r.counts.routes = make(map[engine.Route]int)
	reader := replay.Reader{Fresh: r.fresh}
	sum, err := reader.Read(name, in, func(in replay.Input) error { return r.take(in) })
	if err != nil {
		return err
	}
	// A log ends where it was exported; what is open then is open still. A file
	// of events has nothing more to come.
	if sum.Exported {
		r.world.Run(sum.Last)
	} else {
		r.world.Drain(math.MaxInt64)
	}
	if r.err != nil {
		return fmt.Errorf("write: %w", r.err)
	}
	if r.output == outputText {
		r.conclude(out)
	}
	return nil
}

// take brings one input in. The configuration's policy comes first, unless the
// log brings its own.
func (r *replayed) take(in replay.Input) error {
	recorded := in.Step != nil && in.Step.Policy != nil
	if recorded { // what was delivered to whom is no part of what the rules make of events
		step, policy := *in.Step, *in.Step.Policy
		policy.Sinks, policy.Letters = nil, ""
		step.Policy, in.Step = &policy, &step
	}
	if r.world.Head() == 0 && !recorded {
		if err := r.world.Take(in.At, replay.Input{Step: &engine.Step{Kind: engine.StepPolicy, Policy: &r.policy}}); err != nil {
			return err
		}
	}
	if e := in.Event; e != nil && e.Kind == 0 {
		if _, pattern := r.world.Rules().Latest().KindOf(e.Name); pattern == "" && !slices.Contains(r.unmapped, e.Name) {
			r.unmapped = append(r.unmapped, e.Name)
		}
	}
	if err := r.world.Take(in.At, in); err != nil {
		return err
	}
	if recorded && r.answers == "" && r.world.Rules().Latest().PureJudge() == nil {
		fmt.Fprintf(r.notes, "attend: the judge %q is not called: the rule answers in its place; --answers with the log plays what it said\n",
			visible(in.Step.Policy.Judge))
	}
	return r.err
}

func readAnswers(file string) (*replay.Script, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("answers: %w", err)
	}
	defer f.Close()
	script, err := replay.ReadScript(file, f)
	if err != nil {
		return nil, fmt.Errorf("answers: %w", err)
	}
	return script, nil
}

// printer writes each record as it is made.
func (r *replayed) printer(out io.Writer) func(*engine.Record, *engine.Outcome) {
	if r.output == outputJSON {
		var line bytes.Buffer
		enc := json.NewEncoder(&line)
		enc.SetEscapeHTML(false)
		return func(rec *engine.Record, _ *engine.Outcome) {
			if r.err != nil {
				return
			}
			line.Reset()
			if r.err = enc.Encode(exported(rec)); r.err != nil {
				return
			}
			_, r.err = io.WriteString(out, visibleJSON(strings.TrimSuffix(line.String(), "\n"))+"\n")
		}
	}
	history := &replay.History{Out: out, Clock: replayClock}
	return func(rec *engine.Record, o *engine.Outcome) {
		r.count(rec, o)
		if rec.Step != nil && rec.Step.Kind == engine.StepShed {
			return // the windows tell what was dropped, and the last line how much
		}
		history.Record(rec, o)
		r.err = history.Err()
	}
}

func replayClock(t engine.Time) string {
	return time.UnixMilli(int64(t)).UTC().Format("2006-01-02T15:04:05.000Z")
}

func (r *replayed) count(rec *engine.Record, o *engine.Outcome) {
	c := &r.counts
	c.shed += o.Overflow.Count + o.Age.Count
	switch {
	case o.Duplicate:
		c.duplicates++
	case rec.Event != nil:
		c.events++
	case rec.Step.Kind == engine.StepSettled:
		c.windows++
	case rec.Step.Kind == engine.StepWait:
		c.waits++
	case rec.Step.Kind == engine.StepDecision:
		c.routes[rec.Step.Route]++
	case rec.Step.Kind == engine.StepDeadLetter:
		c.deadLetters++
	}
}

// conclude writes the last lines: how much came, and what became of it.
func (r *replayed) conclude(out io.Writer) {
	c := &r.counts
	open := 0
	for _, scope := range r.world.Scopes() {
		open += len(r.world.State(scope).Open.Events)
	}
	fmt.Fprintf(out, "%s in %s", count(c.events, "event"), count(len(r.world.Scopes()), "scope"))
	for _, part := range []struct {
		n    int
		what string
	}{{c.duplicates, "duplicate"}, {c.shed, "dropped"}, {open, "still open"}} {
		if part.n > 0 {
			fmt.Fprintf(out, ", %d %s", part.n, part.what)
		}
	}
	fmt.Fprintf(out, "; settled %s", count(c.windows, "time"))
	for _, route := range engine.Routes() {
		if n := c.routes[route]; n > 0 {
			fmt.Fprintf(out, ", %d %s", n, route)
		}
	}
	for _, part := range []struct {
		n    int
		what string
	}{{c.waits, "wait"}, {c.deadLetters, "dead letter"}} {
		if part.n > 0 {
			fmt.Fprintf(out, ", %s", count(part.n, part.what))
		}
	}
	fmt.Fprintln(out)
	if len(r.unmapped) > 0 {
		slices.Sort(r.unmapped)
		const shown = 20
		names := visible(strings.Join(r.unmapped[:min(shown, len(r.unmapped))], ", "))
		if more := len(r.unmapped) - shown; more > 0 {
			names += fmt.Sprintf(" and %d more", more)
		}
		fmt.Fprintf(r.notes, "attend: no kind matches %s: consequences, which wake nobody\n", names)
	}
}
