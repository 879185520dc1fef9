package questions_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/judgetest"
	"attend/internal/judge/questions"
)

const jevAnswer = `{"model":"jev-1.13.0","answers":{` +
	`"route":{"type":"choice","choice":"queue","confidence":0.95,"probabilities":{"interrupt":0.03,"queue":0.97}},` +
	`"0":{"type":"noul","noul":0.92},"1":{"type":"noul","noul":0.25}},"usage":{"input_tokens":43,"output_tokens":2}}`

func TestJev_RequestAndAnswer(t *testing.T) {
	h := judgetest.SystemOne(t, judgetest.Answer{Body: jevAnswer, Header: map[string]string{"X-Typesafe-Request-Id": "req-1"}})
	reply, e := ask(t, made(t, questions.Options{API: questions.Jev, Criteria: map[engine.Route]string{engine.Interrupt: "not this", engine.Ask: "When unsure."}}, h), window())
	if e != nil {
		t.Fatal(e)
	}
	asked := h.Asked()[0]
	golden(t, "jev.json", asked.Body)
	if got := asked.Header.Get("Authorization"); got != "Bearer "+key {
		t.Errorf("the key went out as %q", got)
	}
	for _, name := range []string{"TypeSafe-Danger-Zone-Long-Context", "TypeSafe-Danger-Zone-Images"} {
		if asked.Header.Get(name) != "" {
			t.Errorf("%s was sent", name)
		}
	}
	confidence := 0.95
	want := engine.Answer{
		Route: engine.Queue, Confidence: &confidence,
		Probabilities: map[engine.Route]float64{engine.Interrupt: 0.03, engine.Queue: 0.97},
		Predicates:    map[string]float64{"asked": 0.92, "paid": 0.25},
	}
	if diff := cmp.Diff(want, reply.Answer); diff != "" {
		t.Errorf("the answer differs (-want +got):\n%s", diff)
	}
	x := reply.Calls[0]
	if len(reply.Calls) != 1 || x.Outcome != "answered" || x.Model != "jev-1.13.0" || x.InputTokens != 43 || x.OutputTokens != 2 || x.RequestID != "req-1" || x.Answer != jevAnswer {
		t.Errorf("the record says %+v", reply.Calls)
	}
	if x.Prompt != string(asked.Body) || strings.Contains(x.Prompt, key) {
		t.Errorf("the prompt on the record is %s", x.Prompt)
	}
}

func TestJev_OptionsReachTheRequest(t *testing.T) {
	h := judgetest.SystemOne(t, judgetest.Answer{Body: jevAnswer})
	_, e := ask(t, made(t, questions.Options{API: questions.Jev, Model: "jev-preview", Instructions: "Choose.", LongContext: true}, h), window())
	if e != nil {
		t.Fatal(e)
	}
	asked := h.Asked()[0]
	golden(t, "jev-options.json", asked.Body)
	if got := asked.Header.Get("TypeSafe-Danger-Zone-Long-Context"); got != "true" {
		t.Errorf("the header for a long context is %q", got)
	}
}

func TestJev_Answers(t *testing.T) {
	for _, c := range []struct {
		name, body string
		class      judge.Class // "": accepted
		answer     engine.Answer
	}{
		{"no route", `{"answers":{"0":{"noul":1}}}`, judge.Malformed, engine.Answer{}},
		{"no answers", `{"model":"jev"}`, judge.Malformed, engine.Answer{}},
		{"null", `null`, judge.Malformed, engine.Answer{}},
		{"a list", `[]`, judge.Malformed, engine.Answer{}},
		{"answers in a list", `{"answers":[{"type":"choice","choice":"queue"}]}`, judge.Malformed, engine.Answer{}},
		{"a choice that is no string", `{"answers":{"route":{"choice":true}}}`, judge.Malformed, engine.Answer{}},
		{"a null route", `{"answers":{"route":null}}`, judge.Malformed, engine.Answer{}},
		{"a label outside the set", `{"answers":{"route":{"choice":"escalate: sk-secret-key"}}}`, judge.Malformed, engine.Answer{}},
		{"a route that was not offered", `{"answers":{"route":{"choice":"wait"}}}`, judge.Malformed, engine.Answer{}},
		{"the route alone", `{"answers":{"route":{"choice":"skip"}}}`, "", engine.Answer{Route: engine.Skip}},
		{
			"probabilities that do not sum to 1", `{"answers":{"route":{"choice":"skip","probabilities":{"skip":0.2,"queue":0.2,"elsewhere":0.9}}}}`,
			"",
			engine.Answer{Route: engine.Skip, Probabilities: map[engine.Route]float64{engine.Skip: 0.2, engine.Queue: 0.2}},
		},
		{"probabilities in a list", `{"answers":{"route":{"choice":"skip","probabilities":[0.2]}}}`, "", engine.Answer{Route: engine.Skip}},
		{"numbers that are none", `{"answers":{"route":{"choice":"skip","confidence":"NaN","probabilities":{"skip":null}},"0":{"noul":1e999},"1":{"noul":"0.5"}}}`, "", engine.Answer{Route: engine.Skip}},
		{"a predicate that is missing", `{"answers":{"route":{"choice":"skip"},"1":{"noul":0.5}}}`, "", engine.Answer{Route: engine.Skip, Predicates: map[string]float64{"paid": 0.5}}},
		{"fields that are not known", `{"id":"x","provider":"y","answers":{"route":{"choice":"skip","legend":{}},"more":7}}`, "", engine.Answer{Route: engine.Skip}},
		{"usage that is none", `{"answers":{"route":{"choice":"skip"}},"usage":{"input_tokens":-4,"output_tokens":"many"},"model":7}`, "", engine.Answer{Route: engine.Skip}},
	} {
		h := judgetest.SystemOne(t, judgetest.Answer{Body: c.body})
		in := window()
		in.Routes = in.Routes[:len(in.Routes)-1] // without wait
		reply, e := ask(t, made(t, questions.Options{API: questions.Jev}, h), in)
		checkAnswer(t, c.name, c.class, c.answer, reply, e)
	}
}

func checkAnswer(t *testing.T, name string, class judge.Class, want engine.Answer, reply judge.Reply, e *judge.Error) {
	t.Helper()
	if class != "" {
		if e == nil || e.Class != class || len(e.Calls) != 1 || e.Calls[0].Outcome != string(class) || e.Status != 200 {
			t.Errorf("%s: got %+v, want class %s, and an exchange that says so", name, e, class)
		} else if strings.Contains(e.Error(), key) {
			t.Errorf("%s: the error repeats what the judge said: %v", name, e)
		}
		return
	}
	if e != nil {
		t.Errorf("%s: %v", name, e)
		return
	}
	if diff := cmp.Diff(want, reply.Answer); diff != "" {
		t.Errorf("%s: the answer differs (-want +got):\n%s", name, diff)
	}
	if x := reply.Calls[0]; x.InputTokens < 0 || x.OutputTokens < 0 {
		t.Errorf("%s: tokens %d and %d", name, x.InputTokens, x.OutputTokens)
	}
}
