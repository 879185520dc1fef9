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

// Contender is a store that is compared with others.
type Contender struct {
	name   string
	open   Open
	reopen func(*testing.T, store.Store, func() time.Time) store.Store // nil: it is never ended
}

// Contend names a store for Differ. Options are those of Run: with Reopen the
// store is now and then ended and opened again.
func Contend(name string, open Open, options ...Option) Contender {
	var s suite
	for _, o := range options {
		o(&s)
	}
	return Contender{name: name, open: open, reopen: s.reopen}
}

// Differ makes one random sequence of calls on several stores and on the
// memory store, and fails at the first answer in which one of them differs.
//
// It fails too when an operation has never succeeded in any of its runs, or an
// error of the contract has never been met, since then it compared too little.
func Differ(t *testing.T, contenders ...Contender) {
	t.Helper()
	seen := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		clock := NewClock(start)
		d := &duel{
			t: t, rt: rt, clock: clock, seen: seen,
			model: memory.New(memory.Options{Now: clock.Now}),
			last:  make(map[string]engine.Position),
			heads: make(map[string]int64),
		}
		for _, c := range contenders {
			d.others = append(d.others, &rival{Contender: c, Store: c.open(t, clock.Now)})
		}
		defer func() {
			for _, o := range d.others {
				if err := o.Close(); err != nil {
					rt.Errorf("close %s: %v", o.name, err)
				}
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
	for _, c := range contenders {
		if c.reopen != nil {
			want = append(want, "reopen "+c.name)
		}
		if seen["compactor "+c.name] > 0 {
			want = append(want, "compact", "compact invalid", "compact fenced")
		}
	}
	for _, op := range want {
		if seen[op] == 0 {
			t.Errorf("%q was never met: %v", op, seen)
		}
	}
}

// duel is the memory store and others that must not differ from it.
type duel struct {
	t     *testing.T
	rt    *rapid.T
	clock *Clock
	seen  map[string]int

	model  store.Store
	fence  store.Fence // of the model
	others []*rival
	last   map[string]engine.Position
	heads  map[string]int64 // of the Fields
}

// rival is a store that is compared with the model.
type rival struct {
	Contender
	store.Store
	fence store.Fence // its own: tokens need not be the same
}

func (d *duel) ctx() context.Context { return d.t.Context() }

// pick draws a scope; "" is every scope.
func pick(rt *rapid.T, names ...string) string { return rapid.SampledFrom(names).Draw(rt, "scope") }

func (d *duel) append(rt *rapid.T) {
	n := rapid.IntRange(1, 4).Draw(rt, "entries")
	entries, stale := make([]store.Entry, n), make([]bool, n)
	next := maps.Clone(d.heads) // if nothing is refused
	for i := range n {
		entries[i], stale[i] = d.entry(rt)
		if rapid.Bool().Draw(rt, "field") {
			entries[i].Field = drawChanges(rt, next)
		}
	}
	want, err := d.model.Append(d.ctx(), fenced(entries, stale, d.fence)...)
	d.must(rt, "append", err)
	for _, o := range d.others {
		got, err := o.Append(d.ctx(), fenced(entries, stale, o.fence)...)
		if err != nil {
			rt.Fatalf("append to %s: %v", o.name, err)
		}
		d.receipts(rt, o, entries, got, want)
	}
	for i := range want {
		d.seen[class(want[i].Err)]++
		if entries[i].Field != nil {
			d.seen["field "+class(want[i].Err)]++
		}
		if want[i].Err == nil {
			d.note(&entries[i], want[i])
		}
	}
}

// fenced gives the entries of an owner one store's fence, or a stale one.
func fenced(entries []store.Entry, stale []bool, fence store.Fence) []store.Entry {
	own := slices.Clone(entries)
	for i := range own {
		if own[i].Fence == (store.Fence{}) {
			continue
		}
		if own[i].Fence = fence; stale[i] {
			own[i].Fence.Token = -1
		}
	}
	return own
}

func (d *duel) receipts(rt *rapid.T, o *rival, entries []store.Entry, got, want []store.Receipt) {
	want = slices.Clone(want)
	for i := range want {
		if class(got[i].Err) != class(want[i].Err) {
			rt.Fatalf("receipt %d of %s: %v, the memory store: %v\nentry %+v", i, o.name, got[i].Err, want[i].Err, entries[i])
		}
		got[i].Err, want[i].Err = nil, nil
	}
	d.differ(rt, "receipts", o, got, want)
}

// must ends the run where the memory store fails: it never does.
func (d *duel) must(rt *rapid.T, op string, err error) {
	if err != nil {
		rt.Fatalf("%s, the memory store: %v", op, err)
	}
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
	if rapid.Bool().Draw(rt, "owned") && d.fence != (store.Fence{}) {
		e.Fence = d.fence
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
	fence, err := d.model.Own(d.ctx())
	d.must(rt, "own", err)
	d.fence = fence
	for _, o := range d.others {
		if o.fence, err = o.Own(d.ctx()); err != nil {
			rt.Fatalf("own %s: %v", o.name, err)
		}
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
	checkpoint := engine.Position(rapid.IntRange(0, 30).Draw(rt, "checkpoint"))
	stale := rapid.IntRange(0, 9).Draw(rt, "stale") == 0
	save := func(s store.Store, fence store.Fence) error {
		if stale {
			fence = store.Fence{}
		}
		return s.SaveStates(d.ctx(), fence, rows, checkpoint)
	}
	want := save(d.model, d.fence)
	for _, o := range d.others {
		if got := save(o, o.fence); class(got) != class(want) {
			rt.Fatalf("save states of %s: %v, the memory store: %v", o.name, got, want)
		}
	}
	if want != nil {
		d.seen["states "+class(want)]++
	} else {
		d.seen["states"]++
	}
}

func (d *duel) read(rt *rapid.T) {
	after := engine.Position(rapid.IntRange(-1, 60).Draw(rt, "after"))
	limit := rapid.IntRange(1, 20).Draw(rt, "limit")
	d.answers(rt, "read", func(s store.Store) ([]engine.Record, error) { return s.Read(d.ctx(), after, limit) })
	ask := rapid.SliceOfN(rapid.Int64Range(-1, 60), 0, 8).Draw(rt, "positions")
	positions := make([]engine.Position, len(ask))
	for i := range ask {
		positions[i] = engine.Position(ask[i])
	}
	d.answers(rt, "events", func(s store.Store) ([]engine.Record, error) { return s.Events(d.ctx(), positions) })
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
	d.answers(rt, "steps", func(s store.Store) ([]engine.Record, error) { return s.Steps(d.ctx(), q) })
}

func (d *duel) restart(rt *rapid.T) {
	for _, o := range d.others {
		if o.reopen == nil || rapid.IntRange(0, 4).Draw(rt, "restart "+o.name) > 0 {
			continue
		}
		o.Store = o.reopen(d.t, o.Store, d.clock.Now)
		d.seen["reopen "+o.name]++
	}
}

// compareAll compares everything that can be read.
func (d *duel) compareAll() {
	d.answers(d.rt, "log", func(s store.Store) ([]engine.Record, error) { return readAll(d.ctx(), s) })
	for _, space := range []string{"x", "y"} {
		compared(d, "rows of "+space, func(s store.Store) ([]store.Put, error) { return s.Rows(d.ctx(), space) })
	}
	d.compareFields()
	compared(d, "live states", func(s store.Store) ([]store.StateRow, error) { return s.LiveStates(d.ctx(), "", 10) })
	for _, scope := range []string{"a", "b", "c"} {
		compared(d, "state of "+scope, func(s store.Store) (store.StateRow, error) {
			row, err := s.LoadState(d.ctx(), scope)
			if errors.Is(err, store.ErrNotFound) {
				return store.StateRow{}, nil
			}
			return row, err
		})
	}
	want, err := d.model.Checkpoint(d.ctx(), d.fence)
	d.must(d.rt, "checkpoint", err)
	for _, o := range d.others {
		if got, err := o.Checkpoint(d.ctx(), o.fence); err != nil || got != want {
			d.rt.Fatalf("checkpoint of %s: %d, %v; the memory store: %d", o.name, got, err, want)
		}
	}
}

// compared asks every store the same, and none may fail.
func compared[T any](d *duel, what string, ask func(store.Store) (T, error)) {
	want, err := ask(d.model)
	d.must(d.rt, what, err)
	for _, o := range d.others {
		got, err := ask(o.Store)
		if err != nil {
			d.rt.Fatalf("%s of %s: %v", what, o.name, err)
		}
		d.differ(d.rt, what, o, got, want)
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
func (d *duel) answers(rt *rapid.T, op string, ask func(store.Store) ([]engine.Record, error)) {
	want, err := ask(d.model)
	d.must(rt, op, err)
	for _, o := range d.others {
		got, err := ask(o.Store)
		if err != nil {
			rt.Fatalf("%s, %s: %v", op, o.name, err)
		}
		expected := want
		if op == "read" && len(got) > 0 && len(got) < len(want) {
			expected = want[:len(got)]
		}
		d.differ(rt, op, o, got, expected)
	}
	if len(want) > 0 {
		d.seen[op]++
	}
}

func (d *duel) differ(rt *rapid.T, what string, o *rival, got, want any) {
	if diff := Compare(got, want); diff != "" {
		rt.Fatalf("%s of the memory store (-) and of %s (+) differ:\n%s", what, o.name, diff)
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
