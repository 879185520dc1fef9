package feed

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fataler is what both *testing.T and *rapid.T are.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is a log with an owner that writes decisions.
type world struct {
	t     fataler
	store *memory.Store
	fence store.Fence
	last  map[string]engine.Position // the last owner's step of each scope
	made  int
}

func newWorld(t fataler, o memory.Options) *world {
	t.Helper()
	st := memory.New(o)
	fence, err := st.Own(context.Background())
	if err != nil {
		t.Fatalf("own the store: %v", err)
	}
	return &world{t: t, store: st, fence: fence, last: map[string]engine.Position{}}
}

// write appends one owner's step.
func (w *world) write(scope string, step engine.Step) engine.Position {
	w.t.Helper()
	receipts, err := w.store.Append(context.Background(), store.Entry{
		Scope: scope, Steps: []engine.Step{step}, Fence: w.fence, After: w.last[scope],
	})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		w.t.Fatalf("append a step: %v", err)
	}
	w.last[scope] = receipts[0].Last
	return receipts[0].Last
}

// decide appends a decision; change, unless nil, changes it first.
func (w *world) decide(scope string, route engine.Route, change func(*engine.Decision)) *engine.Decision {
	w.t.Helper()
	w.made++
	d := &engine.Decision{
		ID: fmt.Sprintf("d%d", w.made), Kind: "decision", Scope: scope, Route: route,
		Reason: engine.ReasonClosing, Trigger: engine.TriggerDeadline, Notice: "something happened",
		Changed: []engine.Change{}, Predicates: map[string]float64{}, Events: []engine.EventView{},
	}
	if change != nil {
		change(d)
	}
	w.write(scope, engine.Step{Kind: engine.StepDecision, Window: d.ID, ID: d.ID, Route: route, Decision: d})
	return d
}

// giveUp appends a dead letter.
func (w *world) giveUp(scope string) *engine.DeadLetter {
	w.t.Helper()
	w.made++
	l := &engine.DeadLetter{ID: fmt.Sprintf("l%d", w.made), Kind: "deadLetter", Stage: "judge", Scope: scope, WindowID: "w", Number: 1}
	w.write(scope, engine.Step{Kind: engine.StepDeadLetter, Window: "w", ID: l.ID, DeadLetter: l})
	return l
}

// happen appends n events, which no reader of the feed sees.
func (w *world) happen(scope string, n int) {
	w.t.Helper()
	events := make([]store.NewEvent, n)
	for i := range events {
		events[i] = store.NewEvent{Scope: scope, Event: engine.Event{ID: fmt.Sprintf("e%d.%d", w.head(), i), Name: "x", Kind: engine.Consequence}}
	}
	receipts, err := w.store.Append(context.Background(), store.Entry{Events: events})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		w.t.Fatalf("append events: %v", err)
	}
}

func (w *world) head() engine.Position { return w.headOf().Position }

func (w *world) headOf() store.Head {
	w.t.Helper()
	head, err := w.store.Head(context.Background())
	if err != nil {
		w.t.Fatalf("head: %v", err)
	}
	return head
}

// aged is a store whose oldest records are gone.
type aged struct {
	Store
	before engine.Position // records up to here are gone
	event  engine.Position // and this event
}

func (a *aged) Events(ctx context.Context, positions []engine.Position) ([]engine.Record, error) {
	kept := slices.DeleteFunc(slices.Clone(positions), func(p engine.Position) bool { return p <= a.before || p == a.event })
	return a.Store.Events(ctx, kept)
}

func (a *aged) Kept(context.Context) (store.Kept, error) {
	return store.Kept{Events: a.before, Steps: a.before}, nil
}

func (a *aged) Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	return a.Store.Read(ctx, max(after, a.before), limit)
}

func (a *aged) Steps(ctx context.Context, q store.StepQuery) ([]engine.Record, error) {
	q.After = max(q.After, a.before)
	return a.Store.Steps(ctx, q)
}

// ids are those of items, in order.
func ids(items []Item) []string {
	list := make([]string, len(items))
	for i := range items {
		list[i] = items[i].ID()
	}
	return list
}
