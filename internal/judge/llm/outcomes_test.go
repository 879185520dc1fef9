package llm

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/judgetest"
)

// outcome is a row of the table in docs/judges-models.md.
type outcome struct {
	name  string
	said  judgetest.Said
	class judge.Class
	says  string
}

func testOutcomes(t *testing.T, api API, rows []outcome) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			e, x := fails(t, judgeOf(t, api, say(t, row.said), nil), input())
			if e.Class != row.class || !strings.Contains(e.Message, row.says) {
				t.Errorf("got %s %q, want %s %q", e.Class, e.Message, row.class, row.says)
			}
			if x.Outcome != string(row.class) || x.Message != e.Message || x.Prompt == "" || x.Answer == "" {
				t.Errorf("the record is %+v", x)
			}
			if strings.Contains(e.Error(), "OUTSIDE") {
				t.Errorf("the error %q repeats the answer", e)
			}
		})
	}
}

func TestOutcomes_Anthropic(t *testing.T) {
	testOutcomes(t, Anthropic, []outcome{
		{"refusal", judgetest.Said{Text: good, Refusal: "I will not. "}, judge.Refused, "refused to answer"},
		{"refusal with a valid answer", judgetest.Said{Text: good, Stop: "refusal"}, judge.Refused, "refused to answer"},
		{"max_tokens", judgetest.Said{Text: good, Stop: "max_tokens"}, judge.Malformed, "cut off"},
		{"model_context_window_exceeded", judgetest.Said{Text: good, Stop: "model_context_window_exceeded"}, judge.Permanent, "fills the model's context"},
		{"stop_sequence", judgetest.Said{Text: good, Stop: "stop_sequence"}, judge.Malformed, "did not end"},
		{"tool_use", judgetest.Said{Text: good, Stop: "tool_use"}, judge.Malformed, "did not end"},
		{"pause_turn", judgetest.Said{Text: good, Stop: "pause_turn"}, judge.Malformed, "did not end"},
		{"no stop reason", judgetest.Said{Raw: []byte(`{"content":[{"type":"text","text":"{\"route\":\"queue\"}"}],"stop_reason":null}`)}, judge.Malformed, "did not end"},
		{"no text", judgetest.Said{Raw: []byte(`{"content":[],"stop_reason":"end_turn"}`)}, judge.Malformed, "is not one JSON object"},
		{"another shape", judgetest.Said{Raw: []byte(`{"content":"OUTSIDE","stop_reason":"end_turn"}`)}, judge.Malformed, "not the shape of its API"},
	})
}

func TestOutcomes_OpenAI(t *testing.T) {
	testOutcomes(t, OpenAI, []outcome{
		{"refusal", judgetest.Said{Refusal: "I will not."}, judge.Refused, "refused to answer"},
		{"incomplete", judgetest.Said{Text: good, Stop: "incomplete"}, judge.Malformed, "cut off"},
		{"max_output_tokens", judgetest.Said{Text: good, Stop: "max_output_tokens"}, judge.Malformed, "cut off"},
		{"content_filter", judgetest.Said{Text: good, Stop: "content_filter"}, judge.Malformed, "a filter cut the model's answer off"},
		{"failed", judgetest.Said{Text: good, Stop: "failed"}, judge.Transient, "the model failed"},
		{"in_progress", judgetest.Said{Text: good, Stop: "in_progress"}, judge.Malformed, "did not end"},
		{"no message", judgetest.Said{Raw: []byte(`{"status":"completed","output":[{"type":"reasoning"}]}`)}, judge.Malformed, "is not one JSON object"},
		{"another shape", judgetest.Said{Raw: []byte(`["OUTSIDE"]`)}, judge.Malformed, "not the shape of its API"},
	})
}

func TestOutcomes_Gemini(t *testing.T) {
	rows := []outcome{
		{"blockReason", judgetest.Said{Refusal: "PROHIBITED_CONTENT"}, judge.Refused, "the prompt was blocked"},
		{"MAX_TOKENS", judgetest.Said{Text: good, Stop: "MAX_TOKENS"}, judge.Malformed, "cut off"},
		{"no candidates", judgetest.Said{Raw: []byte(`{"candidates":[]}`)}, judge.Malformed, "gave no answer"},
		{"no text", judgetest.Said{Raw: []byte(`{"candidates":[{"finishReason":"STOP","content":{}}]}`)}, judge.Malformed, "is not one JSON object"},
		{"another shape", judgetest.Said{Raw: []byte(`{"candidates":{}}`)}, judge.Malformed, "not the shape of its API"},
	}
	for _, reason := range []string{"SAFETY", "RECITATION", "LANGUAGE", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL"} {
		rows = append(rows, outcome{reason, judgetest.Said{Text: good, Stop: reason}, judge.Refused, "the model's answer was blocked"})
	}
	testOutcomes(t, Gemini, rows)
}

func TestOutcomes_Chat(t *testing.T) {
	testOutcomes(t, Chat, []outcome{
		{"refusal", judgetest.Said{Refusal: "I will not."}, judge.Refused, "refused to answer"},
		{"content_filter", judgetest.Said{Text: good, Stop: "content_filter"}, judge.Refused, "held the model's answer back"},
		{"length", judgetest.Said{Text: good, Stop: "length"}, judge.Malformed, "cut off"},
		{"tool_calls", judgetest.Said{Text: good, Stop: "tool_calls"}, judge.Malformed, "did not end"},
		{"an error with 200", judgetest.Said{Raw: []byte(`{"error":{"code":502,"message":"OUTSIDE"}}`)}, judge.Malformed, "gave no answer"},
		{"null content", judgetest.Said{Raw: []byte(`{"choices":[{"finish_reason":"stop","message":{"content":null}}]}`)}, judge.Malformed, "is not one JSON object"},
		{"another shape", judgetest.Said{Raw: []byte(`{"choices":"OUTSIDE"}`)}, judge.Malformed, "not the shape of its API"},
	})
}

// Some servers leave the reason out: the text is checked all the same.
func TestOutcomes_NoReasonToFinish(t *testing.T) {
	for api, raw := range map[API]string{
		Gemini: `{"candidates":[{"content":{"parts":[{"text":"{\"route\":\"skip\"}"}]}}]}`,
		Chat:   `{"choices":[{"message":{"content":"{\"route\":\"skip\"}"}}]}`,
	} {
		reply, err := judgeOf(t, api, say(t, judgetest.Said{Raw: []byte(raw)}), nil).Judge(t.Context(), input())
		if err != nil || reply.Answer.Route != engine.Skip || reply.Judge.Model != "model-1" {
			t.Errorf("%s: got %+v, %v", api, reply, err)
		}
	}
}

// An error carries what the host said of the next call, whatever it is (seed,
// "Errors from the hosted judges").
func TestOutcomes_RetryAfter(t *testing.T) {
	for _, api := range apis() {
		host := say(t, judgetest.Said{Text: "no", Header: map[string]string{"retry-after": "3"}})
		if e, x := fails(t, judgeOf(t, api, host, nil), input()); e.RetryAfter != 3*time.Second || x.RetryAfterMs != 3000 {
			t.Errorf("%s: got %+v", api, e)
		}
	}
}

// Every API, every status of the seed's table: see wire for the rest of it.
func TestOutcomes_Statuses(t *testing.T) {
	for _, api := range apis() {
		for status, class := range map[int]judge.Class{
			400: judge.Permanent, 401: judge.Permanent, 403: judge.Permanent, 404: judge.Permanent, 413: judge.Permanent, 422: judge.Permanent,
			408: judge.Transient, 429: judge.Transient, 500: judge.Transient, 503: judge.Transient, 529: judge.Transient, 307: judge.Permanent,
		} {
			host := say(t, judgetest.Said{Status: status, Raw: []byte(`{"error":{"message":"OUTSIDE"}}`), Header: map[string]string{"request-id": "req_1", "retry-after": "3"}})
			e, x := fails(t, judgeOf(t, api, host, nil), input())
			if e.Class != class || e.Status != status || e.RequestID != "req_1" || x.Status != status || x.Outcome != string(class) {
				t.Errorf("%s %d: got %s %v, record %+v", api, status, e.Class, e, x)
			}
			if n := len(host.Asked()); n != 1 {
				t.Errorf("%s %d: asked %d times", api, status, n)
			}
			if strings.Contains(e.Error(), "OUTSIDE") || strings.Contains(e.Error(), "sk-") {
				t.Errorf("%s %d: the error %q repeats the body or the key", api, status, e)
			}
		}
	}
}

func TestOutcomes_Timeout(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	host := judgetest.ServeModels(t, func(judgetest.Asked) judgetest.Said {
		cancel(errors.New("enough"))
		<-ctx.Done()
		return judgetest.Said{Status: http.StatusTeapot}
	})
	_, err := judgeOf(t, Anthropic, host, nil).Judge(ctx, input())
	var e *judge.Error
	if !errors.As(err, &e) || e.Class != judge.Transient || len(e.Calls) != 1 {
		t.Errorf("got %v", err)
	}
}

// What a model may write, whatever its host promised.
func TestOutcomes_Answers(t *testing.T) {
	offered := input()
	offered.Routes = offered.Routes[:5]
	for text, says := range map[string]string{
		``:                                      "is not one JSON object",
		`null`:                                  "is not one JSON object",
		`[]`:                                    "is not one JSON object",
		`"queue"`:                               "is not one JSON object",
		`queue`:                                 "is not one JSON object",
		`{"route":"queue"`:                      "is not one JSON object",
		`{"route":"queue"}}`:                    "is not one JSON object",
		`{"route":"queue"} {"route":"skip"}`:    "is not one JSON object",
		"```json\n{\"route\":\"queue\"}\n```":   "is not one JSON object",
		`Sure! {"route":"queue"}`:               "is not one JSON object",
		`{"route":"queue",}`:                    "is not one JSON object",
		`{'route':'queue'}`:                     "is not one JSON object",
		`{}`:                                    "has no route",
		`{"confidence":1}`:                      "has no route",
		`{"Route":"queue"}`:                     "has no route",
		`{"route":"queue","why":"OUTSIDE}`:      "is not one JSON object",
		`{"route":"queue","route":"skip"}`:      "has a route twice",
		`{"route":"queue","\u0072oute":"skip"}`: "has a route twice",
		`{"route":"OUTSIDE"}`:                   "is no route",
		`{"route":"Queue"}`:                     "is no route",
		`{"route":""}`:                          "is no route",
		`{"route":null}`:                        "is no route",
		`{"route":["queue"]}`:                   "has a route that is no text",
		`{"route":"wait"}`:                      "is wait, which was not offered",
		`{"route":"queue","confidence":NaN}`:    "is not one JSON object",
	} {
		a, err := parse(text, offered)
		if err == nil || err.Class != judge.Malformed || !strings.Contains(err.Message, says) || strings.Contains(err.Message, "OUTSIDE") {
			t.Errorf("%s: got %+v, %v; want %q", text, a, err, says)
		}
	}
}

// Only the route can fail an answer (design, section 5, 12).
func TestOutcomes_WhatIsNoNumberIsAbsent(t *testing.T) {
	half := 0.5
	for text, want := range map[string]engine.Answer{
		`{"route":"queue","confidence":"0.9"}`:                                         {},
		`{"route":"queue","confidence":null}`:                                          {},
		`{"route":"queue","confidence":1e999}`:                                         {},
		`{"confidence":{},"why":["OUTSIDE"],"why":2,"route":"queue"}`:                  {},
		`{"route":"queue","probabilities":[]}`:                                         {},
		`{"route":"queue","probabilities":null,"predicates":"p1"}`:                     {},
		`{"route":"queue","probabilities":{"act":1,"skip":0.5,"note":"1","ask":null}}`: {Probabilities: map[engine.Route]float64{engine.Skip: 0.5}},
		`{"route":"queue","predicates":{"asked":1,"p3":1,"p1":true,"p2":0.5},"confidence":0.5}`: {
			Predicates: map[string]float64{"customer impact": 0.5}, Confidence: &half,
		},
	} {
		want.Route = engine.Queue
		a, err := parse(text, input())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, a, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: -want +got\n%s", text, diff)
		}
	}
}

// So it is with what stands beside the text: model and tokens.
func TestOutcomes_OddFrames(t *testing.T) {
	for api, raw := range map[API]string{
		Anthropic: `{"model":7,"usage":{"input_tokens":"many","output_tokens":3},"stop_reason":"end_turn","content":[{"type":"text","text":"{\"route\":\"skip\"}"}]}`,
		OpenAI:    `{"model":null,"usage":{"input_tokens":1e999,"output_tokens":3},"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"{\"route\":\"skip\"}"}]}]}`,
		Gemini:    `{"modelVersion":{},"usageMetadata":{"promptTokenCount":-1,"candidatesTokenCount":3},"candidates":[{"content":{"parts":[{"text":"{\"route\":\"skip\"}"}]}}]}`,
		Chat:      `{"model":[],"usage":{"prompt_tokens":true,"completion_tokens":3.0},"choices":[{"message":{"content":"{\"route\":\"skip\"}"}}]}`,
	} {
		for _, body := range []string{raw, regexp.MustCompile(`("usage[A-Za-z]*":)\{[^}]*\}`).ReplaceAllString(raw, `$1"free"`)} {
			reply, err := judgeOf(t, api, say(t, judgetest.Said{Raw: []byte(body)}), nil).Judge(t.Context(), input())
			if err != nil || reply.Answer.Route != engine.Skip || reply.Judge.Model != "model-1" {
				t.Errorf("%s: got %+v, %v", api, reply, err)
				continue
			}
			want := int64(3)
			if body != raw {
				want = 0
			}
			if x := reply.Calls[0]; x.InputTokens != 0 || x.OutputTokens != want {
				t.Errorf("%s: %d and %d tokens, want 0 and %d", api, x.InputTokens, x.OutputTokens, want)
			}
		}
	}
}

// Numbers out of range are dropped by the engine, and never fail an attempt.
func TestOutcomes_NumbersOutOfRange(t *testing.T) {
	in := input()
	a, failure := parse(`{"predicates":{"p1":1.5,"p2":1e999},"probabilities":{"queue":-1,"skip":1e-999},"route":"queue","confidence":-0.1}`, in)
	if failure != nil {
		t.Fatal(failure)
	}
	set := engine.Defaults()
	v, err := engine.Decide(nil, &set, &engine.Window{ID: "w", Offered: engine.Routes()}, a)
	if err != nil {
		t.Fatal(err)
	}
	if v.Route != engine.Queue || v.Confidence != nil || len(v.Predicates) != 0 || v.Probabilities.Of(engine.Queue) != 1 {
		t.Errorf("got %+v", v)
	}
	if _, err := json.Marshal(a); err != nil {
		t.Errorf("the answer cannot be written down: %v", err)
	}
}

// An answer that breaks off, in its frame or within it, is tried again: never
// is a part of it taken.
func TestOutcomes_EveryPrefix(t *testing.T) {
	for _, api := range apis() {
		t.Run(string(api), func(t *testing.T) {
			whole := judgetest.Frame(string(api), judgetest.Asked{Model: "m"}, judgetest.Said{Text: good})
			var body []byte
			host := judgetest.ServeModels(t, func(judgetest.Asked) judgetest.Said { return judgetest.Said{Raw: body} })
			j := judgeOf(t, api, host, nil)
			in := input()
			in.Window.Events, in.Guidance = nil, "" // of no matter here, and asked often
			for n := range whole {
				body = whole[:n:n]
				if n == 0 {
					body = []byte{}
				}
				if e, _ := fails(t, j, in); e.Class != judge.Malformed && e.Class != judge.Transient {
					t.Fatalf("%s: got %v", body, e)
				}
			}
			for n := range good {
				body = judgetest.Frame(string(api), judgetest.Asked{Model: "m"}, judgetest.Said{Text: good[:n]})
				if e, _ := fails(t, j, in); e.Class != judge.Malformed {
					t.Fatalf("%s: got %v", body, e)
				}
			}
			body = whole
			if _, err := j.Judge(t.Context(), input()); err != nil {
				t.Error(err)
			}
		})
	}
}
