package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"attend/internal/judge/judgetest"
)

// aJudge is one type of judge with somebody who answers for it.
type aJudge struct {
	name   string // of the type
	config string // of the entry
	pure   bool   // nobody is asked, and nothing is on the record
	model  string // as the decision names it
	route  string // of a window that a flush ended
}

// everyJudge starts a host for each type of judge. Each says queue.
func everyJudge(t *testing.T) []aJudge {
	t.Helper()
	models := judgetest.ServeModels(t, func(a judgetest.Asked) judgetest.Said {
		if a.Key != "" && a.Key != daemonKey {
			t.Errorf("%s was asked with the key %q", a.API, a.Key)
		}
		return judgetest.Said{Text: queueOf(a.Routes), Header: map[string]string{"X-Echo": daemonKey}}
	})
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+daemonKey {
			t.Errorf("the program was asked with %q", r.Header.Get("Authorization"))
		}
		fmt.Fprintf(w, `{"route":"queue","model":"own-1","reason":"the key is %s"}`, daemonKey)
	}))
	t.Cleanup(program.Close)
	jev := judgetest.SystemOne(t, judgetest.Answer{Body: `{"model":"jev-1.13.0","answers":{"route":{"type":"choice","choice":"queue","confidence":0.9,"probabilities":{"queue":1}}},"usage":{"input_tokens":7,"output_tokens":0}}`})
	decisions := judgetest.Decisions(t, judgetest.Answer{Body: `{"model":"gpt-6-luna","answers":[{"type":"choice","name":"route","choice":"queue","confidence":0.9,"probabilities":[{"value":"queue","probability":1}]}],"usage":{"input_tokens":7,"output_tokens":0,"total_tokens":7}}`})
	judges := []aJudge{
		{name: "rule", config: "rule", pure: true, route: "interrupt"},
		{name: "rules", config: `{type: rules, rules: {rules: [{when: "true", then: queue, name: all}], default: skip}}`, pure: true, model: "all"},
		{name: "jev", config: `{type: jev, url: "` + jev.URL + `", keyEnv: MY_KEY}`, model: "jev-1.13.0"},
		{name: "decisions", config: `{type: decisions, model: gpt-6-luna, url: "` + decisions.URL + `", keyEnv: MY_KEY}`, model: "gpt-6-luna"},
		{name: "http", config: `{type: http, url: "` + program.URL + `/judge", keyEnv: MY_KEY}`, model: "own-1"},
		{name: "command", config: `{type: command, command: [sh, -c, 'cat >&2; echo "{\"route\":\"queue\",\"model\":\"$KEY\"}"'], env: {KEY: $MY_KEY}}`},
	}
	for _, api := range []string{"anthropic", "openai", "gemini", "chat"} {
		judges = append(judges, aJudge{name: api, config: `{type: ` + api + `, model: m-1, url: "` + models.Base(api) + `", keyEnv: MY_KEY}`, model: "m-1"})
	}
	return judges
}

// queueOf is what a model that says queue answers.
func queueOf(routes []string) string {
	probabilities := make(map[string]float64)
	for _, r := range routes {
		probabilities[r] = 0
	}
	probabilities["queue"] = 1
	b, _ := json.Marshal(map[string]any{ // it is made of what can be written
		"predicates": map[string]float64{}, "probabilities": probabilities, "route": "queue", "confidence": 0.9,
	})
	return string(b)
}

// Each type of judge decides in the real daemon, stands on the record and in
// the metrics, and shows its key nowhere.
func TestJudges_EachTypeDecides(t *testing.T) {
	for _, j := range everyJudge(t) {
		t.Run(j.name, func(t *testing.T) {
			d := withJudges(t, "judge: "+j.config+"\n")
			d.send([2]string{"chat:1", "log"}, [2]string{"chat:1", "stop"})
			got := d.finals(1)[0]
			want := j.route
			if want == "" {
				want = "queue"
			}
			if got.Route.String() != want || got.Judge == nil || got.Judge.Name != j.name {
				t.Fatalf("decided %s by %+v: %s", got.Route, got.Judge, got.Message)
			}
			if j.model != "" && got.Judge.Model != j.model {
				t.Errorf("the model is %q, want %q", got.Judge.Model, j.model)
			}
			d.keepsTheKey(got.ID)
			if j.pure {
				return
			}
			calls := d.calls(got.ID)
			if len(calls) != 1 || calls[0].Judge != j.name || calls[0].Outcome != "answered" || !strings.Contains(calls[0].Prompt, "please look") || calls[0].Answer == "" {
				t.Errorf("the record has %+v", calls)
			}
			_, metrics := d.call(http.MethodGet, "/metrics", "")
			if line := `attend_judge_calls_total{judge="` + j.name + `",outcome="answered"} 1`; !strings.Contains(metrics, line+"\n") {
				t.Errorf("no %s in the metrics", line)
			}
		})
	}
}

// What was said stays out of the log where the configuration wants it so.
func TestJudges_RecordIsLeftOut(t *testing.T) {
	host := judgetest.SystemOne(t, judgetest.Answer{Body: trySkip})
	d := withJudges(t, `
judgeRecord: false
judge: {type: jev, url: "`+host.URL+`", keyEnv: MY_KEY}
context: {command: [echo, '{"facts":{"mid":true}}']}
`)
	d.send([2]string{"chat:1", "stop"})
	got := d.finals(1)[0]
	calls := d.calls(got.ID)
	if len(calls) != 1 || calls[0].Prompt != "" || calls[0].Answer != "" || calls[0].InputTokens != 43 {
		t.Errorf("the record has %+v", calls)
	}
	if asked := host.Asked(); !strings.Contains(string(asked[0].Body), `"facts":{"mid":true}`) {
		t.Errorf("the judge was asked without facts: %s", asked[0].Body)
	}
}

// Rules that look at facts are asked with those of the hook, and the decision
// names the rule, and the judge as it is configured, either way.
func TestJudges_RulesWithAndWithoutFacts(t *testing.T) {
	for condition, calls := range map[string]int{ //arch:sorted each by itself
		`facts.?onCall.orValue("") == "ann"`:          1,
		`events.exists(e, e.text.contains("please"))`: 0,
	} {
		d := withJudges(t, `
judges: [{type: rules, name: mine, rules: {rules: [{name: first, when: '`+condition+`', then: note}], default: skip}}]
context: {command: [echo, '{"facts":{"onCall":"ann"}}']}
floor: {}
`)
		d.send([2]string{"chat:1", "stop"})
		got := d.finals(1)[0]
		if got.Route.String() != "note" || got.Judge == nil || got.Judge.Name != "mine" || got.Judge.Model != "first" {
			t.Errorf("%s: decided %s by %+v: %s", condition, got.Route, got.Judge, got.Message)
		}
		if n := len(d.calls(got.ID)); n != calls {
			t.Errorf("%s: %d calls on the record, want %d", condition, n, calls)
		}
	}
}

// In an outage the last resort decides, and the record tells why.
func TestJudges_LastResortInAnOutage(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	d := withJudges(t, `
judges:
  - {type: rule, name: first, when: 'scope == "chat:9"'}
  - {type: jev, url: "`+gone.URL+`", keyEnv: MY_KEY, onError: next}
  - {type: rule, name: last}
`)
	for i := range 8 { // from the sixth on the breaker is open
		d.send([2]string{fmt.Sprintf("chat:%d", i), "stop"})
		d.finals(i + 1)
	}
	all := d.finals(8)
	var windows []string
	for _, f := range all {
		windows = append(windows, f.ID)
		if f.Judge == nil || f.Judge.Name != "last" || f.Route.String() != "interrupt" {
			t.Errorf("decided %s by %+v", f.Route, f.Judge)
		}
	}
	outcomes := func(window string) (all []string) {
		for _, c := range d.calls(window) {
			all = append(all, c.Judge+" "+c.Outcome)
		}
		return all
	}
	if got := strings.Join(outcomes(windows[0]), ", "); got != "jev error, last answered" {
		t.Errorf("the record of the first has %s", got)
	}
	if got := strings.Join(outcomes(windows[7]), ", "); got != "jev held, last answered" {
		t.Errorf("the record of the last has %s", got)
	}
	d.send([2]string{"chat:9", "stop"})
	if got := d.finals(9)[8]; got.Judge.Name != "first" {
		t.Errorf("decided by %+v, want the one whose condition holds", got.Judge)
	}
	d.keepsTheKey(windows...)
}
