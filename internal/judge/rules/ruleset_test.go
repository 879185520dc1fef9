package rules_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/rules"
)

func load(t testing.TB, text string) *rules.Ruleset {
	t.Helper()
	s, mistakes := rules.Load(text)
	if len(mistakes) > 0 {
		t.Fatal(mistakes)
	}
	return s
}

// pager is a window of two events with their bodies.
func pager(offered ...engine.Route) *engine.Window {
	w := &engine.Window{
		Scope: "service:api", Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, Offered: offered, Now: 1_700_000_000_000,
		Events: engine.Members{{Position: 1, Kind: engine.Closing, Name: "alert.fired"}, {Position: 2, Kind: engine.Consequence, Name: "log.line"}},
	}
	w.Fill([]engine.Record{
		{Position: 1, Event: &engine.Event{ID: "a", Name: "alert.fired", Kind: engine.Closing, Data: []byte(`{"severity": "critical"}`)}},
		{Position: 2, Event: &engine.Event{ID: "b", Name: "log.line", Kind: engine.Consequence, Text: "out of memory"}},
	})
	return w
}

func TestRuleset_FirstMatchWins(t *testing.T) {
	s := load(t, `
rules:
  - when: scope == "other"
    then: skip
  - name: critical
    when: events.exists(e, e.name == "alert.fired" && e.data.severity == "critical")
    then: interrupt
    confidence: 0.9
    predicates: {page: 1}
  - when: "true"
    then: note
default: queue
`)
	nine := 0.9
	got := s.Match(pager(engine.Routes()...))
	want := rules.Match{Rule: "critical", Answer: engine.Answer{
		Route: engine.Interrupt, Confidence: &nine, Predicates: map[string]float64{"page": 1}, By: "critical",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"rule 1", "critical", "rule 3", "default"}, s.Labels()); diff != "" {
		t.Error(diff)
	}
}

func TestRuleset_DefaultAndFailures(t *testing.T) {
	s := load(t, `
rules:
  - {when: 'events.exists(e, e.data.sev == "x")', then: interrupt}
  - {when: 'events[9].name == "x"', then: interrupt}
default: note
`)
	m := s.Match(pager(engine.Routes()...))
	if m.Rule != rules.Default || m.Answer.Route != engine.Note || m.Answer.By != rules.Default {
		t.Errorf("got %+v, want the default", m)
	}
	if len(m.Failures) != 2 || m.Failures[0].Rule != "rule 1" || !strings.Contains(m.Answer.Trouble, `rule 1 failed: there is no such key: sev: ask has() first; rule 2 failed: `) {
		t.Errorf("failures %+v, told as %q", m.Failures, m.Answer.Trouble)
	}
}

// A rule for wait is passed over where wait is not on offer, and the next one
// that is met counts.
func TestRuleset_WaitIsPassedOver(t *testing.T) {
	s := load(t, "rules:\n  - {when: 'true', then: wait}\n  - {when: 'true', then: note}\ndefault: skip\n")
	if got := s.Judge(pager(engine.Offer(true)...)); got.Route != engine.Wait || got.By != "rule 1" {
		t.Errorf("wait on offer: %+v", got)
	}
	if got := s.Judge(pager(engine.Offer(false)...)); got.Route != engine.Note || got.By != "rule 2" {
		t.Errorf("no wait on offer: %+v", got)
	}
}

func TestRuleset_Needs(t *testing.T) {
	for when, want := range map[string][3]bool{ // pure, facts, bodies
		`waits > 0`:                               {true, false, false},
		`events.exists(e, e.text == "")`:          {true, false, true},
		`facts.away`:                              {false, true, false},
		`now.getHours("Europe/Vienna") < 8`:       {false, false, false},
		`now.getHours("+01:00") < 8 && waits > 0`: {true, false, false},
	} { //arch:sorted each is a case of its own
		s := load(t, "rules:\n  - {when: '"+when+"', then: note}\ndefault: skip\n")
		if got := [3]bool{s.Pure(), s.Facts(), s.Bodies()}; got != want {
			t.Errorf("%s: pure, facts, bodies are %v, want %v", when, got, want)
		}
	}
}

func TestJudge_WithFacts(t *testing.T) {
	s := load(t, "rules:\n  - {when: facts.gone, then: skip}\n  - {name: away, when: facts.away, then: queue}\ndefault: interrupt\n")
	in := &judge.Input{Scope: "s", Routes: []judge.Offer{{Route: engine.Interrupt}, {Route: engine.Queue}, {Route: engine.Skip}}, Facts: json.RawMessage(`{"away": true}`)}
	reply, err := rules.Judge{Rules: s}.Judge(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if reply.Answer.Route != engine.Queue || reply.Judge.Model != "away" {
		t.Errorf("got %+v", reply)
	}
	if len(reply.Calls) != 1 || reply.Calls[0].Outcome != "answered" || !strings.Contains(reply.Calls[0].Message, "rule 1 failed: there is no such key: gone") {
		t.Errorf("exchanges %+v", reply.Calls)
	}
}

func TestCompile(t *testing.T) {
	pure := "rules:\n  - {when: 'events[0].text == \"\"', then: note}\ndefault: skip\n"
	for _, c := range []struct {
		name           string
		policy         engine.Policy
		judge, bodies  bool
		override, fail bool
	}{
		{name: "rule", policy: engine.Policy{Judge: "rule"}, judge: true},
		{name: "a model", policy: engine.Policy{Judge: "jev"}},
		{name: "rules", policy: engine.Policy{Judge: "rules", Rules: pure}, judge: true, bodies: true},
		{name: "rules by another name", policy: engine.Policy{Judge: "oncall", Rules: pure}, judge: true, bodies: true},
		{name: "facts", policy: engine.Policy{Judge: "rules", Rules: "rules:\n- {when: facts.a, then: note}\ndefault: skip"}},
		{name: "a mistake", policy: engine.Policy{Judge: "rules", Rules: "rules: []"}, fail: true},
		{name: "overrides", policy: engine.Policy{Judge: "jev", Overrides: []engine.OverrideRule{{When: `route == "skip"`, Then: engine.Queue}}}, override: true},
		{name: "an override that reads", policy: engine.Policy{Judge: "rule", Overrides: []engine.OverrideRule{{When: `events[0].id == "a"`, Then: engine.Queue}}}, judge: true, override: true, bodies: true},
		{name: "an override of facts", policy: engine.Policy{Overrides: []engine.OverrideRule{{When: `facts.a`, Then: engine.Queue}}}, fail: true},
		{name: "an override by a clock", policy: engine.Policy{Overrides: []engine.OverrideRule{{When: `now.getHours("Asia/Tokyo") > 1`, Then: engine.Queue}}}, fail: true},
	} {
		got, err := rules.Compile(&c.policy)
		if (err != nil) != c.fail || (got.Judge != nil) != c.judge || (got.Override != nil) != c.override || got.Bodies != c.bodies {
			t.Errorf("%s: judge %v, override %v, bodies %v, error %v", c.name, got.Judge != nil, got.Override != nil, got.Bodies, err)
		}
	}
}

func TestOverrides(t *testing.T) {
	c, err := rules.Compile(&engine.Policy{Overrides: []engine.OverrideRule{
		{When: `predicates.missing > 0.5`, Then: engine.Interrupt},
		{When: `route == "skip" && predicates.asked >= 0.7`, Then: engine.Wait},
		{Name: "asked", When: `route == "skip" && predicates.asked >= 0.7`, Then: engine.Queue},
		{When: `true`, Then: engine.Note},
	}})
	if err != nil {
		t.Fatal(err)
	}
	v := &engine.Verdict{Route: engine.Skip, Predicates: map[string]float64{"asked": 0.8}}
	route, ok := c.Override(pager(engine.Offer(false)...), v)
	if route != engine.Queue || !ok || v.Override != "asked" {
		t.Errorf("got %v, %v by %q, want queue by asked: the first fails, the second is not on offer", route, ok, v.Override)
	}
	if len(v.Calls) != 1 || v.Calls[0].Model != "override 1" || !strings.Contains(v.Calls[0].Message, "no such key: missing") {
		t.Errorf("what failed is told as %+v", v.Calls)
	}
	if mistakes := rules.CheckOverride("route ==\n skp"); len(mistakes) != 1 || mistakes[0].Line != 2 || mistakes[0].Column != 2 {
		t.Errorf("mistakes %v, want one in line 2, column 2", mistakes)
	}
}
