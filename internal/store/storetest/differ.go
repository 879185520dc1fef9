package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/memory"
)

// Differ makes the same random calls on a store and on the memory store, and
// fails at the first answer in which they differ. Options are those of Run:
// with Reopen the store is now and then ended and opened again.
//
// It fails too when an operation has never succeeded in any of its runs, or an
// error of the contract has never been met, since then it compared too little.
func Differ(t *testing.T, open Open, options ...Option) {
	t.Helper()
	var s suite
	for _, o := range options {
		o(&s)
	}
	seen := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		clock := NewClock(start)
		d := &duel{
			t: t, rt: rt, clock: clock, reopen: s.reopen, seen: seen,
			model: memory.New(memory.Options{Now: clock.Now}),
			other: open(t, clock.Now),
			last:  make(map[string]engine.Position),
			heads: make(map[string]int64),
		}
		defer func() {
			if err := d.other.Close(); err != nil {
				rt.Errorf("close: %v", err)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"append":  d.append,
			"append ": d.append, // as often again
			"clock":   d.moveClock,
			"own":     d.own,
			"states":  d.saveStates,
			"read":    d.read,
			"query":   d.query,
			"fields":  d.readFields,
			"compact": d.compact,
			"reopen":  d.restart,
		})
		d.compareAll()
	})
	want := []string{"append", "conflict", "behind", "fenced", "invalid", "states", "states fenced", "read", "events", "steps", "field append", "field conflict", "fields"}
	if s.reopen != nil {
		want = append(want, "reopen")
	}
	if seen["compactor"] > 0 {
		want = append(want, "compact", "compact invalid", "compact fenced")
	}
	for _, op := range want {
		if seen[op] == 0 {
			t.Errorf("%q was never met: %v", op, seen)
		}
	}
}

// duel is two stores that must not differ.
type duel struct {
	t      *testing.T
	rt     *rapid.T
	clock  *Clock
	reopen func(*testing.T, store.Store, func() time.Time) store.Store
	seen   map[string]int

	model store.Store
	other store.Store
	fence [2]store.Fence // of model and other: tokens need not be the same
	last  map[string]engine.Position
	heads map[string]int64 // of the Fields
}

func (d *duel) ctx() context.Context { return d.t.Context() }

// pick draws a scope; "" is every scope.
func pick(rt *rapid.T, names ...string) string { return rapid.SampledFrom(names).Draw(rt, "scope") }

func (d *duel) append(rt *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(rt, "entries")
	model, other := make([]store.Entry, n), make([]store.Entry, n)
	next := maps.Clone(d.heads) // if nothing is refused
	for i := range n {
		e, stale := d.entry(rt)
		if rapid.Bool().Draw(rt, "field") {
			e.Field = drawChanges(rt, next)
		}
		model[i], other[i] = e, e
		if e.Fence != (store.Fence{}) {
			model[i].Fence, other[i].Fence = d.fence[0], d.fence[1]
			if stale {
				model[i].Fence.Token, other[i].Fence.Token = -1, -1
			}
		}
	}
	want, err1 := d.model.Append(d.ctx(), model...)
	got, err2 := d.other.Append(d.ctx(), other...)
	if err1 != nil || err2 != nil {
		rt.Fatalf("append: %v, the memory store: %v", err2, err1)
	}
	for i := range want {
		if class(got[i].Err) != class(want[i].Err) {
			rt.Fatalf("receipt %d: %v, the memory store: %v\nentry %+v", i, got[i].Err, want[i].Err, model[i])
		}
		d.seen[class(want[i].Err)]++
		if model[i].Field != nil {
			d.seen["field "+class(want[i].Err)]++
		}
		if want[i].Err == nil {
			d.note(&model[i], want[i])
		}
		got[i].Err, want[i].Err = nil, nil
	}
	d.differ(rt, "receipts", got, want)
}

// note remembers the scope's last numbered step, as an owner does, and the
// Field's last change.
func (d *duel) note(e *store.Entry, r store.Receipt) {
	if e.Field != nil {
		d.heads[e.Field.Name] = e.Field.Last()
	}
	for i := range e.Steps {
		if !e.Steps[i].Kind.Outside() {
			d.last[e.Scope] = r.First + engine.Position(len(e.Events)+i)
		}
	}
}

// entry draws an entry that is mostly good. Stale asks for a fence of before.
func (d *duel) entry(rt *rapid.T) (e store.Entry, stale bool) {
	e.Scope = pick(rt, "a", "b", "c", "")
	for range rapid.IntRange(0, 3).Draw(rt, "events") {
		ev := event(pick(rt, "a", "b", "c"), rapid.SampledFrom(strange()).Draw(rt, "id"))
		if rapid.Bool().Draw(rt, "bare") {
			ev.At, ev.Data, ev.Text = nil, nil, ""
		}
		e.Events = append(e.Events, ev)
	}
	if rapid.IntRange(0, 19).Draw(rt, "broken") == 0 {
		e.Events = append(e.Events, event("", "no scope"))
	}
	for range rapid.IntRange(0, 2).Draw(rt, "puts") {
		p := store.Put{Space: pick(rt, "x", "y"), Key: pick(rt, "k", "l", "m")}
		if v := rapid.IntRange(0, 3).Draw(rt, "value"); v > 0 {
			p.Value = []byte(fmt.Sprint(v))
		}
		e.Puts = append(e.Puts, p)
	}
	window := rapid.SampledFrom([]string{"w1", "w2", "w3"}).Draw(rt, "window")
	if rapid.Bool().Draw(rt, "owned") && d.fence[0] != (store.Fence{}) {
		e.Fence = d.fence[0]
		e.Steps = append(e.Steps, rapid.SampledFrom([]engine.Step{settled(window), decided(window), letter(window, "l"+window)}).Draw(rt, "step"))
		e.After = d.last[e.Scope]
		if rapid.IntRange(0, 7).Draw(rt, "wrong") == 0 {
			e.After++
		}
		head, err := d.model.Head(d.ctx())
		if err != nil {
			rt.Fatal(err)
		}
		now := engine.Time(d.clock.Now().UnixMilli())
		e.Due = now + engine.Time(rapid.IntRange(-30, 3).Draw(rt, "due"))
		e.Applied = max(0, head.Position-engine.Position(rapid.IntRange(0, 12).Draw(rt, "lag")))
		stale = rapid.IntRange(0, 15).Draw(rt, "stale") == 0
	}
	for range rapid.IntRange(0, 2).Draw(rt, "flushes") {
		e.Steps = append(e.Steps, flush())
	}
	return e, stale
}

// moveClock moves on alone: how far a store's clock runs on by itself while
// the other one stands back depends on when it was read.
func (d *duel) moveClock(rt *rapid.T) {
	now := engine.Time(d.clock.Now().UnixMilli())
	d.clock.Set(now + engine.Time(rapid.IntRange(0, 40).Draw(rt, "ms")))
}

func (d *duel) own(rt *rapid.T) {
	var err1, err2 error
	d.fence[0], err1 = d.model.Own(d.ctx())
	d.fence[1], err2 = d.other.Own(d.ctx())
	if err1 != nil || err2 != nil {
		rt.Fatalf("own: %v, the memory store: %v", err2, err1)
	}
}

func (d *duel) saveStates(rt *rapid.T) {
	var rows []store.StateRow
	for range rapid.IntRange(0, 3).Draw(rt, "rows") {
		row := state(pick(rt, "a", "b", "c"), engine.Position(rapid.IntRange(0, 20).Draw(rt, "position")), rapid.StringN(0, 5, 20).Draw(rt, "body"))
		row.Live = rapid.Bool().Draw(rt, "live")
		row.WakeAt = engine.Time(rapid.IntRange(0, 1).Draw(rt, "wake"))
		for range rapid.IntRange(0, 2).Draw(rt, "blocks") {
			row.Blocks = append(row.Blocks, block(int64(rapid.IntRange(0, 9).Draw(rt, "seq")), rapid.StringN(0, 5, 20).Draw(rt, "block")))
		}
		row.DropBlocksBefore = int64(rapid.IntRange(0, 5).Draw(rt, "drop"))
		rows = append(rows, row)
	}
	fences, checkpoint := d.fence, engine.Position(rapid.IntRange(0, 30).Draw(rt, "checkpoint"))
	if rapid.IntRange(0, 9).Draw(rt, "stale") == 0 {
		fences = [2]store.Fence{}
	}
	err1 := d.model.SaveStates(d.ctx(), fences[0], rows, checkpoint)
	err2 := d.other.SaveStates(d.ctx(), fences[1], rows, checkpoint)
	switch {
	case class(err1) != class(err2):
		rt.Fatalf("save states: %v, the memory store: %v", err2, err1)
	case err1 != nil:
		d.seen["states "+class(err1)]++
	default:
		d.seen["states"]++
	}
}

func (d *duel) read(rt *rapid.T) {
	after := engine.Position(rapid.IntRange(-1, 60).Draw(rt, "after"))
	limit := rapid.IntRange(1, 20).Draw(rt, "limit")
	want, err1 := d.model.Read(d.ctx(), after, limit)
	got, err2 := d.other.Read(d.ctx(), after, limit)
	d.answers(rt, "read", got, want, err2, err1)
	ask := rapid.SliceOfN(rapid.Int64Range(-1, 60), 0, 8).Draw(rt, "positions")
	positions := make([]engine.Position, len(ask))
	for i := range ask {
		positions[i] = engine.Position(ask[i])
	}
	want, err1 = d.model.Events(d.ctx(), positions)
	got, err2 = d.other.Events(d.ctx(), positions)
	d.answers(rt, "events", got, want, err2, err1)
}

func (d *duel) query(rt *rapid.T) {
	kinds := []engine.StepKind{engine.StepSettled, engine.StepDecision, engine.StepDeadLetter, engine.StepFlush}
	q := store.StepQuery{
		After:  engine.Position(rapid.IntRange(0, 40).Draw(rt, "after")),
		Kinds:  rapid.SliceOfN(rapid.SampledFrom(kinds), 0, 3).Draw(rt, "kinds"),
		Scope:  pick(rt, "", "a", "b"),
		Window: rapid.SampledFrom([]string{"", "", "w1", "w2"}).Draw(rt, "window"),
		ID:     rapid.SampledFrom([]string{"", "", "w1", "lw2"}).Draw(rt, "id"),
		Limit:  rapid.IntRange(0, 5).Draw(rt, "limit"),
	}
	want, err1 := d.model.Steps(d.ctx(), q)
	got, err2 := d.other.Steps(d.ctx(), q)
	d.answers(rt, "steps", got, want, err2, err1)
}

func (d *duel) restart(rt *rapid.T) {
	if d.reopen == nil || rapid.IntRange(0, 4).Draw(rt, "restart") > 0 {
		return
	}
	d.other = d.reopen(d.t, d.other, d.clock.Now)
	d.seen["reopen"]++
}

// compareAll compares everything that can be read.
func (d *duel) compareAll() {
	rt := d.rt
	want, err1 := d.model.Read(d.ctx(), 0, 10_000)
	got, err2 := readAll(d.ctx(), d.other)
	d.answers(rt, "log", got, want, err2, err1)
	for _, space := range []string{"x", "y"} {
		want, err1 := d.model.Rows(d.ctx(), space)
		got, err2 := d.other.Rows(d.ctx(), space)
		if err1 != nil || err2 != nil {
			rt.Fatalf("rows: %v, the memory store: %v", err2, err1)
		}
		d.differ(rt, "rows of "+space, got, want)
	}
	d.compareFields()
	live1, err1 := d.model.LiveStates(d.ctx(), "", 10)
	live2, err2 := d.other.LiveStates(d.ctx(), "", 10)
	if err1 != nil || err2 != nil {
		rt.Fatalf("live states: %v, the memory store: %v", err2, err1)
	}
	d.differ(rt, "live states", live2, live1)
	for _, scope := range []string{"a", "b", "c"} {
		want, err1 := d.model.LoadState(d.ctx(), scope)
		got, err2 := d.other.LoadState(d.ctx(), scope)
		if class(err1) != class(err2) {
			rt.Fatalf("state of %s: %v, the memory store: %v", scope, err2, err1)
		}
		d.differ(rt, "state of "+scope, got, want)
	}
	at1, err1 := d.model.Checkpoint(d.ctx(), d.fence[0])
	at2, err2 := d.other.Checkpoint(d.ctx(), d.fence[1])
	if err1 != nil || err2 != nil || at1 != at2 {
		rt.Fatalf("checkpoint %d, %v; the memory store: %d, %v", at2, err2, at1, err1)
	}
}

func readAll(ctx context.Context, s store.Store) (all []engine.Record, err error) {
	for {
		after := engine.Position(0)
		if len(all) > 0 {
			after = all[len(all)-1].Position
		}
		rs, err := s.Read(ctx, after, 10_000)
		if err != nil || len(rs) == 0 {
			return all, err
		}
		all = slices.Concat(all, rs)
	}
}

// answers compares records. A store may give fewer of a log at a time.
func (d *duel) answers(rt *rapid.T, op string, got, want []engine.Record, gotErr, wantErr error) {
	if gotErr != nil || wantErr != nil {
		rt.Fatalf("%s: %v, the memory store: %v", op, gotErr, wantErr)
	}
	if op == "read" && len(got) > 0 && len(got) < len(want) {
		want = want[:len(got)]
	}
	d.differ(rt, op, got, want)
	if len(want) > 0 {
		d.seen[op]++
	}
}

func (d *duel) differ(rt *rapid.T, what string, got, want any) {
	if diff := Compare(got, want); diff != "" {
		rt.Fatalf("%s differ from the memory store's (-memory +store):\n%s", what, diff)
	}
}

// class names an error of the contract.
func class(err error) string {
	for name, known := range map[string]error{
		"unavailable": store.ErrUnavailable, "fenced": store.ErrFenced, "conflict": store.ErrConflict, "behind": store.ErrBehind,
		"not found": store.ErrNotFound, "closed": store.ErrClosed, "invalid": store.ErrInvalid,
	} {
		if errors.Is(err, known) {
			return name
		}
	}
	if err != nil {
		return "unknown: " + err.Error()
	}
	return "append"
}
