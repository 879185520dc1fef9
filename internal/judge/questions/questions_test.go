package questions_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/judge/judgetest"
	"attend/internal/judge/questions"
	"attend/internal/judge/wire"
)

var update = flag.Bool("update", false, "rewrite the requests in testdata; commit the difference only if you understand it")

const key = "sk-secret-key"

// make makes a judge that asks a host.
func made(t *testing.T, o questions.Options, h *judgetest.Host) judge.Judge {
	t.Helper()
	o.URL, o.Client = h.URL, wire.New()
	if o.Key == "" {
		o.Key = key
	}
	if o.API == questions.Decisions && o.Model == "" {
		o.Model = "gpt-6-luna"
	}
	t.Cleanup(o.Client.Close)
	j, err := questions.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// window is what judges are asked about in these tests.
func window() *judge.Input {
	in := &judge.Input{
		Scope: "repo:acme/shop", Guidance: "An on-call agent for payments.",
		Predicates: []engine.Predicate{{Name: "asked", Question: "Did somebody ask the agent?"}, {Name: "paid", Question: "Is money at stake?"}},
		Facts:      json.RawMessage(`{"midTurn": false}`),
		Recent:     []engine.Recent{{Window: "w0", At: 1_700_000_000_000, Route: engine.Skip, JudgedRoute: engine.Skip}},
		Window: judge.Window{
			ID: "w1", Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, SettledAt: 1_700_000_009_000,
			Events: []engine.EventView{
				{ID: "e1", Name: "log.line", Kind: engine.Consequence, SeenAt: 1_700_000_001_000, Text: "checkout <failed> & retried"},
				{ID: "e2", Name: "message.created", Kind: engine.Closing, SeenAt: 1_700_000_002_000, Text: "can you look?", Data: engine.RawJSON(`{"from":"ada"}`)},
			},
		},
	}
	for _, r := range engine.Offer(true) {
		in.Routes = append(in.Routes, judge.Offer{Route: r})
	}
	in.Routes[0].Criterion = "Customers are failing to pay right now."
	return in
}

func ask(t *testing.T, j judge.Judge, in *judge.Input) (judge.Reply, *judge.Error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	reply, err := j.Judge(ctx, in)
	if err == nil {
		return reply, nil
	}
	var e *judge.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want an *Error", err)
	}
	return reply, e
}

// golden compares JSON with a file, as values.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		var b bytes.Buffer
		if err := json.Indent(&b, got, "", "  "); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(value(t, want), value(t, got)); diff != "" {
		t.Errorf("the request is not that of %s (-want +got):\n%s", path, diff)
	}
}

func value(t *testing.T, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return v
}

// picture is an image of a size, a different one for each shade.
func picture(t *testing.T, mime string, width, height int, shade byte) judge.Image {
	t.Helper()
	img := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Gray{shade}})
	var b bytes.Buffer
	var err error
	if mime == "image/jpeg" {
		err = jpeg.Encode(&b, img, nil)
	} else {
		err = png.Encode(&b, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	return judge.Image{MIME: mime, Data: base64.StdEncoding.EncodeToString(b.Bytes())}
}

func TestNew_CompletesTheURL(t *testing.T) {
	for _, c := range []struct{ below, path string }{
		{"", "/v1/systemone"},
		{"/", "/v1/systemone"},
		{"/v1", "/v1/systemone"},
		{"/api/v1/", "/api/v1/systemone"},
		{"/v1/systemone", "/v1/systemone"},
		{"/inference/decide", "/inference/decide"},
	} {
		h := judgetest.SystemOne(t, judgetest.Answer{Body: jevAnswer})
		client := wire.New()
		t.Cleanup(client.Close)
		j, err := questions.New(questions.Options{API: questions.Jev, URL: h.URL + c.below, Client: client})
		if err != nil {
			t.Fatal(err)
		}
		if _, e := ask(t, j, window()); e != nil {
			t.Fatal(e)
		}
		got := h.Asked()[0]
		if got.Path != c.path {
			t.Errorf("url ending in %q: asked at %s, want %s", c.below, got.Path, c.path)
		}
		if sent := got.Header.Get("Authorization"); sent != "" {
			t.Errorf("without a key %q was sent", sent)
		}
	}
}

func TestNew_RefusesWhatCannotBeAsked(t *testing.T) {
	for _, c := range []struct {
		opt  questions.Options
		want string
	}{
		{questions.Options{API: "oracle", Key: key}, `"oracle" is no API`},
		{questions.Options{API: questions.Decisions, Key: key}, "no model: set model"},
		{questions.Options{API: questions.Jev}, "set TYPESAFE_API_KEY"},
		{questions.Options{API: questions.Decisions, Model: "gpt-6-luna"}, "set OPENAI_API_KEY"},
		{questions.Options{API: questions.Jev, URL: "localhost:11434", Key: key}, "want http:// or https://"},
		{questions.Options{API: questions.Jev, URL: "http://sk-secret-key@ho st/", Key: key}, "want http:// or https://"},
	} {
		_, err := questions.New(c.opt)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), key) {
			t.Errorf("%+v: got %v, want it to say %q, without the key", c.opt, err, c.want)
		}
	}
	for _, o := range []questions.Options{{API: questions.Jev, Key: key}, {API: questions.Decisions, Model: "gpt-6-luna", Key: key}} {
		if _, err := questions.New(o); err != nil {
			t.Errorf("%s at its vendor: %v", o.API, err)
		}
	}
}

func TestPredicates_RefusedBeforeTheCall(t *testing.T) {
	twice := []engine.Predicate{{Name: "a", Question: "A?"}, {Name: "b", Question: "B?"}, {Name: "a", Question: "C?"}}
	var many []engine.Predicate
	for i := range 200 {
		many = append(many, engine.Predicate{Name: strings.Repeat("p", i+1), Question: "?"})
	}
	for _, c := range []struct {
		api  questions.API
		list []engine.Predicate
		want string // "": asked
	}{
		{questions.Jev, twice, `two predicates are named "a"`},
		{questions.Decisions, twice, `two predicates are named "a"`},
		{questions.Decisions, many, "200 predicates: the judge takes 199"},
		{questions.Decisions, many[:199], ""},
		{questions.Jev, many, ""},
	} {
		h, answer := judgetest.SystemOne, jevAnswer
		if c.api == questions.Decisions {
			h, answer = judgetest.Decisions, decisionsAnswer
		}
		host := h(t, judgetest.Answer{Body: answer})
		in := window()
		in.Predicates = c.list
		_, e := ask(t, made(t, questions.Options{API: c.api}, host), in)
		if c.want == "" {
			if e != nil || len(host.Asked()) != 1 {
				t.Errorf("%s with %d predicates: %v, after %d requests", c.api, len(c.list), e, len(host.Asked()))
			}
			continue
		}
		if e == nil || e.Class != judge.Permanent || !strings.Contains(e.Message, c.want) || len(host.Asked()) != 0 {
			t.Errorf("%s: got %v after %d requests, want %q and none", c.api, e, len(host.Asked()), c.want)
		}
	}
}

func TestState_CutToWhatTheJudgeReads(t *testing.T) {
	for _, c := range []struct {
		name  string
		opt   questions.Options
		limit int
	}{
		{"jev", questions.Options{API: questions.Jev}, 60 << 10},
		{"jev, long context", questions.Options{API: questions.Jev, LongContext: true}, 480 << 10},
		{"decisions", questions.Options{API: questions.Decisions}, 240 << 10},
	} {
		start, answer := judgetest.SystemOne, jevAnswer
		if c.opt.API == questions.Decisions {
			start, answer = judgetest.Decisions, decisionsAnswer
		}
		h := start(t, judgetest.Answer{Body: answer})
		in := window()
		for i := range 400 {
			in.Window.Events = append(in.Window.Events, engine.EventView{ID: strings.Repeat("x", i+1), Name: "log.line", Kind: engine.Consequence, Text: strings.Repeat("y", 2000)})
		}
		reply, e := ask(t, made(t, c.opt, h), in)
		if e != nil {
			t.Fatal(e)
		}
		var sent struct {
			State json.RawMessage `json:"state"`
			Input string          `json:"input"`
		}
		if err := json.Unmarshal(h.Asked()[0].Body, &sent); err != nil {
			t.Fatal(err)
		}
		if n := len(sent.State) + len(sent.Input); n > c.limit || n < c.limit/2 {
			t.Errorf("%s: a state of %d bytes, want it near %d", c.name, n, c.limit)
		}
		if reply.Calls[0].Cut == 0 {
			t.Errorf("%s: the record does not say that events were left out", c.name)
		}
	}
}
