package runner_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
)

func picture(t *testing.T) judge.Image {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 3, 2))); err != nil {
		t.Fatal(err)
	}
	return judge.Image{Data: base64.StdEncoding.EncodeToString(b.Bytes()), MIME: "image/png"}
}

// Both hooks run side by side; what they bring is shown to the judge and stands
// on the call, images without what they show.
func TestRunner_HooksSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		img := picture(t)
		s := &script{reply: []any{engine.Queue}}
		p := policy("script", kinds, func(s *engine.Settings) {
			s.Predicates = []engine.Predicate{{Name: "asked", Question: "Was it asked for?"}}
		})
		registry := prometheus.NewRegistry()
		w := start(t, open(t), p, runner.Options{
			Judge: s, Record: true, Registerer: registry,
			Context: func(context.Context, string) (judge.Context, error) {
				time.Sleep(400 * time.Millisecond)
				return judge.Context{Facts: json.RawMessage(`{"a":1}`), Predicates: []engine.Predicate{{Name: "late", Question: "Is it late?"}, {Name: "asked", Question: "Again?"}}}, nil
			},
			Capture: func(context.Context, string) ([]judge.Image, error) {
				time.Sleep(450 * time.Millisecond)
				return []judge.Image{img}, nil
			},
		})
		began := time.Now()
		w.push("a", "ask")
		time.Sleep(time.Second)
		synctest.Wait()
		w.want("a", "settled flush 1", "trace", "call 1", "decision queue")
		steps := w.stepsOf("a")
		if at := time.UnixMilli(int64(steps[2].Stamp)).Sub(began.Truncate(time.Millisecond)); at != 450*time.Millisecond {
			t.Errorf("the call began after %v, want what the slower hook took", at)
		}
		if tr := steps[1].Step.Trace; tr.Name != "contextFailed" || !strings.Contains(tr.Message, `"asked"`) {
			t.Errorf("the trace of the question that was asked already: %+v", tr)
		}
		if n := labelled(t, registry, "attend_judge_hook_failures_total", "context"); n != 1 {
			t.Errorf("%v failures of the context hook are counted, want 1", n)
		}
		seen, call := s.seen[0], steps[2].Step.Call
		names := func(ps []engine.Predicate) (out []string) {
			for _, p := range ps {
				out = append(out, p.Name+" "+p.Question)
			}
			return out
		}
		if diff := cmp.Diff([]string{"asked Was it asked for?", "late Is it late?"}, names(seen.Predicates)); diff != "" {
			t.Errorf("questions (-want +got):\n%s", diff)
		}
		if !cmp.Equal(seen.Images, []judge.Image{img}) || len(call.Images) != 1 || call.Images[0].MIME != "image/png" || len(call.Images[0].SHA256) != 64 || call.Images[0].Bytes == 0 {
			t.Errorf("images %v, on the call %+v", seen.Images, call.Images)
		}
		if diff := cmp.Diff([]string{"late Is it late?"}, names(call.Predicates)); diff != "" || string(call.Facts) != `{"a":1}` {
			t.Errorf("the call stands with facts %s and questions (-want +got):\n%s", call.Facts, diff)
		}
	})
}

// Each hook fails alone.
func TestRunner_HooksFailAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: []any{engine.Queue}}
		w := start(t, open(t), policy("script", kinds), runner.Options{
			Judge: s,
			Context: func(context.Context, string) (judge.Context, error) {
				return judge.Context{Facts: json.RawMessage(`{"a":1}`)}, nil
			},
			Capture: func(ctx context.Context, _ string) ([]judge.Image, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		w.push("a", "ask")
		time.Sleep(time.Second)
		synctest.Wait()
		w.want("a", "settled flush 1", "trace", "call 1", "decision queue")
		steps := w.stepsOf("a")
		if tr := steps[1].Step.Trace; tr.Name != "captureFailed" || tr.Message != "no answer within captureTimeoutMs (500)" {
			t.Errorf("trace %+v", tr)
		}
		if string(s.seen[0].Facts) != `{"a":1}` || s.seen[0].Images != nil {
			t.Errorf("the judge saw facts %s and %d images", s.seen[0].Facts, len(s.seen[0].Images))
		}
		if steps[2].Step.Call.Facts != nil {
			t.Errorf("facts stand in the log though nothing is to be recorded: %s", steps[2].Step.Call.Facts)
		}
	})
}

// Of more images than may be the first are shown, and a trace tells.
func TestRunner_TooManyImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pixel = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
		s := &script{reply: []any{engine.Queue}}
		w := start(t, open(t), policy("script", kinds), runner.Options{
			Judge: s,
			Capture: func(context.Context, string) ([]judge.Image, error) {
				return slices.Repeat([]judge.Image{{Data: pixel, MIME: "image/gif"}}, 130), nil
			},
		})
		w.push("a", "ask")
		synctest.Wait()
		w.want("a", "settled flush 1", "trace", "call 1", "decision queue")
		steps := w.stepsOf("a")
		if tr := steps[1].Step.Trace; tr.Name != "captureFailed" || !strings.HasPrefix(tr.Message, "of 130 images the first 128 are shown") {
			t.Errorf("trace %+v", tr)
		}
		if seen, told := len(s.seen[0].Images), len(steps[2].Step.Call.Images); seen != 128 || told != 128 {
			t.Errorf("the judge saw %d images, and %d stand on the call; want 128", seen, told)
		}
	})
}

// What was exchanged stands on the outcome of each attempt, bounded, and is
// counted from there.
func TestRunner_ExchangesStandInTheLog(t *testing.T) {
	exchange := func(outcome string) engine.Exchange {
		return engine.Exchange{
			Judge: "one", Model: "m", Outcome: outcome, TookMs: 30, InputTokens: 700, OutputTokens: 5,
			Prompt: strings.Repeat("p", 100<<10), Answer: "queue", Message: strings.Repeat("e", 2<<10),
		}
	}
	for _, record := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			j := judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
				if calls++; calls == 1 {
					return judge.Reply{}, &judge.Error{Class: judge.Transient, Message: "busy", Calls: []engine.Exchange{exchange("error"), {Judge: "stranger", Outcome: "odd"}}}
				}
				return judge.Reply{Answer: engine.Answer{Route: engine.Queue}, Calls: []engine.Exchange{exchange("answered")}}, nil
			})
			registry := prometheus.NewRegistry()
			w := start(t, open(t), policy("one", kinds), runner.Options{Judge: j, Judges: []string{"one"}, Record: record, Registerer: registry})
			w.push("a", "ask")
			time.Sleep(5 * time.Second)
			synctest.Wait()
			w.want("a", "settled flush 1", "call 1", "failed error", "call 2", "decision queue")
			steps := w.stepsOf("a")
			failed, answered := steps[2].Step.Failed.Calls, steps[4].Step.Verdict.Calls
			if len(failed) != 2 || len(answered) != 1 || failed[0].Outcome != "error" || answered[0].InputTokens != 700 {
				t.Fatalf("exchanges %+v and %+v", failed, answered)
			}
			c := &answered[0]
			if kept := c.Prompt != "" && c.Answer == "queue"; kept != record || len(c.Prompt) > 64<<10 || len(c.Message) > 1<<10 {
				t.Errorf("recorded %v: a prompt of %d bytes, the answer %q, a message of %d bytes", record, len(c.Prompt), c.Answer, len(c.Message))
			}
			want := `
# HELP attend_judge_calls_total Exchanges with judges, by what came of them.
# TYPE attend_judge_calls_total counter
attend_judge_calls_total{judge="one",outcome="answered"} 1
attend_judge_calls_total{judge="one",outcome="error"} 1
attend_judge_calls_total{judge="other",outcome="other"} 1
`
			if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "attend_judge_calls_total"); err != nil {
				t.Error(err)
			}
			tokens := `
# HELP attend_judge_tokens_total Tokens that judges have read and written, as they say.
# TYPE attend_judge_tokens_total counter
attend_judge_tokens_total{direction="input",judge="one"} 1400
attend_judge_tokens_total{direction="input",judge="other"} 0
attend_judge_tokens_total{direction="output",judge="one"} 10
attend_judge_tokens_total{direction="output",judge="other"} 0
`
			if err := testutil.GatherAndCompare(registry, strings.NewReader(tokens), "attend_judge_tokens_total"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A judge whose time is over has a last word: what it has exchanged by then. One
// that says nothing is on the record all the same.
func TestRunner_TimeoutsKeepTheirExchanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		j := judge.Func(func(ctx context.Context, _ *judge.Input) (judge.Reply, error) {
			calls++
			<-ctx.Done()
			if calls == 1 {
				return judge.Reply{}, &judge.Error{Class: judge.Transient, Message: "late", Calls: []engine.Exchange{{Judge: "one", Outcome: "timeout", Message: "no answer"}}}
			}
			time.Sleep(time.Hour)
			return judge.Reply{}, errors.New("much later")
		})
		w := start(t, open(t), policy("one", kinds, func(s *engine.Settings) { s.RetryBackoffMs, s.JudgeTimeoutMs = []int64{0}, 1000 }), runner.Options{Judge: j})
		w.push("a", "ask")
		time.Sleep(4 * time.Second)
		synctest.Wait()
		w.want("a", "settled flush 1", "call 1", "failed timeout", "call 2", "failed timeout", "deadLetter")
		steps := w.stepsOf("a")
		if c := steps[2].Step.Failed.Calls; len(c) != 1 || c[0].Message != "no answer" {
			t.Errorf("the first: %+v", c)
		}
		if c := steps[4].Step.Failed.Calls; len(c) != 1 || c[0].Judge != "one" || c[0].Outcome != "timeout" || c[0].TookMs != 1000 {
			t.Errorf("the second: %+v", c)
		}
		time.Sleep(2 * time.Hour)
	})
}

// A policy in the log that this binary does not understand ends no daemon: its
// windows become dead letters, and the next policy mends it.
func TestRunner_PolicyThatIsNotUnderstood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		compile := func(p *engine.Policy) (engine.Compiled, error) {
			if p.Rules != "" {
				return engine.Compiled{}, errors.New("line 1: a word from the future")
			}
			return judge.Compile(p)
		}
		p := policy("rules", kinds)
		p.Rules = "from: the future"
		w := start(t, open(t), p, runner.Options{Compile: compile})
		w.push("a", "ask")
		synctest.Wait()
		w.want("a", "settled flush 1", "call 1", "failed permanent", "deadLetter")
		mended := policy("rule", kinds)
		if err := runner.EnsurePolicy(t.Context(), w.store, &mended); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // what is due at the instant of a policy is under the one before
		w.push("b", "ask")
		synctest.Wait()
		w.want("b", "settled flush 1", "decision interrupt")
	})
}
