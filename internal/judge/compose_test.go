package judge_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
)

// input offers every route but wait.
func input() *judge.Input {
	in := &judge.Input{Scope: "s"}
	for _, r := range engine.Offer(false) {
		in.Routes = append(in.Routes, judge.Offer{Route: r})
	}
	return in
}

// says is a judge that answers a route, with a confidence where one is given.
func says(route engine.Route, confidence ...float64) judge.Judge {
	return judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
		r := judge.Reply{Answer: engine.Answer{Route: route}, Judge: engine.JudgeName{Name: "inner", Model: "m"}}
		for _, c := range confidence {
			r.Answer.Confidence = &c
		}
		return r, nil
	})
}

func fails(class judge.Class, after time.Duration) judge.Judge {
	return judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
		return judge.Reply{}, &judge.Error{Class: class, Message: "no: " + string(class), RetryAfter: after}
	})
}

// hangs is a judge that answers never, and ends with its context.
func hangs() judge.Judge {
	return judge.Func(func(ctx context.Context, _ *judge.Input) (judge.Reply, error) {
		<-ctx.Done()
		return judge.Reply{}, ctx.Err()
	})
}

func when(holds bool, err error) func(*judge.Input) (bool, error) {
	return func(*judge.Input) (bool, error) { return holds, err }
}

func compose(t *testing.T, c judge.Composition) judge.Judge {
	t.Helper()
	j, err := judge.Compose(c)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// told writes exchanges as "judge outcome".
func told(calls []engine.Exchange) (out []string) {
	for _, x := range calls {
		out = append(out, x.Judge+" "+x.Outcome)
	}
	return out
}

func TestCompose_WhoAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		judge judge.Composition
		by    string
		route engine.Route
		told  []string
	}{
		{"the first", judge.Composition{{Name: "a", Judge: says(engine.Note), Below: 0, OnErrorNext: true}, {Name: "b", Judge: says(engine.Queue)}}, "a", engine.Note, []string{"a answered"}},
		{
			"a condition that does not hold",
			judge.Composition{{Name: "a", Judge: says(engine.Note), When: when(false, nil)}, {Name: "b", Judge: says(engine.Queue)}},
			"b", engine.Queue,
			[]string{"b answered"},
		},
		{
			"a condition that fails",
			judge.Composition{{Name: "a", Judge: says(engine.Note), When: when(true, errors.New("no such key"))}, {Name: "b", Judge: says(engine.Queue)}},
			"b", engine.Queue,
			[]string{"a passed", "b answered"},
		},
		{"at its bar", judge.Composition{{Name: "a", Judge: says(engine.Note, 0.7), Below: 0.7}, {Name: "b", Judge: says(engine.Queue)}}, "a", engine.Note, []string{"a answered"}},
		{"under its bar", judge.Composition{{Name: "a", Judge: says(engine.Note, 0.69), Below: 0.7}, {Name: "b", Judge: says(engine.Queue)}}, "b", engine.Queue, []string{"a below", "b answered"}},
		{"without a confidence", judge.Composition{{Name: "a", Judge: says(engine.Note), Below: 0.1}, {Name: "b", Judge: says(engine.Queue)}}, "b", engine.Queue, []string{"a below", "b answered"}},
		{"with NaN for one", judge.Composition{{Name: "a", Judge: says(engine.Note, math.NaN()), Below: 0.1}, {Name: "b", Judge: says(engine.Queue)}}, "b", engine.Queue, []string{"a below", "b answered"}},
		{"over 1", judge.Composition{{Name: "a", Judge: says(engine.Note, 7), Below: 0.1}, {Name: "b", Judge: says(engine.Queue)}}, "b", engine.Queue, []string{"a below", "b answered"}},
		{
			"the last resort, under its bar too",
			judge.Composition{{Name: "a", Judge: says(engine.Note, 0.1), Below: 0.7}, {Name: "b", Judge: says(engine.Queue, 0.2), Below: 0.7}},
			"b", engine.Queue,
			[]string{"a below", "b answered"},
		},
		{
			"under its bar, and nobody else's turn",
			judge.Composition{{Name: "a", Judge: says(engine.Note, 0.1), Below: 0.7}, {Name: "b", Judge: says(engine.Queue), When: when(false, nil)}},
			"a", engine.Note,
			[]string{"a answered"},
		},
		{"after a failure", judge.Composition{{Name: "a", Judge: fails(judge.Permanent, 0), OnErrorNext: true}, {Name: "b", Judge: says(engine.Queue)}}, "b", engine.Queue, []string{"a permanent", "b answered"}},
		{"after one that was held", judge.Composition{{Name: "a", Judge: fails(judge.Held, time.Second), OnErrorNext: true}, {Name: "b", Judge: says(engine.Queue)}}, "b", engine.Queue, []string{"a held", "b answered"}},
		{"after a route that was not offered", judge.Composition{{Name: "a", Judge: says(engine.Wait), OnErrorNext: true}, {Name: "b", Judge: says(engine.Queue)}}, "b", engine.Queue, []string{"a malformed", "b answered"}},
		{
			"the one under its bar, where the last may fail",
			judge.Composition{{Name: "a", Judge: says(engine.Note, 0.1), Below: 0.7}, {Name: "b", Judge: fails(judge.Transient, 0), OnErrorNext: true}},
			"a", engine.Note,
			[]string{"a below", "b error"},
		},
	} {
		reply, err := compose(t, c.judge).Judge(t.Context(), input())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if reply.Judge != (engine.JudgeName{Name: c.by, Model: "m"}) || reply.Answer.Route != c.route {
			t.Errorf("%s: %v answered %v, want %s and %v", c.name, reply.Judge, reply.Answer.Route, c.by, c.route)
		}
		if diff := cmp.Diff(c.told, told(reply.Calls)); diff != "" {
			t.Errorf("%s: the record differs (-want +got):\n%s", c.name, diff)
		}
	}
}

// A failure says whose it is, and where several failed what each came to.
func TestCompose_FailuresAreNamed(t *testing.T) {
	busy := judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
		return judge.Reply{}, &judge.Error{Class: judge.Transient, Message: "busy", Status: 529, RequestID: "r1"}
	})
	for _, c := range []struct {
		judge judge.Composition
		want  string
	}{
		{judge.Composition{{Name: "quick", Judge: busy}}, "quick: busy (status 529), request r1"},
		{
			judge.Composition{{Name: "quick", Judge: busy, OnErrorNext: true}, {Name: "careful", Judge: fails(judge.Refused, 0)}},
			"quick: busy (status 529), request r1; careful: no: refused",
		},
	} {
		if _, err := compose(t, c.judge).Judge(t.Context(), input()); err == nil || err.Error() != c.want {
			t.Errorf("got  %v\nwant %s", err, c.want)
		}
	}
}

// An answer under its bar stands on the record with what it said: the bar can
// be tuned by it.
func TestCompose_AnswersUnderTheBarAreTold(t *testing.T) {
	for want, first := range map[string]judge.Judge{ //arch:sorted each by itself
		"note, with confidence 0.69": says(engine.Note, 0.69),
		"skip, with no confidence":   says(engine.Skip),
	} {
		reply, err := compose(t, judge.Composition{{Name: "a", Judge: first, Below: 0.7}, {Name: "b", Judge: says(engine.Queue)}}).Judge(t.Context(), input())
		if err != nil || reply.Calls[0].Message != want {
			t.Errorf("got %+v, %v; want %s", reply.Calls, err, want)
		}
	}
}

func TestCompose_FailedConditionIsTold(t *testing.T) {
	reply, err := compose(t, judge.Composition{
		{Name: "a", Judge: says(engine.Note), When: when(false, errors.New("no such key: team"))}, {Name: "b", Judge: says(engine.Queue)},
	}).Judge(t.Context(), input())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := reply.Calls[0].Message, "its condition failed: no such key: team"; got != want {
		t.Errorf("the record says %q, want %q", got, want)
	}
}

func TestCompose_HowItFails(t *testing.T) {
	permanent, transient, held := fails(judge.Permanent, 0), fails(judge.Transient, time.Minute), fails(judge.Held, 10*time.Second)
	heldLong, refused := fails(judge.Held, time.Hour), fails(judge.Refused, 0)
	for _, c := range []struct {
		name  string
		judge judge.Composition
		class judge.Class
		after time.Duration
		told  []string
	}{
		{"the first ends it", judge.Composition{{Name: "a", Judge: permanent, Below: 0.5}, {Name: "b", Judge: says(engine.Queue)}}, judge.Permanent, 0, []string{"a permanent"}},
		{
			"an answer under its bar does not stand in for who may not fail",
			judge.Composition{{Name: "a", Judge: says(engine.Note, 0.1), Below: 0.7}, {Name: "b", Judge: transient}},
			judge.Transient, time.Minute,
			[]string{"a below", "b error"},
		},
		{"all, the last counts", judge.Composition{{Name: "a", Judge: held, OnErrorNext: true}, {Name: "b", Judge: transient, OnErrorNext: true}}, judge.Transient, time.Minute, []string{"a held", "b error"}},
		{"not for good while one may come back", judge.Composition{{Name: "a", Judge: transient, OnErrorNext: true}, {Name: "b", Judge: refused}}, judge.Transient, time.Minute, []string{"a error", "b refused"}},
		{"nor while one is held", judge.Composition{{Name: "a", Judge: held, OnErrorNext: true}, {Name: "b", Judge: permanent}}, judge.Held, 10 * time.Second, []string{"a held", "b permanent"}},
		{"for good", judge.Composition{{Name: "a", Judge: permanent, OnErrorNext: true}, {Name: "b", Judge: refused}}, judge.Refused, 0, []string{"a permanent", "b refused"}},
		{"held, until the first may be asked", judge.Composition{{Name: "a", Judge: held, OnErrorNext: true}, {Name: "b", Judge: heldLong}}, judge.Held, 10 * time.Second, []string{"a held", "b held"}},
		{"nobody's turn", judge.Composition{{Name: "a", Judge: permanent, When: when(false, nil)}}, judge.Permanent, 0, nil},
		{"nobody's turn, by mistake", judge.Composition{{Name: "a", Judge: permanent, When: when(false, errors.New("no"))}}, judge.Permanent, 0, []string{"a passed"}},
	} {
		reply, err := compose(t, c.judge).Judge(t.Context(), input())
		var e *judge.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: got %+v and %v, want an *Error", c.name, reply, err)
			continue
		}
		if e.Class != c.class || e.RetryAfter != c.after {
			t.Errorf("%s: class %s, again after %v; want %s and %v", c.name, e.Class, e.RetryAfter, c.class, c.after)
		}
		if diff := cmp.Diff(c.told, told(e.Calls)); diff != "" {
			t.Errorf("%s: the record differs (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestCompose_PassedOverSaysWhatToDo(t *testing.T) {
	_, err := compose(t, judge.Composition{
		{Name: "a", Judge: hangs(), When: when(false, nil)}, {Name: "b", Judge: hangs(), When: when(false, errors.New("no"))},
	}).Judge(t.Context(), input())
	const want = "no judge was asked: of 2, none has a condition that holds for this window (1 failed); add one without a condition at the end"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestCompose_TimeIsShared(t *testing.T) {
	for _, c := range []struct {
		name  string
		judge judge.Composition
		by    string // "" where the call's own time runs out
		after time.Duration
		told  []string
	}{
		{"half", judge.Composition{{Name: "a", Judge: hangs(), OnErrorNext: true}, {Name: "b", Judge: says(engine.Queue)}}, "b", 10 * time.Second, []string{"a timeout", "b answered"}},
		{
			"half of what is left",
			judge.Composition{{Name: "a", Judge: hangs(), OnErrorNext: true}, {Name: "b", Judge: hangs(), OnErrorNext: true}, {Name: "c", Judge: says(engine.Queue)}},
			"c", 15 * time.Second,
			[]string{"a timeout", "b timeout", "c answered"},
		},
		{"its own timeout", judge.Composition{{Name: "a", Judge: hangs(), OnErrorNext: true, Timeout: 3 * time.Second}, {Name: "b", Judge: says(engine.Queue)}}, "b", 3 * time.Second, []string{"a timeout", "b answered"}},
		{
			"one that fails for all leaves nothing",
			judge.Composition{{Name: "a", Judge: hangs(), When: when(true, nil)}, {Name: "b", Judge: says(engine.Queue)}},
			"", 20 * time.Second,
			[]string{"a timeout"},
		},
		{
			"one whose successors have no turn has it all",
			judge.Composition{{Name: "a", Judge: hangs(), OnErrorNext: true}, {Name: "b", Judge: says(engine.Queue), When: when(false, nil)}},
			"", 20 * time.Second,
			[]string{"a timeout"},
		},
		{
			"timeouts that add up to all of it",
			judge.Composition{
				{Name: "a", Judge: hangs(), OnErrorNext: true, Timeout: 10 * time.Second},
				{Name: "b", Judge: hangs(), OnErrorNext: true, Timeout: 10 * time.Second},
				{Name: "c", Judge: says(engine.Queue), Instant: true},
			},
			"c", 19 * time.Second,
			[]string{"a timeout", "b timeout", "c answered"},
		},
		{
			"a timeout that is longer than all of it",
			judge.Composition{{Name: "a", Judge: hangs(), OnErrorNext: true, Timeout: time.Hour}, {Name: "b", Judge: says(engine.Queue)}},
			"b", 18 * time.Second,
			[]string{"a timeout", "b answered"},
		},
		{
			"an answer that is there is fallen back on, whatever the timeout of the last",
			judge.Composition{{Name: "a", Judge: says(engine.Note, 0.1), Below: 0.7}, {Name: "b", Judge: hangs(), OnErrorNext: true, Timeout: time.Hour}},
			"a", 18 * time.Second,
			[]string{"a below", "b timeout"},
		},
		{
			"an answer that is there is fallen back on in time",
			judge.Composition{{Name: "a", Judge: says(engine.Note, 0.1), Below: 0.7}, {Name: "b", Judge: hangs(), OnErrorNext: true}},
			"a", 18 * time.Second,
			[]string{"a below", "b timeout"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				start := time.Now()
				reply, err := compose(t, c.judge).Judge(ctx, input())
				if took := time.Since(start); took != c.after {
					t.Errorf("took %v, want %v", took, c.after)
				}
				calls := reply.Calls
				var e *judge.Error
				if errors.As(err, &e) {
					calls = e.Calls
				}
				if (err == nil) != (c.by != "") || reply.Judge.Name != c.by {
					t.Errorf("%q answered, %v; want %q", reply.Judge.Name, err, c.by)
				}
				if diff := cmp.Diff(c.told, told(calls)); diff != "" {
					t.Errorf("the record differs (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestCompose_RefusesWhatCannotWork(t *testing.T) {
	a, b := says(engine.Note), says(engine.Queue)
	for _, c := range []struct {
		judge judge.Composition
		want  string
	}{
		{nil, "there is none"},
		{judge.Composition{{Judge: a}}, "no name"},
		{judge.Composition{{Name: "a"}}, "is none"},
		{judge.Composition{{Name: "a", Judge: a, OnErrorNext: true}, {Name: "a", Judge: b}}, `two are named "a"`},
		{judge.Composition{{Name: "a", Judge: a, Below: 1.5}}, "want 0 to 1"},
		{judge.Composition{{Name: "a", Judge: a, Below: math.NaN()}}, "want 0 to 1"},
		{judge.Composition{{Name: "a", Judge: a, Timeout: -1}}, "negative"},
		{judge.Composition{{Name: "a", Judge: a}, {Name: "b", Judge: b}}, `"b" can never be asked, since "a" answers every window`},
	} {
		if _, err := judge.Compose(c.judge); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want it to say %q", c.judge, err, c.want)
		}
	}
}

func TestNamed_SignsAndClasses(t *testing.T) {
	one := judge.Named("mine", says(engine.Queue))
	reply, err := one.Judge(t.Context(), input())
	if err != nil {
		t.Fatal(err)
	}
	if reply.Judge != (engine.JudgeName{Name: "mine", Model: "m"}) || len(reply.Calls) != 1 || reply.Calls[0].Judge != "mine" || reply.Calls[0].Model != "m" {
		t.Errorf("got %+v", reply)
	}
	_, err = judge.Named("mine", judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
		return judge.Reply{}, errors.New("no route to host")
	})).Judge(t.Context(), input())
	var e *judge.Error
	if !errors.As(err, &e) || e.Class != judge.Transient || e.Message != "no route to host" || len(e.Calls) != 1 || e.Calls[0].Judge != "mine" {
		t.Errorf("got %#v, want a transient error of mine", err)
	}
}
