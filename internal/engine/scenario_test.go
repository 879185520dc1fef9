package engine_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/replay"
)

// TestMain makes the laws meet enough scenarios in a common run.
// -rapid.checks=100000 makes it a long one.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		_ = flag.Set("rapid.checks", checks)
	}
	_ = flag.Set("rapid.nofailfile", "true") // a failure prints the history
	os.Exit(m.Run())
}

// scenario is a history that was drawn. Its text is what TestHistory reads: a
// failure can be committed as a file.
type scenario struct {
	settings engine.Settings
	judge    string // of pureJudges, or "" for a scripted one
	answers  []replay.Answer
	slow     bool // no answer comes at once
	sinks    string
	sends    []replay.Answer // how deliveries end
	ops      []op
}

// op is one command of a scenario.
type op struct {
	at    engine.Time
	verb  string
	kind  engine.Kind
	id    string
	text  int    // bytes
	scope string // "" for s
	more  string // the rest of the command
}

func (o *op) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", o.verb)
	if o.verb == "event" {
		fmt.Fprintf(&b, " %s a %s", o.kind, o.id)
		if o.text > 0 {
			fmt.Fprintf(&b, " text=%s", strings.Repeat("x", o.text))
		}
	}
	if o.scope != "" {
		fmt.Fprintf(&b, " scope=%s", o.scope)
	}
	if o.more != "" {
		fmt.Fprintf(&b, " %s", o.more)
	}
	return b.String()
}

// text writes the scenario as a history; together puts what comes at one time
// into one body.
func (s *scenario) text(together bool) string {
	var b strings.Builder
	d := &s.settings
	fmt.Fprintf(&b, "policy closingGraceMs=%d streamGapMs=%d passiveQuietMs=%d maxWindowMs=%d maxEvents=%d maxWindowBytes=%d\n",
		d.ClosingGraceMs, d.StreamGapMs, d.PassiveQuietMs, d.MaxWindowMs, d.MaxEvents, d.MaxWindowBytes)
	fmt.Fprintf(&b, "policy waitHorizonMs=%d maxWaits=%d judgeTimeoutMs=%d retryBackoffMs=%s retryJitter=%g\n",
		d.WaitHorizonMs, d.MaxWaits, d.JudgeTimeoutMs, strings.ReplaceAll(fmt.Sprint(d.RetryBackoffMs), " ", ","), d.RetryJitter)
	fmt.Fprintf(&b, "policy dedupMs=%d dedupIds=%d recentCount=%d\n", d.DedupMs, d.DedupIDs, d.RecentCount)
	if s.judge != "" {
		fmt.Fprintf(&b, "judge pure %s\n", s.judge)
	}
	for i := range s.answers {
		b.WriteString(answerText(&s.answers[i]))
	}
	if s.slow { // the rule judge, which comes after the script, answers at once
		b.WriteString("judge queue after 1 times 1000\n")
	}
	b.WriteString(s.sinksText())
	for i := range s.ops {
		o := &s.ops[i]
		if together && i > 0 && o.at == s.ops[i-1].at && o.inBody() && s.ops[i-1].inBody() {
			fmt.Fprintf(&b, "&      %s\n", o)
			continue
		}
		fmt.Fprintf(&b, "%-6d %s\n", o.at, o)
	}
	return b.String()
}

// input reports whether the command is a record of a scope.
func (o *op) input() bool { return o.verb == "event" || o.verb == "flush" || o.verb == "gap" }

// inBody reports whether ingest may bring it in one body with others. A flush
// call comes alone.
func (o *op) inBody() bool { return o.verb == "event" || o.verb == "gap" }

func answerText(a *replay.Answer) string {
	if a.Error != "" {
		s := fmt.Sprintf("judge error %s after %d", a.Error, a.AfterMs)
		if a.RetryAfterMs > 0 {
			s += fmt.Sprintf(" retry-after %d", a.RetryAfterMs)
		}
		if a.Permanent {
			s += " permanent"
		}
		return s + "\n"
	}
	return fmt.Sprintf("judge %s after %d\n", a.Route, a.AfterMs)
}

// oneOf draws one of the values.
func oneOf[T any](t *rapid.T, label string, values ...T) T {
	return rapid.SampledFrom(values).Draw(t, label)
}

func drawSettings(t *rapid.T) engine.Settings {
	s := engine.Defaults()
	s.ClosingGraceMs = oneOf(t, "closingGraceMs", int64(20), 0, 7)
	s.StreamGapMs = oneOf(t, "streamGapMs", int64(10), 0, 20)
	s.PassiveQuietMs = oneOf(t, "passiveQuietMs", int64(50), 0, 20)
	s.MaxWindowMs = oneOf(t, "maxWindowMs", int64(60), 0, 20, 1000)
	s.MaxEvents = oneOf(t, "maxEvents", 4, 1, 2, 200)
	s.MaxWindowBytes = oneOf(t, "maxWindowBytes", int64(1000), 20, 60)
	s.WaitHorizonMs = oneOf(t, "waitHorizonMs", int64(100), 0, 20)
	s.MaxWaits = oneOf(t, "maxWaits", 3, 0, 1)
	s.JudgeTimeoutMs = oneOf(t, "judgeTimeoutMs", int64(50), 1, 10)
	s.RetryBackoffMs = oneOf(t, "retryBackoffMs", []int64{10, 30}, []int64{}, []int64{0}, []int64{20, 5, 7})
	s.RetryJitter = oneOf(t, "retryJitter", 0, 0.2)
	s.DedupMs = oneOf(t, "dedupMs", int64(1000), 0, 5, 40)
	s.DedupIDs = oneOf(t, "dedupIds", 100, 0, 1, 2)
	s.RecentCount = oneOf(t, "recentCount", 3, 0)
	return s
}

func drawAnswer(t *rapid.T, leastMs int64) replay.Answer {
	a := replay.Answer{AfterMs: max(leastMs, oneOf(t, "after", int64(0), 1, 5, 10, 49, 50, 200))}
	switch oneOf(t, "answer", "wait", "route", "wait", "error", "route", "permanent", "busy") {
	case "wait":
		a.Route = engine.Wait
	case "route":
		a.Route = oneOf(t, "route", engine.Queue, engine.Skip, engine.Note, engine.Interrupt, engine.Ask)
	case "error":
		a.Error = "e"
	case "permanent":
		a.Error, a.Permanent = "p", true
	case "busy":
		a.Error, a.RetryAfterMs = "b", oneOf(t, "retryAfter", int64(3), 10, 100)
	}
	return a
}

// draw makes a scenario of common inputs: events, flush calls, gaps.
// leastMs is how long a judge takes at least.
func draw(t *rapid.T, leastMs int64) *scenario {
	s := &scenario{settings: drawSettings(t), judge: oneOf(t, "judge", "", "rule", "", "waits", "notes")}
	if s.judge == "" {
		for n := rapid.IntRange(0, 12).Draw(t, "answers"); n > 0; n-- {
			s.answers = append(s.answers, drawAnswer(t, leastMs))
		}
		if len(s.answers) == 0 {
			s.answers = []replay.Answer{{Route: engine.Queue, AfterMs: leastMs}}
		}
		s.slow = leastMs > 0
	}
	at := engine.Time(1000)
	unique := rapid.Bool().Draw(t, "uniqueIds")
	for n := rapid.IntRange(1, 25).Draw(t, "ops"); n > 0; n-- {
		at += oneOf(t, "pause", engine.Time(0), 1, 3, 7, 10, 20, 50, 300)
		o := op{at: at, verb: oneOf(t, "verb", "event", "event", "event", "event", "event", "event", "flush", "gap")}
		if o.verb == "event" {
			o.kind = oneOf(t, "kind", engine.Consequence, engine.Closing, engine.Context, engine.Continuous, engine.Passive, engine.Flush)
			o.id = fmt.Sprintf("e%d", n)
			if !unique {
				o.id = fmt.Sprintf("e%d", rapid.IntRange(1, 5).Draw(t, "id"))
			}
			o.text = oneOf(t, "text", 0, 0, 0, 17, 40)
		}
		s.ops = append(s.ops, o)
	}
	return s
}

// trouble adds what the plain model does not know: scopes, silences, reloads,
// requeues, an owner that lags, dies or stops.
func (s *scenario) trouble(t *rapid.T) {
	s.drawSinks(t)
	away := false
	var ops []op
	for _, o := range s.ops {
		if o.input() && rapid.Bool().Draw(t, "other") {
			o.scope = "other"
		}
		ops = append(ops, o)
		switch oneOf(t, "trouble", "", "", "", "", "away", "silence", "unsilence", "policy", "requeue", "judge", "override", "sinks") {
		case "away":
			verb := "start"
			if !away {
				verb = oneOf(t, "verb", "pause", "crash", "stop")
			}
			away = !away
			ops = append(ops, op{at: o.at, verb: verb})
		case "silence":
			until := o.at + oneOf(t, "until", engine.Time(0), 5, 40, 1000)
			more := fmt.Sprintf("n%d until=%d", len(ops), until)
			more += oneOf(t, "which", "", " flush", " event=b*", " scope=s flush")
			ops = append(ops, op{at: o.at, verb: "silence", more: more})
		case "unsilence":
			ops = append(ops, op{at: o.at, verb: "unsilence", more: fmt.Sprintf("n%d", max(0, len(ops)-oneOf(t, "back", 1, 2, 3)))})
		case "policy":
			ops = append(ops, op{at: o.at, verb: "policy", more: oneOf(t, "change",
				"closingGraceMs=1", "maxWaits=2", "maxEvents=3", "maxWindowMs=30", "waitHorizonMs=5", "dedupMs=3", "retryBackoffMs=[1]", "recentCount=1")})
		case "judge":
			ops = append(ops, op{at: o.at, verb: "judge", more: "pure " + oneOf(t, "judge", "reads", "rule")})
		case "override":
			ops = append(ops, op{at: o.at, verb: "override", more: strings.Repeat("x", 17) + "=" + oneOf(t, "then", "ask", "skip")})
		case "sinks":
			ops = append(ops, op{at: o.at, verb: "sinks", more: drawLanes(t)})
		case "requeue":
			ops = append(ops, op{at: o.at, verb: "requeue", more: "?"})
		}
	}
	if away {
		ops = append(ops, op{at: s.ops[len(s.ops)-1].at + 40, verb: "start"})
	}
	s.ops = ops
}
