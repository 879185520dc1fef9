package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"attend/internal/app"
	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
)

// newJudge builds `attend judge` and what is below it.
func newJudge(p *process) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "judge",
		Short: "Try a judge",
	}
	cmd.AddCommand(newJudgeTry(p))
	return cmd
}

// newJudgeTry builds `attend judge try`.
func newJudgeTry(p *process) *cobra.Command {
	t := &judgeTry{output: outputText, window: 1}
	cmd := &cobra.Command{
		Use:   "try FILE",
		Short: "Ask a judge about a window of a file of events, and show all that was said",
		Long: `Settle a file of events under the configured kinds, as attend replay does, and
ask the judge about one of the windows: the first, or the one that --window and
--scope name. What is shown is the request as it was sent (keys are hidden), the
answer as it came, what was read out of it, and what overrides, act threshold
and floor make of it. Nothing is stored, and no daemon is needed. FILE is NDJSON;
- reads the standard input.

The flags and the file are those of attend serve, so that a command line is tried
before it is used. Where several judges stand in order they are asked as the
daemon would; --only asks one of them. The context and capture hooks are asked
too; a Field is not, since there is none.

It ends with 1 when the judge did not answer.`,
		Example: `  attend judge try events.ndjson --kinds kinds.json --judge jev
  attend judge try events.ndjson --judge chat --judge-model qwen3 \
    --judge-url http://127.0.0.1:11434/v1 --window 3
  attend judge try events.ndjson --config attend.yaml --only cheap --dry-run
  attend judge try events.ndjson --config attend.yaml --output json | jq .decision`,
		Args: takes("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			load := config.Load
			if t.dry {
				load = config.LoadToShow
			}
			cfg, err := load(cmd.Flags(), p.env)
			if err != nil {
				return fmt.Errorf("the configuration cannot be used:\n%w", err)
			}
			if err := t.choose(cfg); err != nil {
				return err
			}
			source, in, done, err := openEvents(args[0], cmd.InOrStdin())
			if err != nil {
				return err
			}
			defer done()
			result, err := t.run(cmd, cfg, p.env, source, in)
			if err != nil {
				return err
			}
			if err := t.write(cmd.OutOrStdout(), result); err != nil {
				return err
			}
			if result.Error != "" {
				return errors.New("the judge did not answer")
			}
			return nil
		},
	}
	flags := cmd.Flags()
	config.Flags(flags)
	flags.Var(&t.window, "window", "which `window` of the file, counted from 1 as they settle")
	flags.StringVar(&t.scope, "scope", "", "count the windows of scopes that match this `pattern` alone")
	flags.StringVar(&t.only, "only", "", "ask the judge of this `name` alone, of several")
	flags.BoolVar(&t.dry, "dry-run", false, "show the request, and send nothing")
	flags.VarP(&t.output, "output", "o", "what to print")
	return cmd
}

// judgeTry is one try.
type judgeTry struct {
	window      ordinal
	scope, only string
	dry         bool
	output      outputFlag
}

// judgeTried is what came of it.
type judgeTried struct {
	Window    int               `json:"window"` // of the file
	Input     *judge.Input      `json:"input"`
	Exchanges []exchange        `json:"exchanges"` // in the order in which they began
	Hooks     []string          `json:"hooks"`     // how hooks failed
	Answer    *engine.Answer    `json:"answer"`    // null when the judge did not answer
	Judge     *engine.JudgeName `json:"judge"`
	Decision  *judgeTryDecision `json:"decision"`
	Calls     []engine.Exchange `json:"calls"` // as they would stand in the log
	TookMs    int64             `json:"tookMs"`
	Error     string            `json:"error,omitempty"`
	Class     judge.Class       `json:"class,omitempty"`
	DryRun    bool              `json:"dryRun"`
}

// judgeTryDecision is what would be decided.
type judgeTryDecision struct {
	Route         engine.Route             `json:"route"`
	JudgedRoute   engine.Route             `json:"judgedRoute"`
	Changed       []engine.Change          `json:"changed"`
	Override      string                   `json:"override,omitempty"` // which of them changed it
	Probabilities map[engine.Route]float64 `json:"probabilities"`
	Predicates    map[string]float64       `json:"predicates"`
	Confidence    *float64                 `json:"confidence"`
}

// choose leaves the judge that --only names.
func (t *judgeTry) choose(cfg *config.Config) error {
	if t.only == "" {
		return nil
	}
	i := slices.IndexFunc(cfg.Judges.Entries, func(j config.Judge) bool { return j.Name == t.only })
	if i < 0 {
		return fmt.Errorf("--only: there is no judge %s: there is %s", visible(t.only), cfg.Judges.String())
	}
	one := cfg.Judges.Entries[i]
	one.When, one.Below, one.OnNext = "", 0, false
	cfg.Judges.Entries = []config.Judge{one}
	return nil
}

func (t *judgeTry) run(cmd *cobra.Command, cfg *config.Config, env []string, source string, in io.Reader) (*judgeTried, error) {
	policy := labelled(cfg)
	f := &finder{scope: t.scope, want: int(t.window), notes: cmd.ErrOrStderr()}
	window, err := f.find(source, in, &policy)
	if err != nil {
		return nil, err
	}
	ctx := cmd.Context()
	seen := newWatcher(t.dry, secretsOf(&cfg.Judges))
	judging, err := app.NewJudging(&cfg.Judges, app.JudgeOptions{
		Secret: []byte("attend judge try"), Environ: env, Tap: seen.tap(), // the same request each time
	})
	if err != nil {
		return nil, err
	}
	defer judging.Close()
	result := &judgeTried{Window: window.number, Input: window.input, DryRun: t.dry, Hooks: []string{}}
	result.gather(ctx, judging, seen, window)
	timeout := time.Duration(window.settings.JudgeTimeoutMs) * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	start := time.Now()
	reply, err := judging.Judge.Judge(ctx, window.input)
	result.TookMs = time.Since(start).Milliseconds()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) && !t.dry { // as in the daemon: what comes after the timeout is no answer
		if failed, ok := errors.AsType[*judge.Error](err); ok {
			reply.Calls = failed.Calls
		}
		err = fmt.Errorf("no answer within judgeTimeoutMs (%d)", timeout.Milliseconds())
	}
	result.Exchanges = seen.exchanges()
	result.conclude(window, &reply, err)
	return result, nil
}

// labelled is the policy of a configuration, as policy 1, in which every
// override has a name.
func labelled(cfg *config.Config) engine.Policy {
	policy := cfg.Policy()
	policy.Number = 1
	for i := range policy.Overrides {
		policy.Overrides[i].Name = cfg.Judges.Overrides[i].Label(i)
	}
	return policy
}

// gather asks the hooks as the daemon does, but one after the other, so that it
// can be told whose a request is.
func (r *judgeTried) gather(ctx context.Context, j *app.Judging, seen *watcher, f *found) {
	for _, hook := range []struct {
		what string
		asks runner.Asks
	}{{forContext, runner.Asks{Context: j.Context}}, {forCapture, runner.Asks{Capture: j.Capture}}} {
		seen.now(hook.what, "")
		got := hook.asks.Gather(ctx, f.input.Scope, f.settings)
		if got.Facts != nil {
			f.input.Facts = got.Facts
		}
		f.input.Predicates = slices.Concat(f.input.Predicates, got.Predicates)
		f.input.Images = slices.Concat(f.input.Images, got.Images)
		for i := range got.Failed {
			if !r.DryRun {
				r.Hooks = append(r.Hooks, hook.what+": "+got.Failed[i].Message)
			}
		}
	}
}

// conclude takes down what the judge said, and what would be decided.
func (r *judgeTried) conclude(f *found, reply *judge.Reply, err error) {
	r.Calls = []engine.Exchange{}
	if r.DryRun && slices.ContainsFunc(r.Exchanges, func(x exchange) bool { return x.For == forJudge }) {
		return // whatever was said, not everyone was asked
	}
	r.Calls = append(r.Calls, reply.Calls...)
	if err == nil {
		r.Answer, r.Judge = &reply.Answer, &reply.Judge
		var v *engine.Verdict
		if v, err = engine.Decide(f.override, f.settings, f.window, reply.Answer); err == nil {
			r.Decision = decisionOf(v)
			return
		}
	}
	classed := (*judge.Error)(nil)
	if errors.As(err, &classed) {
		r.Calls = append(r.Calls, classed.Calls...)
	}
	r.Error, r.Class = err.Error(), judge.Transient
	if classed != nil {
		r.Class = classed.Class
	}
}

func decisionOf(v *engine.Verdict) *judgeTryDecision {
	d := &judgeTryDecision{
		Route: v.Route, JudgedRoute: v.JudgedRoute, Changed: append([]engine.Change{}, v.Changed...), Override: v.Override,
		Probabilities: make(map[engine.Route]float64), Predicates: v.Predicates, Confidence: v.Confidence,
	}
	for _, route := range engine.Routes() {
		d.Probabilities[route] = v.Probabilities.Of(route)
	}
	return d
}

// secretsOf are what must not be shown, wherever it turns up.
func secretsOf(c *config.Judges) []string {
	secrets := []string{c.Context.Key.Reveal(), c.Capture.Key.Reveal()}
	variables := slices.Concat(c.Context.Variables, c.Capture.Variables)
	for i := range c.Entries {
		secrets = append(secrets, c.Entries[i].Key.Reveal())
		variables = append(variables, c.Entries[i].Variables...)
	}
	for _, v := range variables {
		secrets = append(secrets, v.Value.Reveal())
	}
	return secrets
}

func (t *judgeTry) write(w io.Writer, r *judgeTried) error {
	var b strings.Builder
	if t.output == outputText {
		r.describe(&b)
		_, err := io.WriteString(w, b.String())
		return err
	}
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err := io.WriteString(w, visibleReport(b.String()))
	return err
}

// ordinal is the value of a flag that counts from 1.
type ordinal int

// String, Set and Type make it a flag value that refuses anything else.
func (o *ordinal) String() string { return strconv.Itoa(int(*o)) }

// Set takes a whole number from 1.
func (o *ordinal) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return errors.New("want a whole number from 1, as 3")
	}
	*o = ordinal(n)
	return nil
}

// Type names the value in help texts.
func (o *ordinal) Type() string { return "window" }
