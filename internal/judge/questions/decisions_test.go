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

const decisionsAnswer = `{"model":"gpt-6-luna","answers":[` +
	`{"type":"choice","name":"route","choice":"queue","confidence":0.9,"probabilities":[{"value":"interrupt","probability":0.1},{"value":"queue","probability":0.9}]},` +
	`{"type":"predicate","name":"asked","probability":0.8},{"type":"predicate","name":"paid","probability":0.1}],` +
	`"usage":{"input_tokens":7,"input_tokens_details":{"cache_write_tokens":0,"cached_tokens":0},"output_tokens":0,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":7}}`

func TestDecisions_RequestAndAnswer(t *testing.T) {
	h := judgetest.Decisions(t, judgetest.Answer{Body: decisionsAnswer, Header: map[string]string{"X-Request-Id": "req-1"}})
	reply, e := ask(t, made(t, questions.Options{API: questions.Decisions}, h), window())
	if e != nil {
		t.Fatal(e)
	}
	asked := h.Asked()[0]
	if asked.Path != "/v1/decisions" || asked.Header.Get("Authorization") != "Bearer "+key {
		t.Errorf("asked at %s with %q", asked.Path, asked.Header.Get("Authorization"))
	}
	golden(t, "decisions.json", asked.Body)
	confidence := 0.9
	want := engine.Answer{
		Route: engine.Queue, Confidence: &confidence,
		Probabilities: map[engine.Route]float64{engine.Interrupt: 0.1, engine.Queue: 0.9},
		Predicates:    map[string]float64{"asked": 0.8, "paid": 0.1},
	}
	if diff := cmp.Diff(want, reply.Answer); diff != "" {
		t.Errorf("the answer differs (-want +got):\n%s", diff)
	}
	if x := reply.Calls[0]; x.Model != "gpt-6-luna" || x.InputTokens != 7 || x.RequestID != "req-1" || x.Prompt != string(asked.Body) {
		t.Errorf("the record says %+v", x)
	}
}

func TestDecisions_PredicateNamedRoute(t *testing.T) {
	h := judgetest.Decisions(t, judgetest.Answer{Body: `{"answers":[{"type":"choice","name":"route","choice":"skip"},{"type":"predicate","name":null,"probability":0.5}]}`})
	in := window()
	in.Predicates = []engine.Predicate{{Name: "route", Question: "Is it about a route?"}}
	reply, e := ask(t, made(t, questions.Options{API: questions.Decisions}, h), in)
	if e != nil {
		t.Fatal(e)
	}
	if diff := cmp.Diff(map[string]float64{"route": 0.5}, reply.Answer.Predicates); diff != "" {
		t.Errorf("predicates differ (-want +got):\n%s", diff)
	}
}

func TestDecisions_Answers(t *testing.T) {
	skip := engine.Answer{Route: engine.Skip}
	both := engine.Answer{Route: engine.Skip, Predicates: map[string]float64{"asked": 0.8, "paid": 0.1}}
	paid := engine.Answer{Route: engine.Skip, Predicates: map[string]float64{"paid": 0.1}}
	for _, c := range []struct {
		name, answers string
		class         judge.Class // "": accepted
		answer        engine.Answer
	}{
		{"none", ``, judge.Malformed, engine.Answer{}},
		{"no route", `{"type":"predicate","name":"asked","probability":0.8}`, judge.Malformed, engine.Answer{}},
		{"a refusal of the route", `{"type":"refusal","name":"route"}`, judge.Refused, engine.Answer{}},
		{"a refusal of the route, by its place", `{"type":"refusal","name":null},{"type":"predicate","probability":1}`, judge.Refused, engine.Answer{}},
		{"a boolean choice", `{"type":"choice","name":"route","choice":true}`, judge.Malformed, engine.Answer{}},
		{"a predicate under the route's name", `{"type":"predicate","name":"route","choice":"skip"}`, judge.Malformed, engine.Answer{}},
		{"a label outside the set", `{"type":"choice","name":"route","choice":"sk-secret-key"}`, judge.Malformed, engine.Answer{}},
		{"a route that was not offered", `{"type":"choice","name":"route","choice":"wait"}`, judge.Malformed, engine.Answer{}},
		{"by name, in any order", `{"type":"predicate","name":"paid","probability":0.1},{"type":"choice","name":"route","choice":"skip"},{"type":"predicate","name":"asked","probability":0.8}`, "", both},
		{"by place", `{"type":"choice","choice":"skip"},{"type":"predicate","name":null,"probability":0.8},{"type":"predicate","probability":0.1}`, "", both},
		{"a predicate refused", `{"type":"choice","name":"route","choice":"skip"},{"type":"refusal","name":"asked"},{"type":"predicate","name":"paid","probability":0.1}`, "", paid},
		{"a predicate that is a choice", `{"type":"choice","name":"route","choice":"skip"},{"type":"choice","name":"asked","choice":"skip","probability":0.8},{"type":"predicate","name":"paid","probability":0.1}`, "", paid},
		{"a predicate without a number", `{"type":"choice","name":"route","choice":"skip"},{"type":"predicate","name":"asked","probability":"NaN"}`, "", skip},
		{"an answer that is none", `{"type":"choice","name":"route","choice":"skip"},7,null`, "", skip},
		{"a name that was not asked", `{"type":"choice","name":"route","choice":"skip"},{"type":"predicate","name":"other","probability":1}`, "", skip},
		{"more answers than questions", `{"type":"choice","choice":"skip"},null,null,{"type":"predicate","probability":1}`, "", skip},
		{"two for one question", `{"type":"choice","name":"route","choice":"skip"},{"type":"choice","name":"route","choice":"queue"}`, "", skip},
		{
			"values of other types among the probabilities",
			`{"type":"choice","name":"route","choice":"skip","probabilities":[{"value":true,"probability":0.3},{"value":"skip","probability":0.3},{"value":"queue","probability":null}]}`,
			"",
			engine.Answer{Route: engine.Skip, Probabilities: map[engine.Route]float64{engine.Skip: 0.3}},
		},
	} {
		h := judgetest.Decisions(t, judgetest.Answer{Body: `{"model":"gpt-6-luna","answers":[` + c.answers + `]}`})
		in := window()
		in.Routes = in.Routes[:len(in.Routes)-1] // without wait
		reply, e := ask(t, made(t, questions.Options{API: questions.Decisions}, h), in)
		checkAnswer(t, c.name, c.class, c.answer, reply, e)
	}
}

func TestDecisions_RefusedPredicatesAreTold(t *testing.T) {
	h := judgetest.Decisions(t, judgetest.Answer{Body: `{"answers":[{"type":"choice","name":"route","choice":"skip"},{"type":"refusal","name":"paid"}]}`})
	reply, e := ask(t, made(t, questions.Options{API: questions.Decisions}, h), window())
	if e != nil {
		t.Fatal(e)
	}
	if got := reply.Calls[0].Message; !strings.Contains(got, `refused these predicates: "paid"`) {
		t.Errorf("the record says %q", got)
	}
}
