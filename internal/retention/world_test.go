package retention_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/retention"
	"attend/internal/runner"
	"attend/internal/store"
	"attend/internal/store/memory"
)

const day = 24 * time.Hour

// world is a daemon's core on a memory store, inside a synctest bubble, with a
// keeper whose rounds are made by hand.
type world struct {
	t      *testing.T
	store  *memory.Store
	reg    *prometheus.Registry
	policy engine.Policy
	opt    runner.Options
	keep   retention.Options

	*runner.Runner
	keeper *retention.Keeper
	stop   context.CancelFunc
	ended  chan error
}

// newWorld keeps events for 7 days and steps for 30. The judge may be nil.
func newWorld(t *testing.T, j judge.Func, change ...func(*engine.Settings)) *world {
	t.Helper()
	w := &world{
		t: t, store: memory.New(memory.Options{}), reg: prometheus.NewRegistry(),
		policy: engine.Policy{
			Kinds:   map[string]engine.Kind{"ask": engine.Flush, "done": engine.Closing, "log": engine.Consequence},
			Default: engine.Defaults(), Judge: "rule",
		},
		keep: retention.Options{Events: 7 * day, Steps: 30 * day},
	}
	if j != nil {
		w.policy.Judge, w.opt.Judge = "model", j
	}
	for _, c := range change {
		c(&w.policy.Default)
	}
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

// start runs runner and keeper on what the store holds.
func (w *world) start() *world {
	w.t.Helper()
	if err := w.policy.Compile(); err != nil {
		w.t.Fatal(err)
	}
	if err := runner.EnsurePolicy(w.t.Context(), w.store, &w.policy); err != nil {
		w.t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(w.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	opt := w.opt
	opt.Store, opt.Compile, opt.Logger, opt.Registerer = w.store, judge.Compile, log, prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	w.Runner, w.stop, w.ended = runner.New(opt), cancel, make(chan error, 1)
	if err := w.Restore(ctx); err != nil {
		w.t.Fatal(err)
	}
	w.reg = prometheus.NewRegistry()
	keep := w.keep
	keep.Store, keep.Fence, keep.Logger, keep.Registerer = w.store, w.Fence, log, w.reg
	w.keeper = retention.New(keep)
	r, ended := w.Runner, w.ended
	go func() { ended <- r.Run(ctx) }()
	synctest.Wait()
	return w
}

func (w *world) end() {
	w.t.Helper()
	w.stop()
	if err := <-w.ended; err != nil {
		w.t.Errorf("runner: %v", err)
	}
}

// push appends events as "name:id", each with its id as text and data.
func (w *world) push(scope string, events ...string) {
	w.t.Helper()
	e := store.Entry{Events: make([]store.NewEvent, len(events))}
	for i, event := range events {
		name, id, _ := strings.Cut(event, ":")
		kind, _ := w.Policy().KindOf(name)
		e.Events[i] = store.NewEvent{Scope: scope, Event: engine.Event{
			ID: id, Name: name, Kind: kind, Policy: w.Policy().Number, Text: "text of " + id, Data: fmt.Appendf(nil, `{"id":%q}`, id),
		}}
	}
	w.append(e)
}

func (w *world) append(e store.Entry) {
	w.t.Helper()
	receipts, err := w.store.Append(w.t.Context(), e)
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// sleep passes time, and lets what is due at its end happen.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (w *world) round() retention.Report {
	w.t.Helper()
	r, err := w.keeper.Round(w.t.Context())
	if err != nil {
		w.t.Fatalf("round: %v", err)
	}
	return r
}

func (w *world) steps(q store.StepQuery) []engine.Record {
	w.t.Helper()
	recs, err := w.store.Steps(w.t.Context(), q)
	if err != nil {
		w.t.Fatal(err)
	}
	return recs
}

func (w *world) last(kind engine.StepKind) *engine.Record {
	w.t.Helper()
	recs := w.steps(store.StepQuery{Kinds: []engine.StepKind{kind}})
	if len(recs) == 0 {
		w.t.Fatalf("no step %s", kind)
	}
	return &recs[len(recs)-1]
}

// requeue does what POST /v1/deadletters/{id}/requeue does, and reports whether
// all events of the window are still there.
func (w *world) requeue(letter *engine.Record) bool {
	w.t.Helper()
	d := letter.Step.DeadLetter
	recs, err := w.store.Events(w.t.Context(), d.Settled.Events)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(recs) < len(d.Settled.Events) {
		return false
	}
	w.append(store.Entry{Scope: letter.Scope, Steps: []engine.Step{{Kind: engine.StepRequeue, Window: d.WindowID, Requeue: &engine.Requeue{
		DeadLetter: d.ID, Number: d.Number, Settled: *d.Settled, Members: d.Members,
	}}}})
	return true
}

// aside lists the events in the side table.
func (w *world) aside() int {
	w.t.Helper()
	ps, err := w.store.Aside(w.t.Context(), 0, 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(ps)
}

func mustGather(t *testing.T, w *world) []*dto.MetricFamily {
	t.Helper()
	families, err := w.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}
