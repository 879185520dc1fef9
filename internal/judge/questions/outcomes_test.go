package questions_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"attend/internal/judge"
	"attend/internal/judge/judgetest"
	"attend/internal/judge/questions"
	"attend/internal/judge/wire"
)

// apis are the two APIs, each with a host and a good answer.
func apis() []struct {
	api    questions.API
	start  func(testing.TB, ...judgetest.Answer) *judgetest.Host
	answer string
} {
	return []struct {
		api    questions.API
		start  func(testing.TB, ...judgetest.Answer) *judgetest.Host
		answer string
	}{{questions.Jev, judgetest.SystemOne, jevAnswer}, {questions.Decisions, judgetest.Decisions, decisionsAnswer}}
}

func after(value string) map[string]string { return map[string]string{"Retry-After": value} }

// The table of docs/judges-hosted.md.
func TestOutcomes(t *testing.T) {
	code := func(code string) string { return `{"error":{"code":"` + code + `","message":"` + key + `"}}` }
	for _, c := range []struct {
		name   string
		answer judgetest.Answer
		class  judge.Class
		after  time.Duration
	}{
		{"400 with an empty message", judgetest.Answer{Status: 400}, judge.Permanent, 0},
		{"400 over the context length", judgetest.Answer{Status: 400, Body: `{"detail":{"error_type":"max_tokens_exceeded"}}`}, judge.Permanent, 0},
		{"401", judgetest.Answer{Status: 401}, judge.Permanent, 0},
		{"403", judgetest.Answer{Status: 403}, judge.Permanent, 0},
		{"404", judgetest.Answer{Status: 404}, judge.Permanent, 0},
		{"408", judgetest.Answer{Status: 408}, judge.Transient, 0},
		{"413", judgetest.Answer{Status: 413}, judge.Permanent, 0},
		{"422 with a list", judgetest.Answer{Status: 422, Body: `{"detail":[{"msg":"` + key + `"}]}`}, judge.Permanent, 0},
		{"429", judgetest.Answer{Status: 429}, judge.Transient, 0},
		{"429 for seconds", judgetest.Answer{Status: 429, Header: after("7")}, judge.Transient, 7 * time.Second},
		{"429 for milliseconds", judgetest.Answer{Status: 429, Header: map[string]string{"Retry-After-Ms": "1500", "Retry-After": "9"}}, judge.Transient, 1500 * time.Millisecond},
		{"429 until a date", judgetest.Answer{Status: 429, Header: map[string]string{"Date": "Mon, 30 Nov 2026 10:00:00 GMT", "Retry-After": "Mon, 30 Nov 2026 10:00:30 GMT"}}, judge.Transient, 30 * time.Second},
		{"429 for days", judgetest.Answer{Status: 429, Header: after("864000")}, judge.Transient, time.Hour},
		{"429 without credit", judgetest.Answer{Status: 429, Body: code("credit_balance_exhausted"), Header: after("7")}, judge.Permanent, 7 * time.Second},
		{"no route, for seconds", judgetest.Answer{Body: "{}", Header: after("7")}, judge.Malformed, 7 * time.Second},
		{"429 over the organization's limit", judgetest.Answer{Status: 429, Body: code("organization_spend_limit_exceeded")}, judge.Permanent, 0},
		{"429 over the project's limit", judgetest.Answer{Status: 429, Body: code("project_spend_limit_exceeded")}, judge.Permanent, 0},
		{"429 over the organization's use", judgetest.Answer{Status: 429, Body: code("organization_usage_limit_exceeded")}, judge.Permanent, 0},
		{"429 without quota", judgetest.Answer{Status: 429, Body: code("insufficient_quota")}, judge.Permanent, 0},
		{"500", judgetest.Answer{Status: 500, Body: "<html>" + key}, judge.Transient, 0},
		{"503 for seconds", judgetest.Answer{Status: 503, Header: after("7")}, judge.Transient, 7 * time.Second},
		{"504", judgetest.Answer{Status: 504}, judge.Transient, 0},
		{"529", judgetest.Answer{Status: 529}, judge.Transient, 0},
		{"a redirect", judgetest.Answer{Status: 307, Header: map[string]string{"Location": "http://127.0.0.1:9/" + key}}, judge.Permanent, 0},
		{"HTML", judgetest.Answer{Body: "<!doctype html><p>" + key, Header: map[string]string{"Content-Type": "text/html"}}, judge.Malformed, 0},
		{"an empty body", judgetest.Answer{}, judge.Malformed, 0},
		{"NaN", judgetest.Answer{}, judge.Malformed, 0}, // in the good answer, below
		{"a body over the cap", judgetest.Answer{Body: `{"pad":"` + strings.Repeat(" ", 1<<20) + `"}`}, judge.Malformed, 0},
		{"a connection that is reset", judgetest.Answer{Fault: judgetest.Reset}, judge.Transient, 0},
		{"a body that is cut", judgetest.Answer{Fault: judgetest.CutBody, Body: `{"model":"`}, judge.Transient, 0},
	} {
		for _, a := range apis() {
			answer := c.answer
			if c.name == "NaN" {
				answer.Body = strings.NewReplacer("0.95", "NaN", `"confidence":0.9,`, `"confidence":NaN,`).Replace(a.answer)
			}
			answer.Header = withID(answer.Header)
			h := a.start(t, answer)
			_, e := ask(t, made(t, questions.Options{API: a.api}, h), window())
			if e == nil || e.Class != c.class || e.RetryAfter != c.after {
				t.Errorf("%s, %s: got %+v, want class %s, again after %v", a.api, c.name, e, c.class, c.after)
				continue
			}
			answered := answer.Fault == ""
			if answered && (e.Status != max(answer.Status, http.StatusOK) || e.RequestID != "req-1") {
				t.Errorf("%s, %s: status %d, request %q", a.api, c.name, e.Status, e.RequestID)
			}
			checkSecrets(t, string(a.api)+", "+c.name, e)
			if n := len(h.Asked()); n != 1 {
				t.Errorf("%s, %s: asked %d times: a retry is the ladder's", a.api, c.name, n)
			}
		}
	}
}

func withID(header map[string]string) map[string]string {
	out := map[string]string{"X-Request-Id": "req-1"}
	for name, value := range header {
		out[name] = value
	}
	return out
}

// checkSecrets looks for the key, and for what was sent, where neither may be.
func checkSecrets(t *testing.T, name string, e *judge.Error) {
	t.Helper()
	for _, secret := range []string{key, "can you look?", "payments"} {
		if strings.Contains(e.Error(), secret) || strings.Contains(e.Calls[0].Message, secret) {
			t.Errorf("%s: the error holds %q: %v", name, secret, e)
		}
	}
	if strings.Contains(e.Calls[0].Answer, key) || strings.Contains(e.Calls[0].Prompt, key) {
		t.Errorf("%s: the record holds the key", name)
	}
	if e.Calls[0].Outcome == "" || e.Calls[0].Message == "" || e.Calls[0].Prompt == "" {
		t.Errorf("%s: the record says %+v", name, e.Calls[0])
	}
}

func TestOutcomes_TimeIsOver(t *testing.T) {
	for _, a := range apis() {
		for _, fault := range []judgetest.Fault{judgetest.SlowHeader, judgetest.SlowBody} {
			h := a.start(t, judgetest.Answer{Fault: fault, Body: a.answer[:20]})
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, err := made(t, questions.Options{API: a.api}, h).Judge(ctx, window())
			cancel()
			var e *judge.Error
			if !errors.As(err, &e) || e.Class != judge.Transient || e.Calls[0].Outcome != "timeout" {
				t.Errorf("%s, %s: got %+v, want a transient failure that was a timeout", a.api, fault, err)
			}
		}
	}
}

func TestOutcomes_NobodyListens(t *testing.T) {
	for _, a := range apis() {
		client := wire.New()
		t.Cleanup(client.Close)
		j, err := questions.New(questions.Options{API: a.api, Model: "m", Key: key, URL: "http://127.0.0.1:1/v1", Client: client})
		if err != nil {
			t.Fatal(err)
		}
		_, e := ask(t, j, window())
		if e == nil || e.Class != judge.Transient || !strings.Contains(e.Message, "127.0.0.1:1") {
			t.Errorf("%s: got %+v, want a transient failure that names the host", a.api, e)
			continue
		}
		checkSecrets(t, string(a.api), e)
	}
}

// An answer that was cut is tried again, wherever it was cut, and never taken.
func TestOutcomes_EveryPrefixIsTriedAgain(t *testing.T) {
	for _, a := range apis() {
		var answers []judgetest.Answer
		for i := range len(a.answer) {
			answers = append(answers, judgetest.Answer{Body: a.answer[:i]})
		}
		j := made(t, questions.Options{API: a.api}, a.start(t, append(answers, judgetest.Answer{Body: a.answer})...))
		for i := range len(a.answer) {
			if _, e := ask(t, j, window()); e == nil || e.Class != judge.Malformed {
				t.Errorf("%s, the first %d bytes of %d: got %v, want a malformed answer", a.api, i, len(a.answer), e)
			}
		}
		if _, e := ask(t, j, window()); e != nil {
			t.Errorf("%s, the whole answer: %v", a.api, e)
		}
	}
}

// One request asks everything, and asking again sends the same bytes.
func TestOutcomes_RequestsAreEqual(t *testing.T) {
	for _, a := range apis() {
		h := a.start(t, judgetest.Answer{Body: a.answer})
		j := made(t, questions.Options{API: a.api}, h)
		for range 3 {
			if _, e := ask(t, j, window()); e != nil {
				t.Fatal(e)
			}
		}
		asked := h.Asked()
		for i := range asked {
			if !bytes.Equal(asked[i].Body, asked[0].Body) || !json.Valid(asked[i].Body) {
				t.Errorf("%s: request %d differs: %s", a.api, i, fmt.Sprintf("%.200s", asked[i].Body))
			}
		}
		if len(asked) != 3 {
			t.Errorf("%s: %d requests for 3 windows", a.api, len(asked))
		}
	}
}
