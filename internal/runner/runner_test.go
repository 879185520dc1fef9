package runner_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
	"attend/internal/store"
	"attend/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a daemon's core on a memory store, inside a synctest bubble.
type world struct {
	t     *testing.T
	store store.Store
	stop  context.CancelFunc
	ended chan error
	ids   int
	*runner.Runner
}

func policy(judgeName string, kinds map[string]engine.Kind, change ...func(*engine.Settings)) engine.Policy {
	p := engine.Policy{Kinds: kinds, Default: engine.Defaults(), Judge: judgeName}
	for _, c := range change {
		c(&p.Default)
	}
	return p
}

var kinds = map[string]engine.Kind{"ask": engine.Flush, "done": engine.Closing, "log": engine.Consequence}

func open(t *testing.T) store.Store {
	t.Helper()
	st := memory.New(memory.Options{})
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// start runs a runner until the test ends or stop is called.
func start(t *testing.T, st store.Store, p engine.Policy, opt runner.Options) *world {
	t.Helper()
	if err := p.Compile(); err != nil {
		t.Fatal(err)
	}
	if err := runner.EnsurePolicy(t.Context(), st, &p); err != nil {
		t.Fatal(err)
	}
	opt.Store = st
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	if opt.Compile == nil {
		opt.Compile = judge.Compile
	}
	if opt.Registerer == nil {
		opt.Registerer = prometheus.NewRegistry()
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &world{t: t, store: st, stop: cancel, ended: make(chan error, 1), Runner: runner.New(opt)}
	if err := w.Restore(ctx); err != nil {
		t.Fatal(err)
	}
	go func() { w.ended <- w.Run(ctx) }()
	t.Cleanup(func() { w.end() })
	return w
}

func (w *world) end() {
	w.t.Helper()
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Errorf("Run: %v", err)
	}
	w.ended <- nil
}

// push appends events of one scope in one group.
func (w *world) push(scope string, names ...string) store.Receipt {
	w.t.Helper()
	events := make([]store.NewEvent, len(names))
	for i, name := range names {
		kind, _ := w.Policy().KindOf(name)
		w.ids++
		events[i] = store.NewEvent{Scope: scope, Event: engine.Event{
			ID: fmt.Sprint("e", w.ids), Name: name, Kind: kind, Policy: w.Policy().Number, Text: name + " text",
		}}
	}
	return w.append(store.Entry{Events: events})
}

func (w *world) append(e store.Entry) store.Receipt {
	w.t.Helper()
	receipts, err := w.store.Append(w.t.Context(), e)
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return receipts[0]
}

func (w *world) flush(scope string) []string {
	w.t.Helper()
	r := w.append(store.Entry{Scope: scope, Steps: []engine.Step{{Kind: engine.StepFlush}}})
	marked, err := w.Marked(w.t.Context(), r.Last)
	if err != nil {
		w.t.Fatal(err)
	}
	return marked
}

// steps lists the scope's steps in short words.
func (w *world) steps(scope string) []string {
	w.t.Helper()
	recs, err := w.store.Steps(context.Background(), store.StepQuery{Scope: scope})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, r := range recs {
		word := string(r.Step.Kind)
		switch st := r.Step; {
		case st.Settled != nil:
			word += fmt.Sprintf(" %s %d", st.Settled.Reason, len(st.Settled.Events))
		case st.Decision != nil:
			word += " " + st.Decision.Route.String()
		case st.Call != nil:
			word += fmt.Sprintf(" %d", st.Call.Attempt)
		case st.Failed != nil:
			word += " " + st.Failed.Why
		case st.Delivery != nil && st.Delivery.Failed != nil:
			word += " " + st.Delivery.Failed.Why
		}
		out = append(out, word)
	}
	return out
}

func (w *world) want(scope string, steps ...string) {
	w.t.Helper()
	if diff := cmp.Diff(steps, w.steps(scope)); diff != "" {
		w.t.Errorf("steps of %s (-want +got):\n%s", scope, diff)
	}
}

func TestRunner_PureJudgeDecidesAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, open(t), policy("rule", kinds), runner.Options{})
		w.push("a", "log", "done")
		w.push("b", "log", "ask")
		synctest.Wait()
		w.want("a")
		w.want("b", "settled flush 2", "decision interrupt")
		time.Sleep(1999 * time.Millisecond)
		synctest.Wait()
		w.want("a")
		time.Sleep(time.Millisecond)
		synctest.Wait()
		w.want("a", "settled closing 2", "decision queue")
		recs, err := w.store.Steps(t.Context(), store.StepQuery{Kinds: []engine.StepKind{engine.StepDecision}, Scope: "a"})
		if err != nil || len(recs) != 1 {
			t.Fatal(recs, err)
		}
		d := recs[0].Step.Decision
		if d.Notice != "log text\ndone text" || d.SettledAt != d.Due || len(d.Events) != 2 || d.Judge.Name != "rule" {
			t.Errorf("decision %+v", d)
		}
	})
}

func TestRunner_DuplicatesAreToldByTheFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, open(t), policy("rule", kinds), runner.Options{})
		e := store.NewEvent{Scope: "a", Event: engine.Event{ID: "one", Name: "log", Kind: engine.Consequence, Policy: 1}}
		r := w.append(store.Entry{Events: []store.NewEvent{e, e}})
		if n, err := w.Duplicates(t.Context(), r.First, r.Last); n != 1 || err != nil {
			t.Errorf("Duplicates = %d, %v; want 1", n, err)
		}
		r = w.append(store.Entry{Events: []store.NewEvent{e}})
		if n, err := w.Duplicates(t.Context(), r.First, r.Last); n != 1 || err != nil {
			t.Errorf("Duplicates = %d, %v; want 1", n, err)
		}
		if !w.Remembers("a", engine.DigestOf("one")) || w.Remembers("b", engine.DigestOf("one")) {
			t.Error("Remembers knows the id in scope a alone")
		}
	})
}

// script is a judge that answers as told, one line a call.
type script struct {
	mu    sync.Mutex
	after []time.Duration
	reply []any // a route, an error, or nil to hang
	seen  []judge.Input
	calls int
}

func (s *script) Judge(ctx context.Context, in *judge.Input) (judge.Reply, error) {
	s.mu.Lock()
	i := min(s.calls, len(s.reply)-1)
	s.calls++
	s.seen = append(s.seen, *in)
	s.mu.Unlock()
	if i < len(s.after) {
		select {
		case <-time.After(s.after[i]):
		case <-ctx.Done():
			return judge.Reply{}, ctx.Err()
		}
	}
	switch r := s.reply[i].(type) {
	case engine.Route:
		return judge.Reply{Answer: engine.Answer{Route: r}, Judge: engine.JudgeName{Name: "script", Model: "m1"}}, nil
	case error:
		return judge.Reply{}, r
	default:
		<-ctx.Done()
		return judge.Reply{}, ctx.Err()
	}
}

func TestRunner_CallStandsInTheLogBeforeItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{after: []time.Duration{time.Second}, reply: []any{engine.Note}}
		w := start(t, open(t), policy("script", kinds), runner.Options{Judge: s})
		w.push("a", "done")
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		w.want("a", "settled closing 1", "call 1")
		w.push("a", "done") // collects while the slot is taken
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		w.want("a", "settled closing 1", "call 1", "decision note")
		if got := s.seen[0].Window.Events[0].Text; got != "done text" {
			t.Errorf("the judge saw %q", got)
		}
	})
}

func TestRunner_LadderTimeoutAndDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: []any{errors.New("no route to host"), nil, engine.Route(99), &judge.Error{Class: judge.Permanent, Message: "bad key"}}}
		var log strings.Builder
		w := start(t, open(t), policy("script", kinds), runner.Options{Judge: s, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		w.push("a", "ask")
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if told := `level=WARN msg="a window became a dead letter" scope=a window=`; strings.Count(log.String(), told) != 1 || !strings.Contains(log.String(), `message="bad key"`) {
			t.Errorf("the log does not tell of the dead letter once:\n%s", &log)
		}
		w.want("a", "settled flush 1", "call 1", "failed error", "call 2", "failed timeout", "call 3", "failed malformed",
			"call 4", "failed permanent", "deadLetter")
		w.push("a", "ask")
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(w.steps("a")); n <= 10 {
			t.Errorf("the next window did not settle after the dead letter: %v", w.steps("a"))
		}
	})
}

func TestRunner_StopDoesNotCountAsAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t)
		w := start(t, st, policy("script", kinds), runner.Options{Judge: &script{reply: []any{nil}}})
		w.push("a", "ask")
		time.Sleep(time.Second)
		synctest.Wait()
		w.end()
		w.want("a", "settled flush 1", "call 1", "failed stopped")
		w = start(t, st, policy("script", kinds), runner.Options{Judge: &script{reply: []any{engine.Interrupt}}})
		synctest.Wait()
		w.want("a", "settled flush 1", "call 1", "failed stopped", "call 1", "decision interrupt")
	})
}

// crash ends a runner without its shutdown: its store refuses everything.
type crash struct {
	store.Store
	dead chan struct{}
}

func (c *crash) Append(ctx context.Context, e ...store.Entry) ([]store.Receipt, error) {
	select {
	case <-c.dead:
		return nil, store.ErrClosed
	default:
		return c.Store.Append(ctx, e...)
	}
}

func (c *crash) SaveStates(ctx context.Context, f store.Fence, rows []store.StateRow, p engine.Position) error {
	select {
	case <-c.dead:
		return store.ErrClosed
	default:
		return c.Store.SaveStates(ctx, f, rows, p)
	}
}

func TestRunner_CallLostInACrashCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t)
		c := &crash{st, make(chan struct{})}
		w := start(t, c, policy("script", kinds), runner.Options{Judge: &script{reply: []any{nil}}})
		w.push("a", "log", "ask")
		time.Sleep(time.Second)
		synctest.Wait()
		close(c.dead)
		w.end()
		w = start(t, st, policy("script", kinds), runner.Options{Judge: &script{reply: []any{engine.Interrupt}}})
		synctest.Wait()
		w.want("a", "settled flush 2", "call 1", "failed lost", "call 2", "decision interrupt")
	})
}

func TestRunner_RestartPicksUpWhatCameDue(t *testing.T) {
	for _, checkpoint := range []int{1, 1000} { // states saved after every record, or never
		t.Run(fmt.Sprint(checkpoint), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := open(t)
				c := &crash{st, make(chan struct{})}
				s := &script{reply: []any{engine.Wait}}
				w := start(t, c, policy("script", kinds), runner.Options{Judge: s, CheckpointRecords: checkpoint})
				w.push("open", "done")
				w.push("held", "done")
				time.Sleep(2 * time.Second)
				synctest.Wait()
				w.push("open2", "log", "done")
				synctest.Wait()
				close(c.dead)
				w.end()
				time.Sleep(time.Hour)
				w = start(t, st, policy("script", kinds), runner.Options{Judge: &script{reply: []any{engine.Queue}}})
				synctest.Wait()
				w.want("open2", "settled closing 2", "call 1", "decision queue")
				w.want("held", "settled closing 1", "call 1", "wait", "settled closing 1", "call 1", "decision queue")
			})
		})
	}
}

func TestRunner_EvictsAndWakesScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, open(t), policy("rule", kinds), runner.Options{MaxScopes: 3})
		for i := range 50 {
			w.push(fmt.Sprint("s", i), "done")
			synctest.Wait()
		}
		w.append(store.Entry{Events: []store.NewEvent{{Scope: "s0", Event: engine.Event{ID: "e1", Name: "done", Kind: engine.Closing, Policy: 1}}}}) // a duplicate
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for i := range 50 {
			w.want(fmt.Sprint("s", i), "settled closing 1", "decision queue")
		}
		views, err := w.Scopes(t.Context(), "", 100)
		if err != nil || len(views) != 50 {
			t.Errorf("Scopes: %d, %v; want 50", len(views), err)
		}
	})
}

func TestRunner_FlushMarksAndScopeShows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{after: []time.Duration{time.Second}, reply: []any{engine.Queue}}
		w := start(t, open(t), policy("script", kinds), runner.Options{Judge: s})
		if got := w.flush("a"); len(got) != 0 {
			t.Errorf("an empty scope was marked %v", got)
		}
		r := w.push("a", "log", "done")
		synctest.Wait()
		v, err := w.Scope(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		closing := "e2"
		want := runner.ScopeView{Scope: "a", Policy: 1, Silences: []runner.SilenceView{}, Open: &runner.OpenView{
			Events: 2, Acts: 1, Bytes: v.Open.Bytes, Since: r.Stamp,
			Deadlines: []runner.DeadlineView{
				{Reason: engine.ReasonClosing, At: r.Stamp + 2000, Event: &closing},
				{Reason: engine.ReasonAge, At: r.Stamp + 30000, Event: &closing},
			},
		}}
		if diff := cmp.Diff(want, v); diff != "" {
			t.Errorf("Scope (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"open"}, w.flush("a")); diff != "" {
			t.Error(diff)
		}
		synctest.Wait()
		w.push("a", "log")
		if diff := cmp.Diff([]string{"open", "judging"}, w.flush("a")); diff != "" {
			t.Error(diff)
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		w.want("a", "flush", "flush", "settled forced 2", "call 1", "flush", "decision queue", "settled forced 1", "call 1", "decision queue")
	})
}

func TestRunner_ShedEventsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, open(t), policy("rule", kinds, func(s *engine.Settings) { s.MaxEvents = 2 }), runner.Options{})
		w.push("few", "log", "log", "log")
		w.push("act", "log", "log", "ask")
		synctest.Wait()
		w.want("act", "settled flush 2", "decision interrupt", "shed")
		w.want("few")
		time.Sleep(61 * time.Second)
		synctest.Wait()
		w.want("few", "shed")
		many := make([]string, 1002)
		for i := range many {
			many[i] = "log"
		}
		w.push("many", many...)
		synctest.Wait()
		w.want("many", "shed")
	})
}

// A step that another version recorded stands; the difference is counted in
// replay too (design, section 3).
func TestRunner_DifferencesInReplayAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := open(t)
		w := start(t, st, policy("rule", kinds), runner.Options{})
		r := w.push("a", "log", "done")
		synctest.Wait()
		w.end()
		fence, err := st.Own(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		early := engine.Settled{
			Window: "other", Reason: engine.ReasonAge, Trigger: engine.TriggerDeadline, Due: r.Stamp, SettledAt: r.Stamp,
			Events: []engine.Position{r.Last}, Covered: r.Last, FirstSeen: r.Stamp,
		}
		verdict := engine.Verdict{Window: "other", Route: engine.Note, JudgedRoute: engine.Note, At: r.Stamp, Policy: 1}
		w.append(store.Entry{Scope: "a", Fence: fence, Applied: r.Last, Steps: []engine.Step{
			{Kind: engine.StepSettled, Window: "other", Settled: &early},
			{Kind: engine.StepDecision, Window: "other", ID: "other", Route: engine.Note, Verdict: &verdict},
		}})
		registry := prometheus.NewRegistry()
		again := runner.New(runner.Options{Store: st, Compile: judge.Compile, Logger: slog.New(slog.DiscardHandler), Registerer: registry})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- again.Run(ctx) }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := value(t, registry, "attend_replay_divergences_total"); n != 1 {
			t.Errorf("%v differences counted, want 1", n)
		}
		w.want("a", "settled age 1", "decision")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// value reads a counter or gauge without labels.
func value(t *testing.T, g prometheus.Gatherer, name string) float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// damaged gives back state rows that hold something else.
type damaged struct {
	store.Store
	row store.StateRow
}

func (d *damaged) LoadState(ctx context.Context, name string) (store.StateRow, error) {
	row, err := d.Store.LoadState(ctx, name)
	if err == nil && name == d.row.Scope {
		row.Body, row.Position = d.row.Body, max(row.Position, d.row.Position)
	}
	return row, err
}

// A state row is a hint: a damaged one costs a look at the log, and nothing
// else.
func TestRunner_DamagedStateIsMadeAgain(t *testing.T) {
	for name, row := range map[string]store.StateRow{
		"not a state":         {Scope: "a", Body: []byte{0xff}},
		"another scope's":     {Scope: "a", Body: []byte(`{"scope":"b","position":2,"open":{}}`)},
		"ahead of the log":    {Scope: "a", Position: 1 << 40, Body: []byte(`{"scope":"a","position":1099511627776,"open":{}}`)},
		"of another position": {Scope: "a", Body: []byte(`{"scope":"a","position":1,"open":{}}`)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := open(t)
				w := start(t, st, policy("rule", kinds), runner.Options{})
				w.push("a", "log", "done", "log")
				synctest.Wait()
				w.end()
				w = start(t, &damaged{st, row}, policy("rule", kinds), runner.Options{})
				time.Sleep(3 * time.Second)
				synctest.Wait()
				w.want("a", "settled closing 3", "decision queue")
			})
		})
	}
}
