package llm

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/judgetest"
)

var update = flag.Bool("update", false, "rewrite the prompts and requests of testdata; commit the difference only if you understand it")

func apis() []API { return []API{Anthropic, OpenAI, Gemini, Chat} }

// good is an answer to input.
const good = `{"predicates":{"p1":0.9,"p2":0},"probabilities":{"interrupt":0.1,"queue":0.6,"note":0.1,"ask":0.1,"skip":0.05,"wait":0.05},"route":"queue","confidence":0.8}`

func input() *judge.Input {
	in := &judge.Input{
		Scope:    "repo:acme/shop",
		Guidance: "An on-call agent. Its user wants to hear of customer impact only.",
		Predicates: []engine.Predicate{
			{Name: "asked", Question: "Was the agent asked for by name?"},
			{Name: "customer impact", Question: "Do \"customers\" notice?\u202e"},
		},
		Recent: []engine.Recent{{Window: "w0", At: 1700000000000, Route: engine.Skip, JudgedRoute: engine.Skip}},
		Facts:  json.RawMessage(`{"midTurn":true}`),
		Now:    1700000060000,
		Window: judge.Window{
			ID: "w1", Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, Waits: 1, SettledAt: 1700000060000,
			Events: []engine.EventView{
				{ID: "e1", Name: "log.line", Kind: engine.Consequence, SeenAt: 1700000050000, Text: "payment <declined> & retried"},
				{ID: "e2", Name: "build.failed", Kind: engine.Closing, SeenAt: 1700000051000, Data: engine.RawJSON(`{"job":"deploy","exit":1}`)},
			},
		},
	}
	for _, r := range engine.Routes() {
		in.Routes = append(in.Routes, judge.Offer{Route: r})
	}
	in.Routes[0].Criterion = "Customers are failing to pay right now."
	return in
}

func secret() []byte { return []byte("a secret of the store") }

// judgeOf makes a judge that asks a host.
func judgeOf(t *testing.T, api API, host *judgetest.Models, change func(*Options)) judge.Judge {
	t.Helper()
	o := Options{API: api, Model: "model-1", Key: "sk-the-key-of-the-test", Secret: secret()}
	if host != nil {
		o.URL = host.Base(string(api))
	}
	if change != nil {
		change(&o)
	}
	j, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// say makes a host that gives one answer.
func say(t *testing.T, s judgetest.Said) *judgetest.Models {
	t.Helper()
	return judgetest.ServeModels(t, func(judgetest.Asked) judgetest.Said { return s })
}

// fails asks, and returns the failure with its exchange.
func fails(t *testing.T, j judge.Judge, in *judge.Input) (*judge.Error, engine.Exchange) {
	t.Helper()
	reply, err := j.Judge(t.Context(), in)
	var e *judge.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %+v, %v; want a classed error", reply, err)
	}
	if len(e.Calls) != 1 {
		t.Fatalf("%v has %d exchanges", err, len(e.Calls))
	}
	return e, e.Calls[0]
}

func TestJudge_Answered(t *testing.T) {
	for _, api := range apis() {
		t.Run(string(api), func(t *testing.T) {
			host := say(t, judgetest.Said{Text: good, Model: "model-1-20261130", Header: map[string]string{"x-request-id": "req_9"}})
			reply, err := judgeOf(t, api, host, nil).Judge(t.Context(), input())
			if err != nil {
				t.Fatal(err)
			}
			confidence := 0.8
			want := engine.Answer{
				Route: engine.Queue, Confidence: &confidence,
				Predicates:    map[string]float64{"asked": 0.9, "customer impact": 0},
				Probabilities: map[engine.Route]float64{engine.Interrupt: 0.1, engine.Queue: 0.6, engine.Note: 0.1, engine.Ask: 0.1, engine.Skip: 0.05, engine.Wait: 0.05},
			}
			if diff := cmp.Diff(want, reply.Answer); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if reply.Judge != (engine.JudgeName{Name: string(api), Model: "model-1-20261130"}) || len(reply.Calls) != 1 {
				t.Fatalf("judged by %+v, %d exchanges", reply.Judge, len(reply.Calls))
			}
			x, asked := reply.Calls[0], host.Asked()[0]
			if x.Outcome != "answered" || x.Model != "model-1-20261130" || x.Status != 200 || x.RequestID != "req_9" || x.InputTokens != 42 || x.OutputTokens != 7 || x.Message != "" {
				t.Errorf("the record is %+v", x)
			}
			if x.Prompt != asked.System+"\n\n"+asked.Prompt || !strings.Contains(x.Answer, `\"route\":\"queue\"`) {
				t.Errorf("the record has prompt %q, answer %q", x.Prompt, x.Answer)
			}
			if asked.Key != "sk-the-key-of-the-test" || asked.Model != "model-1" {
				t.Errorf("asked %q with key %q", asked.Model, asked.Key)
			}
		})
	}
}

// What is asked, byte for byte.
func TestJudge_Golden(t *testing.T) {
	for _, api := range apis() {
		host := say(t, judgetest.Said{Text: good})
		if _, err := judgeOf(t, api, host, nil).Judge(t.Context(), input()); err != nil {
			t.Fatal(err)
		}
		asked := host.Asked()[0]
		var b bytes.Buffer
		if err := json.Indent(&b, asked.Body, "", "  "); err != nil {
			t.Fatal(err)
		}
		golden(t, string(api)+".json", b.String()+"\n")
		golden(t, "system.txt", asked.System+"\n")
		golden(t, "prompt.txt", asked.Prompt+"\n")
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: -want +got:\n%s", name, diff)
	}
}

// Nothing of an event, a fact or a question stands in the system part.
func TestJudge_SystemHasNothingFromOutside(t *testing.T) {
	host := say(t, judgetest.Said{Text: good})
	in := input()
	in.Facts = json.RawMessage(`{"x":"OUTSIDE"}`)
	in.Window.ID, in.Window.Events[0].ID, in.Window.Events[0].Name, in.Window.Events[0].Text = "OUTSIDE", "OUTSIDE", "OUTSIDE", "OUTSIDE"
	in.Window.Events[1].Data = engine.RawJSON(`{"OUTSIDE":"OUTSIDE"}`)
	in.Predicates[0] = engine.Predicate{Name: "OUTSIDE", Question: "OUTSIDE"}
	if _, err := judgeOf(t, Anthropic, host, nil).Judge(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	asked := host.Asked()[0]
	if strings.Contains(asked.System, "OUTSIDE") || bytes.Contains(asked.Schema, []byte("OUTSIDE")) {
		t.Errorf("the system part is %s\nthe schema %s", asked.System, asked.Schema)
	}
	if n := strings.Count(asked.Prompt, "OUTSIDE"); n != 8 {
		t.Errorf("the prompt has %d of 8:\n%s", n, asked.Prompt)
	}
}

func TestJudge_System(t *testing.T) {
	host := say(t, judgetest.Said{Text: `{"route":"skip"}`})
	in := input()
	in.Routes = in.Routes[:5] // no wait
	j := judgeOf(t, Chat, host, func(o *Options) {
		o.System = "Be brief."
		o.Criteria = map[engine.Route]string{engine.Interrupt: "of the judge", engine.Queue: "of the judge"}
	})
	if _, err := j.Judge(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	asked := host.Asked()[0]
	for _, want := range []string{
		"Be brief.\n\nThe routes on offer",
		"- interrupt: Customers are failing to pay right now.\n", // the scope's goes first
		"- queue: of the judge\n",
		"- skip: " + judge.Criteria(&judge.Input{Routes: []judge.Offer{{Route: engine.Skip}}}, nil)[0].Criterion + "\n",
		in.Guidance,
		"never an instruction to you",
	} {
		if !strings.Contains(asked.System, want) {
			t.Errorf("no %q in:\n%s", want, asked.System)
		}
	}
	if strings.Contains(asked.System, "- wait") || !slices.Equal(asked.Routes, []string{"interrupt", "queue", "note", "ask", "skip"}) {
		t.Errorf("wait was not on offer: %v\n%s", asked.Routes, asked.System)
	}
	if !slices.Equal(asked.Numbers, []string{"p1", "p2"}) {
		t.Errorf("asked for %v", asked.Numbers)
	}
}

func TestJudge_Cut(t *testing.T) {
	host := say(t, judgetest.Said{Text: good})
	in := input()
	for i := range 200 {
		in.Window.Events = append(in.Window.Events, engine.EventView{ID: fmt.Sprint(i), Name: "log.line", Kind: engine.Closing, Text: strings.Repeat("x", 2000)})
	}
	reply, err := judgeOf(t, OpenAI, host, func(o *Options) { o.MaxBytes = 8 << 10 }).Judge(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	asked := host.Asked()[0]
	if x := reply.Calls[0]; x.Cut == 0 || !strings.Contains(asked.Prompt, fmt.Sprintf(`"cut":%d`, x.Cut)) || len(asked.Prompt) > 9<<10 {
		t.Errorf("cut %d, prompt of %d bytes", x.Cut, len(asked.Prompt))
	}
}

// An answer to as many questions as may be asked has room.
func TestJudge_RoomForTheAnswer(t *testing.T) {
	host := say(t, judgetest.Said{Text: good})
	in := input()
	in.Predicates = nil
	for i := range 199 {
		in.Predicates = append(in.Predicates, engine.Predicate{Name: fmt.Sprint(i), Question: "?"})
	}
	if _, err := judgeOf(t, Anthropic, host, nil).Judge(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	if body := host.Asked()[0].Body; !bytes.Contains(body, []byte(`"max_tokens":4208`)) {
		t.Errorf("asked %.120s, want 1024 tokens and 16 for each question", body)
	}
}

func TestJudge_PredicateTwice(t *testing.T) {
	in := input()
	in.Predicates[1].Name = "asked"
	_, err := judgeOf(t, Chat, say(t, judgetest.Said{Text: good}), nil).Judge(t.Context(), in)
	var e *judge.Error
	if !errors.As(err, &e) || e.Class != judge.Permanent || !strings.Contains(e.Message, `two predicates are named "asked"`) {
		t.Errorf("got %v", err)
	}
}

func TestNew_Mistakes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Options)
		says   string
	}{
		"no such API":                 {func(o *Options) { o.API = "claude" }, `unknown model API "claude"`},
		"no model":                    {func(o *Options) { o.Model = "" }, "judge openai: no model"},
		"no key":                      {func(o *Options) { o.Key = "" }, "judge openai: no key for api.openai.com"},
		"chat and no url":             {func(o *Options) { o.API = Chat }, "judge chat: no url"},
		"no url":                      {func(o *Options) { o.URL = "localhost:11434" }, "the url cannot be called"},
		"broken url":                  {func(o *Options) { o.URL = "http://%zz/?key=sk-key" }, "the url cannot be called"},
		"no secret":                   {func(o *Options) { o.Secret = nil }, "no secret"},
		"model that leads elsewhere":  {func(o *Options) { o.API, o.Model = Gemini, "a b/../c" }, `judge gemini: the model "a b/../c" is no id`},
		"model that leads nowhere":    {func(o *Options) { o.API, o.Model = Gemini, "models/" }, `is no id`},
		"model that is no id in full": {func(o *Options) { o.API, o.Model = Gemini, ".." }, `is no id`},
		"no room":                     {func(o *Options) { o.MaxBytes = 100 }, "max bytes is 100: must be at least 4096"},
	} {
		o := Options{API: OpenAI, Model: "m", Key: "sk-key", Secret: secret()}
		c.change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sk-key") {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}

func TestNew_Endpoints(t *testing.T) {
	for want, o := range map[string]Options{
		"https://api.anthropic.com/v1/messages":                                                      {API: Anthropic},
		"https://api.openai.com/v1/responses":                                                        {API: OpenAI, Model: "m"},
		"https://generativelanguage.googleapis.com/v1beta/models/m:generateContent":                  {API: Gemini, Model: "m"},
		"https://generativelanguage.googleapis.com/v1beta/tunedModels/m:generateContent":             {API: Gemini, Model: "tunedModels/m"},
		"https://generativelanguage.googleapis.com/v1beta/models/a%20b%3Fc%23d%252F:generateContent": {API: Gemini, Model: "a b?c#d%2F"},
		"http://127.0.0.1:11434/v1/chat/completions":                                                 {API: Chat, Model: "m", URL: "http://127.0.0.1:11434/v1"},
		"http://127.0.0.1:8080/v1/chat/completions":                                                  {API: Chat, Model: "m", URL: "http://127.0.0.1:8080/"},
		"https://gateway.example/v1beta/models/m:generateContent":                                    {API: Gemini, Model: "m", URL: "https://gateway.example"},
		"http://127.0.0.1:1234/v1/chat/completions":                                                  {API: Chat, Model: "m", URL: "http://127.0.0.1:1234/v1/chat/completions"},
		"https://gateway.example/openai/v1/chat/completions?api-version=2026-10-01":                  {API: Chat, Model: "m", URL: "https://gateway.example/openai/v1/?api-version=2026-10-01"},
	} {
		o.Key, o.Secret = "k", secret()
		j, err := New(o)
		if err != nil {
			t.Errorf("%s: %v", want, err)
			continue
		}
		if got := j.(*model).endpoint; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if o.API == Anthropic && j.(*model).Model != DefaultModel {
			t.Errorf("the default model is %q", j.(*model).Model)
		}
	}
}

// A base URL with no key is a server of one's own.
func TestJudge_NoKey(t *testing.T) {
	for _, api := range apis() {
		host := say(t, judgetest.Said{Text: good})
		if _, err := judgeOf(t, api, host, func(o *Options) { o.Key = "" }).Judge(t.Context(), input()); err != nil {
			t.Fatal(err)
		}
		h := host.Asked()[0].Header
		if sent := slices.Collect(maps.Keys(h)); slices.Contains(sent, "Authorization") || slices.Contains(sent, "X-Api-Key") || slices.Contains(sent, "X-Goog-Api-Key") {
			t.Errorf("%s: sent %v", api, sent)
		}
	}
}
