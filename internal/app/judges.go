package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"

	"attend/internal/config"
	"attend/internal/engine"
	"attend/internal/expr"
	"attend/internal/judge"
	"attend/internal/judge/exec"
	"attend/internal/judge/llm"
	"attend/internal/judge/questions"
	"attend/internal/judge/rules"
	"attend/internal/judge/wire"
	"attend/internal/program"
	"attend/internal/runner"
)

// buildRunner makes the loop, and what it asks about settled windows.
func (a *App) buildRunner(ctx context.Context) error {
	secret, err := a.store.Secret(ctx)
	if err != nil {
		return fmt.Errorf("read the store's secret: %w", err)
	}
	metrics, err := judge.NewMetrics(a.opt.Registry)
	if err != nil {
		return err
	}
	a.judgeOptions = JudgeOptions{Secret: secret, Environ: os.Environ(), Metrics: metrics}
	if a.judging, err = NewJudging(&a.cfg.Judges, a.judgeOptions); err != nil {
		return err
	}
	a.cleanups.push("judges", func(context.Context) error { a.judging.Close(); return nil })
	first, err := newSinks(a.cfg, nil)
	if err != nil {
		return err
	}
	a.outbox.put(first)
	a.cleanups.push("sinks", func(context.Context) error { a.outbox.close(); return nil })
	asks := a.asks(a.cfg, a.judging)
	a.runner = runner.New(runner.Options{
		Store:      a.store,
		Judge:      asks.Judge,
		Compile:    rules.Compile,
		Context:    asks.Context,
		Capture:    asks.Capture,
		Judges:     asks.Judges,
		Record:     asks.Record,
		Deliver:    &a.outbox,
		SinkPlaces: a.outbox.places,
		MaxCalls:   a.cfg.Judges.Calls,
		Logger:     a.log,
		Registerer: a.opt.Registry,
		Leases:     a.leases,
		Replica:    a.replica,
		LeaseTTL:   a.cfg.Replicas.Lease,
	})
	return nil
}

// asks is who is asked about windows, as a configuration says.
func (a *App) asks(c *config.Config, j *Judging) runner.Asks {
	return runner.Asks{
		Judge: j.Judge, Context: a.contexts(j.Context, c.Context.Attune), Capture: j.Capture,
		Judges: judgeNames(&c.Judges), Record: c.Judges.Record,
	}
}

// judgeNames are the names of the configured judges.
func judgeNames(c *config.Judges) []string {
	names := make([]string, len(c.Entries))
	for i := range c.Entries {
		names[i] = c.Entries[i].Name
	}
	return names
}

// JudgeOptions are what judges are built with besides their configuration.
type JudgeOptions struct {
	// Secret is the one of the store. What marks untrusted text is derived from
	// it, so that it is the same on every replica and after a restart.
	Secret []byte
	// Environ is what commands may inherit a few variables from, as
	// [os.Environ] gives it.
	Environ []string
	// Metrics count calls that were held; nil counts nothing.
	Metrics *judge.Metrics
	// Tap sees what is sent and what comes back; nil is nobody.
	Tap *Tap
	// Before is what was built for an earlier configuration; nil for nothing.
	// A judge that is the same in both goes on, with its breaker and with what
	// it has spent today.
	Before *Judging
}

// Tap sees what goes out to judges, and what comes back.
type Tap struct {
	// HTTP returns what sends requests in place of next.
	HTTP func(next http.RoundTripper) http.RoundTripper
	// Asking is told the name of a judge before it is asked.
	Asking func(name string)
	// Command is called in place of a command; run runs it.
	Command func(argv []string, stdin []byte, run func() ([]byte, error)) ([]byte, error)
}

// Judging is who is asked about settled windows, and what is asked before.
type Judging struct {
	Judge   judge.Judge
	Context func(ctx context.Context, scope string) (judge.Context, error) // the hook; nil for none
	Capture func(ctx context.Context, scope string) ([]judge.Image, error) // the hook; nil for none
	client  *wire.Client
	built   []builtJudge
}

// builtJudge is a judge within its limits, and what it was built of.
type builtJudge struct {
	of    config.Judge
	quiet bool
	judge judge.Judge
}

// NewJudging builds what the configuration says. Close it.
//
// Errors: what of the configuration cannot be used on this machine, as a
// command that is not there.
func NewJudging(c *config.Judges, o JudgeOptions) (*Judging, error) {
	b := newBench(o)
	b.quiet = !c.Record && o.Tap == nil
	j := &Judging{client: b.client}
	var err error
	if j.Judge, err = b.compose(c); err != nil {
		return nil, err
	}
	j.built = b.built
	if e, err := b.hook(&c.Context); err != nil {
		return nil, fmt.Errorf("the context hook: %w", err)
	} else if e != nil {
		j.Context = exec.Context(e)
	}
	if e, err := b.hook(&c.Capture); err != nil {
		return nil, fmt.Errorf("the capture hook: %w", err)
	} else if e != nil {
		j.Capture = exec.Capture(e)
	}
	return j, nil
}

// Close lets go of connections.
func (j *Judging) Close() { j.client.Close() }

// bench is where judges and hooks are built: what they share.
type bench struct {
	JudgeOptions
	client *wire.Client
	fence  []byte
	quiet  bool // what commands write to their standard error is not kept
	built  []builtJudge
}

func newBench(o JudgeOptions) *bench {
	b := &bench{JudgeOptions: o}
	if o.Before != nil {
		b.client = o.Before.client
	} else {
		b.client = wire.New()
	}
	if o.Tap != nil {
		b.client = b.client.Through(o.Tap.HTTP)
	}
	mac := hmac.New(sha256.New, o.Secret) // the store's own secret goes to nobody
	mac.Write([]byte("judges"))
	b.fence = mac.Sum(nil)
	return b
}

// compose builds the judges, and makes one of them.
func (b *bench) compose(c *config.Judges) (judge.Judge, error) {
	var all judge.Composition
	for i := range c.Entries {
		entry, err := b.entry(&c.Entries[i])
		if err != nil {
			return nil, fmt.Errorf("judge %s: %w", c.Entries[i].Name, err)
		}
		all = append(all, entry)
	}
	return judge.Compose(all)
}

// entry builds one judge within its limits, and when it is asked.
func (b *bench) entry(c *config.Judge) (judge.Entry, error) {
	j, err := b.limited(c)
	if err != nil {
		return judge.Entry{}, err
	}
	if b.Tap != nil {
		asked := j
		j = judge.Func(func(ctx context.Context, in *judge.Input) (judge.Reply, error) {
			b.Tap.Asking(c.Name)
			return asked.Judge(ctx, in)
		})
	}
	e := judge.Entry{
		Name: c.Name, Judge: j, Below: c.Below, OnErrorNext: c.OnNext, Timeout: c.Timeout,
		Instant: asksNobody(c.Type),
	}
	if c.When == "" {
		return e, nil
	}
	when, err := expr.Compile(expr.Window, c.When)
	if err != nil {
		return judge.Entry{}, fmt.Errorf("when: %w", err)
	}
	e.When = func(in *judge.Input) (bool, error) { return when.Met(expr.OfInput(in)) }
	return e, nil
}

// asksNobody reports whether a judge of a type answers by itself: it has no
// limits and needs no time.
func asksNobody(t config.JudgeType) bool { return t == config.JudgeRule || t == config.JudgeRules }

// limited builds the judge of one entry within its limits, unless it is there
// already.
func (b *bench) limited(c *config.Judge) (judge.Judge, error) {
	of := *c
	of.When, of.Below, of.OnNext, of.Timeout = "", 0, false, 0 // when it is asked makes it no other
	if b.Before != nil {
		for _, known := range b.Before.built {
			if config.Same(known.of, of) && (known.quiet == b.quiet || c.Type != config.JudgeCommand) {
				b.built = append(b.built, known)
				return known.judge, nil
			}
		}
	}
	j, err := b.judge(c)
	if err != nil {
		return nil, err
	}
	if !asksNobody(c.Type) {
		j, err = judge.Limit(c.Name, j, judge.Limits{
			Concurrency: c.Concurrency, PerSecond: c.PerSecond, DailyCalls: int(c.DailyCalls), DailyTokens: c.DailyTokens, Metrics: b.Metrics,
		})
	}
	b.built = append(b.built, builtJudge{of, b.quiet, j})
	return j, err
}

// judge builds the judge of one entry.
func (b *bench) judge(c *config.Judge) (judge.Judge, error) {
	switch c.Type {
	case config.JudgeRule:
		return judge.Func(rule), nil
	case config.JudgeRules:
		set, mistakes := rules.Load(c.Rules)
		if len(mistakes) > 0 {
			return nil, mistakes
		}
		return rules.Judge{Rules: set}, nil
	case config.JudgeJev, config.JudgeDecisions:
		return questions.New(questions.Options{
			API: questions.API(c.Type), Model: c.Model, URL: c.URL, Key: c.Key.Reveal(), Instructions: c.Instructions,
			Criteria: c.Criteria, LongContext: c.LongContext, NoImages: !c.Images, Client: b.client,
		})
	case config.JudgeAnthropic, config.JudgeOpenAI, config.JudgeGemini, config.JudgeChat:
		return llm.New(llm.Options{
			API: llm.API(c.Type), Model: c.Model, URL: c.URL, Key: c.Key.Reveal(), System: c.System,
			Criteria: c.Criteria, NoImages: !c.Images, Secret: b.fence, Client: b.client,
		})
	case config.JudgeHTTP:
		return exec.Judge(exec.HTTP(b.client, c.URL, c.Key.Reveal())), nil
	case config.JudgeCommand:
		e, err := b.command(c.Command, c.Variables)
		if err != nil {
			return nil, err
		}
		return exec.Judge(e), nil
	default:
		return nil, fmt.Errorf("there is no judge of type %q", c.Type)
	}
}

// rule is the judge of that name where it stands among others.
func rule(_ context.Context, in *judge.Input) (judge.Reply, error) {
	return judge.Reply{Answer: engine.RuleJudge(&engine.Window{Reason: in.Window.Reason})}, nil
}

// command finds a program, and what it gets of the environment.
func (b *bench) command(argv []string, variables []config.Variable) (exec.Endpoint, error) {
	env := make(map[string]string, len(variables))
	for _, v := range variables {
		env[v.Name] = v.Value.Reveal()
	}
	spec, err := program.New(program.Options{Command: argv, Env: env}, b.Environ)
	if err != nil {
		return nil, err
	}
	if b.Tap == nil {
		if b.quiet {
			return exec.Quiet(spec), nil
		}
		return exec.Command(spec), nil
	}
	return exec.Through(exec.Command(spec), func(_ context.Context, stdin []byte, run func() ([]byte, error)) ([]byte, error) {
		return b.Tap.Command(argv, stdin, run)
	}), nil
}

// hook builds what is asked before each call of a judge; nil for none.
func (b *bench) hook(c *config.Hook) (exec.Endpoint, error) {
	switch {
	case c.URL != "":
		return exec.HTTP(b.client, c.URL, c.Key.Reveal()), nil
	case len(c.Command) > 0:
		return b.command(c.Command, c.Variables)
	default:
		return nil, nil
	}
}
