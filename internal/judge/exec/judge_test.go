package exec

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/wire"
)

func TestJudge_IsAskedAndAnswers(t *testing.T) {
	const (
		answer   = `{"route":"queue","probabilities":{"queue":0.75,"wait":0.25,"skip":null},"predicates":{"asked":0.5,"other":1},"confidence":0.9,"model":"m-1","usage":{"input_tokens":7,"output_tokens":2},"why":"because"}` + "\n"
		question = `{"scope":"chat:1","now":1500,"routes":[{"route":"queue","criterion":"work"},{"route":"skip"}],"recent":[{"window":"w0","at":900,"route":"note","judgedRoute":"skip"}],` +
			`"guidance":"be kind","predicates":[{"name":"asked","question":"asked?"},{"name":"route","question":"a route?"}],` +
			`"facts":{"mid":true},"window":{"id":"w1","reason":"flush","waits":1,"dropped":2,"gap":true,"settledAt":1400,` +
			`"events":[{"id":"e1","name":"message.created","kind":"flush","seenAt":1300,"text":"` + state + `","data":{"from":"bob"}}]}`
	)
	host := serve(t, func(w http.ResponseWriter, r *http.Request, asked string) {
		if diff := cmp.Diff(question+`,"images":[{"data":"`+pixel+`","mimeType":"image/gif"}]}`, asked); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
		if got := r.Header.Get("Authorization"); got != "Bearer "+key {
			t.Errorf("the key came as %q", got)
		}
		w.Header().Set("X-Request-Id", "r-1")
		_, _ = w.Write([]byte(answer))
	})
	for name, e := range map[string]Endpoint{"http": host, "command": command(t, "say", answer)} {
		t.Run(name, func(t *testing.T) {
			reply, err := Judge(e).Judge(t.Context(), input())
			if err != nil {
				t.Fatal(err)
			}
			confidence := 0.9
			want := judge.Reply{
				Answer: engine.Answer{
					Route: engine.Queue, Probabilities: map[engine.Route]float64{engine.Queue: 0.75, engine.Wait: 0.25},
					Predicates: map[string]float64{"asked": 0.5}, Confidence: &confidence,
				},
				Judge: engine.JudgeName{Model: "m-1"},
				Calls: []engine.Exchange{{
					Model: "m-1", Outcome: "answered", InputTokens: 7, OutputTokens: 2, Prompt: question + "}", Answer: answer,
					Images: []engine.ImageRef{{SHA256: "ef1955ae757c8b966c83248350331bd3a30f658ced11f387f8ebf05ab3368629", MIME: "image/gif", Bytes: 42}},
				}},
			}
			if name == "http" {
				want.Calls[0].Status, want.Calls[0].RequestID = 200, "r-1"
			}
			if diff := cmp.Diff(want, reply, cmpopts.IgnoreFields(engine.Exchange{}, "TookMs")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestJudge_AWindowThatIsTooLongIsCut(t *testing.T) {
	in := input()
	in.Window.Events = nil
	for range 3000 {
		in.Window.Events = append(in.Window.Events, engine.EventView{Name: "log", Kind: engine.Consequence, Text: strings.Repeat("x", 1000)})
	}
	e := serve(t, func(w http.ResponseWriter, _ *http.Request, question string) {
		var asked struct {
			Window struct {
				Cut    int
				Events []json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(question), &asked); err != nil {
			t.Error(err)
		}
		if w := asked.Window; w.Cut == 0 || w.Cut+len(w.Events) != 3000 || len(question) > maxInput+1024 {
			t.Errorf("%d bytes, %d events and %d cut", len(question), len(w.Events), w.Cut)
		}
		_, _ = w.Write([]byte(`{"route":"skip"}`))
	})
	reply, err := Judge(e).Judge(t.Context(), in)
	if err != nil || reply.Calls[0].Cut == 0 || len(reply.Calls[0].Prompt) > 64<<10 {
		t.Errorf("%v: cut %d, a prompt of %d bytes on the record", err, reply.Calls[0].Cut, len(reply.Calls[0].Prompt))
	}
}

func TestJudge_MalformedCarriesRetryAfter(t *testing.T) {
	_, err := Judge(serve(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		w.Header().Set("Retry-After", "7")
		_, _ = w.Write([]byte("{}"))
	})).Judge(t.Context(), input())
	if e, _ := exchange(t, err); e.Class != judge.Malformed || e.RetryAfter != 7*time.Second {
		t.Errorf("got %+v", e)
	}
}

func TestParse_SystemOne(t *testing.T) {
	a, err := parse([]byte(`{"model":"jev-1.13.0","answers":{
		"route":{"type":"choice","choice":"skip","confidence":0.95,"probabilities":{"queue":0.03,"skip":0.97}},
		"asked":{"type":"noul","noul":0.92},
		"urgency":{"type":"score","score":1.4}},"usage":{"input_tokens":43,"output_tokens":0}}`), input())
	if err != nil {
		t.Fatal(err)
	}
	confidence := 0.95
	want := answer{
		Answer: engine.Answer{
			Route: engine.Skip, Probabilities: map[engine.Route]float64{engine.Queue: 0.03, engine.Skip: 0.97},
			Predicates: map[string]float64{"asked": 0.92}, Confidence: &confidence,
		},
		model: "jev-1.13.0", usage: usage{Input: wire.Number{Value: 43, Given: true}, Output: wire.Number{Given: true}},
	}
	if diff := cmp.Diff(want, a, cmp.AllowUnexported(answer{}, usage{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestParse_SaysWhatIsWrong(t *testing.T) {
	for text, says := range map[string]string{
		``:                                       "the answer is empty",
		`queue`:                                  "the answer is not one JSON object",
		`"queue"`:                                "the answer is not one JSON object",
		`null`:                                   "the answer is not one JSON object",
		`[{"route":"queue"}]`:                    "the answer is not one JSON object",
		`{"route":"queue"} {}`:                   "the answer is not one JSON object",
		`{"route":"que`:                          "the answer is not one JSON object",
		`{}`:                                     "the answer has no route",
		`{"Route":"queue"}`:                      "the answer has no route",
		`{"route":null}`:                         "the answer's route is none of interrupt, queue, note",
		`{"route":""}`:                           "the answer's route is none of interrupt",
		`{"route":"` + state + `"}`:              "the answer's route is none of interrupt",
		`{"route":"wait"}`:                       `the judge answered "wait", which was not offered`,
		`{"route":1}`:                            "the answer's route is not text",
		`{"route":"skip","answers":1}`:           "both a route and answers",
		`{"route":"queue","route":"skip"}`:       "the answer has route twice",
		`{"route":"queue","\u0072oute":"queue"}`: "the answer has route twice",
		`{"answers":{"route":{"choice":"skip"}},"answers":{}}`:     "the answer has answers twice",
		`{"answers":{"route":{"choice":"skip"},"route":{}}}`:       "the answer's answers: it has route twice",
		`{"answers":{"route":{"choice":"skip","choice":"queue"}}}`: "the answer to the route has choice twice",
		`{"answers":[]}`:                           "the answer's answers: it is not one JSON object",
		`{"answers":{}}`:                           "the answer has no route",
		`{"answers":{"route":"skip"}}`:             "the answer to the route is not one JSON object",
		`{"answers":{"route":{"type":"refusal"}}}`: "the answer's choice is none of interrupt",
	} {
		_, err := parse([]byte(text), input())
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), state) {
			t.Errorf("%s: %v, want it to say %q", text, err, says)
		}
	}
}

func TestParse_WhatIsNotSaidIsAbsent(t *testing.T) {
	for _, text := range []string{
		`{"route":"skip"}`,
		` {"route":"skip","probabilities":null,"predicates":null,"confidence":null,"model":null,"usage":null} `,
		`{"route":"skip","probabilities":{"skip":null},"predicates":{"asked":null}}`,
		`{"answers":{"route":{"choice":"skip"}}}`,
		`{"route":"skip","probabilities":[0.5],"predicates":7,"confidence":"high","model":7,"usage":7}`,
		`{"route":"skip","probabilities":{"skip":"1","skipp":1},"predicates":{"asked":true,"other":1},"confidence":1e999}`,
		`{"route":"skip","why":1,"why":2,"confidence":1,"confidence":{},"usage":{"input_tokens":-1}}`,
		`{"answers":{"route":{"choice":"skip","confidence":[]},"asked":{"noul":"yes"}}}`,
		`{"answers":{"route":{"choice":"skip"},"asked":0.5}}`,
		`{"answers":{"route":{"choice":"skip","noul":1},"asked":{"type":"refusal"}}}`,
	} {
		a, err := parse([]byte(text), input())
		if diff := cmp.Diff(engine.Answer{Route: engine.Skip}, a.Answer); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got\n%s", text, err, diff)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"route":"queue","probabilities":{"queue":1}}`))
	f.Add([]byte(`{"answers":{"route":{"choice":"skip"}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := parse(raw, input())
		if err == nil && a.Route != engine.Queue && a.Route != engine.Skip {
			t.Errorf("took the route %v, which was not offered", a.Route)
		}
		if _, err := parseContext(raw); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("a message of more than a line: %q", err)
		}
		if images, err := parseImages(raw); err == nil && len(images) > maxImages {
			t.Errorf("took %d images", len(images))
		}
	})
}

// exchange returns the one exchange of an error, which must be a judge's.
func exchange(t *testing.T, err error) (*judge.Error, engine.Exchange) {
	t.Helper()
	var e *judge.Error
	if !errors.As(err, &e) || len(e.Calls) != 1 {
		t.Fatalf("%#v is no judge's error with one exchange", err)
	}
	return e, e.Calls[0]
}
