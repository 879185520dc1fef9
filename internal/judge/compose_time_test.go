package judge_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
)

// A judge that does not end with its time leaves none to the others. Who asks
// nobody is asked still, and an answer that is there is not lost.
func TestCompose_TimeIsOver(t *testing.T) {
	deaf := judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
		time.Sleep(30 * time.Second)
		return judge.Reply{}, errors.New("reset by peer")
	})
	never := judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
		t.Error("a judge was asked without any time")
		return judge.Reply{}, errors.New("asked")
	})
	alive := judge.Func(func(ctx context.Context, _ *judge.Input) (judge.Reply, error) {
		return judge.Reply{Answer: engine.Answer{Route: engine.Queue}}, ctx.Err()
	})
	for _, c := range []struct {
		name  string
		judge judge.Composition
		by    string // "" where all fail
		told  []string
	}{
		{
			"the last resort asks nobody",
			judge.Composition{{Name: "a", Judge: deaf, OnErrorNext: true}, {Name: "b", Judge: never, OnErrorNext: true}, {Name: "c", Judge: alive, Instant: true}},
			"c",
			[]string{"a timeout", "b timeout", "c answered"},
		},
		{
			"an answer under its bar",
			judge.Composition{{Name: "a", Judge: says(engine.Note, 0.1), Below: 0.7}, {Name: "b", Judge: deaf, OnErrorNext: true}},
			"a",
			[]string{"a below", "b timeout"},
		},
		{
			"an answer under its bar, before one that is not asked",
			judge.Composition{{Name: "a", Judge: says(engine.Note, 0.1), Below: 0.7}, {Name: "b", Judge: deaf, OnErrorNext: true}, {Name: "c", Judge: never, OnErrorNext: true}},
			"a",
			[]string{"a below", "b timeout", "c timeout"},
		},
		{"nobody", judge.Composition{{Name: "a", Judge: deaf, OnErrorNext: true}, {Name: "b", Judge: never}}, "", []string{"a timeout", "b timeout"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			reply, err := compose(t, c.judge).Judge(ctx, input())
			calls := reply.Calls
			if e := (*judge.Error)(nil); errors.As(err, &e) {
				calls = e.Calls
			}
			if (err == nil) != (c.by != "") || reply.Judge.Name != c.by {
				t.Errorf("%s: %q answered, %v; want %q", c.name, reply.Judge.Name, err, c.by)
			}
			if diff := cmp.Diff(c.told, told(calls)); diff != "" {
				t.Errorf("%s: the record differs (-want +got):\n%s", c.name, diff)
			}
		})
	}
}
