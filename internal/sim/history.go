package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"attend/internal/engine"
	"attend/internal/replay"
)

// String writes the plan: what happens, and which faults may.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rates %+v, checkpoint %+v\n", p.Rates, p.Checkpoint)
	for i := range p.Ops {
		fmt.Fprintf(&b, "%s\n", &p.Ops[i])
	}
	if p.Only != nil {
		fmt.Fprintf(&b, "faults %s\n", strings.Join(sortedNames(p.Only), " "))
	}
	return b.String()
}

// History writes what a run found as a history of package engine: an input,
// and the log as a trace. The input says what came from outside and what the
// judge answered; the trace is what the run has, and not always what the input
// gives: crashes and the time that a store took are not in it.
func History(p *Plan, r *Result) string {
	if len(r.Log) == 0 {
		return ""
	}
	var b bytes.Buffer
	b.WriteString("-- input --\n")
	h := history{out: &b, from: r.Log[0].Stamp, last: engine.Defaults()}
	h.answers(r.Log)
	for i := range r.Log {
		h.record(&r.Log[i])
	}
	b.WriteString("-- trace --\n")
	labels := make(map[string]string)
	rules, scopes := engine.NewRules(compile), make(map[string]*engine.State)
	trace := replay.History{
		Out: &b, Events: true, Home: scopeName(0),
		Clock: func(t engine.Time) string { return fmt.Sprint(t - h.from) },
		Label: func(id string) string {
			if labels[id] == "" {
				labels[id] = fmt.Sprint("w", len(labels)+1)
			}
			return labels[id]
		},
	}
	for i := range r.Log {
		rec := &r.Log[i]
		var out engine.Outcome
		if rec.Scope == "" {
			_ = rules.Apply(*rec) // a finding tells what is wrong
		} else {
			if scopes[rec.Scope] == nil {
				scopes[rec.Scope] = engine.NewState(rec.Scope)
			}
			missing := scopes[rec.Scope].Missing(rules, rec)
			found := make([]engine.Record, len(missing))
			for j, p := range missing {
				found[j] = r.Log[p-1]
			}
			scopes[rec.Scope].Fill(missing, found)
			out = scopes[rec.Scope].Apply(rules, rec)
		}
		trace.Record(rec, &out)
	}
	return b.String()
}

// history writes an input.
type history struct {
	out  *bytes.Buffer
	from engine.Time
	last engine.Settings // the policy so far
	any  bool            // there was one
}

// answers writes what came of each call, in the order of the calls.
func (h *history) answers(log []engine.Record) {
	for i := range log {
		if st := log[i].Step; st != nil && st.Kind == engine.StepCall {
			fmt.Fprintf(h.out, "judge %s\n", outcomeOf(log[i:], &log[i]))
		}
	}
}

func outcomeOf(rest []engine.Record, call *engine.Record) string {
	for i := range rest {
		st := rest[i].Step
		if st == nil || st.Window != call.Step.Window {
			continue
		}
		after := fmt.Sprintf("after %d", rest[i].Stamp-call.Stamp)
		switch {
		case st.Failed != nil && (st.Failed.Why == "timeout" || st.Failed.Why == "lost" || st.Failed.Why == "stopped"):
			return "never"
		case st.Failed != nil:
			s := "error " + st.Failed.Why + " " + after
			if st.Failed.NotBefore > 0 {
				s += fmt.Sprintf(" retry-after %d", st.Failed.NotBefore-rest[i].Stamp)
			}
			if st.Failed.Permanent {
				s += " permanent"
			}
			if st.Failed.Why == engine.WhyHeld {
				s += " held"
			}
			return s
		case st.Verdict != nil:
			return st.Verdict.JudgedRoute.String() + " " + after
		}
	}
	return "never"
}

func (h *history) record(r *engine.Record) {
	scope := ""
	if r.Scope != "" && r.Scope != scopeName(0) {
		scope = " scope=" + r.Scope
	}
	at := r.Stamp - h.from
	if e := r.Event; e != nil {
		text := ""
		if e.Text != "" {
			text = " text=" + e.Text
		}
		fmt.Fprintf(h.out, "%-6d event %s %s %s%s%s\n", at, e.Kind, e.Name, e.ID, text, scope)
		return
	}
	switch st := r.Step; st.Kind { //nolint:exhaustive // the owner's are in the trace
	case engine.StepFlush, engine.StepGap:
		fmt.Fprintf(h.out, "%-6d %s%s\n", at, st.Kind, scope)
	case engine.StepRequeue:
		fmt.Fprintf(h.out, "%-6d requeue ?\n", at)
	case engine.StepPolicy:
		h.policy(at, st.Policy)
	case engine.StepSilence:
		if st.Silence.Ended {
			fmt.Fprintf(h.out, "%-6d unsilence %s\n", at, st.Silence.ID)
			return
		}
		fmt.Fprintf(h.out, "%-6d silence %s scope=%s until=%d\n", at, st.Silence.ID, st.Silence.Scope, st.Silence.Until-h.from)
	}
}

// policy writes the settings that differ from those before.
func (h *history) policy(at engine.Time, p *engine.Policy) {
	when := ""
	if h.any {
		when = fmt.Sprintf("%-6d ", at)
	}
	before, after := settingsOf(&h.last), settingsOf(&p.Default)
	var words []string
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if !bytes.Equal(before[key], after[key]) {
			words = append(words, key+"="+string(after[key]))
		}
	}
	if len(words) > 0 {
		fmt.Fprintf(h.out, "%spolicy %s\n", when, strings.Join(words, " "))
	}
	if p.Judge != judgeIO {
		fmt.Fprintf(h.out, "%sjudge pure %s\n", when, p.Judge)
	}
	h.last, h.any = p.Default, true
}

func settingsOf(s *engine.Settings) map[string]json.RawMessage {
	var out map[string]json.RawMessage
	if b, err := json.Marshal(s); err == nil {
		_ = json.Unmarshal(b, &out) // it was just written
	}
	return out
}
