package storetest

import (
	"slices"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/store"
)

// compact shortens both logs in the same way, where the store can be shortened.
func (d *duel) compact(rt *rapid.T) {
	other, ok := d.other.(store.Compactor)
	if !ok {
		return
	}
	d.seen["compactor"]++
	model := d.model.(store.Compactor) //nolint:forcetypeassert // the memory store is one
	head, err := d.model.Head(d.ctx())
	if err != nil {
		rt.Fatal(err)
	}
	to := func(name string) engine.Position {
		return engine.Position(rapid.IntRange(0, int(head.Position)+1).Draw(rt, name))
	}
	checkpoint := to("checkpoint")
	err1, err2 := d.model.SaveStates(d.ctx(), d.fence[0], nil, checkpoint), d.other.SaveStates(d.ctx(), d.fence[1], nil, checkpoint)
	if class(err1) != class(err2) {
		rt.Fatalf("save a checkpoint: %v, the memory store: %v", err2, err1)
	}
	c := store.Compaction{Events: to("events"), Limit: rapid.IntRange(1, 20).Draw(rt, "limit")}
	c.Steps = engine.Position(rapid.IntRange(0, int(c.Events)).Draw(rt, "steps"))
	for range rapid.IntRange(0, 6).Draw(rt, "names") {
		c.Keep = append(c.Keep, to("keep"))
		c.Release = append(c.Release, to("release"))
	}
	slices.Sort(c.Keep)
	slices.Sort(c.Release)
	want, err1 := model.Compact(d.ctx(), d.fence[0], c)
	got, err2 := other.Compact(d.ctx(), d.fence[1], c)
	if class(err1) != class(err2) {
		rt.Fatalf("compact: %v, the memory store: %v", err2, err1)
	}
	d.differ(rt, "compactions", got, want)
	switch class(err1) {
	case "append": // no error
		d.seen["compact"]++
	default:
		d.seen["compact "+class(err1)]++
	}
	kept1, err1 := model.Kept(d.ctx())
	kept2, err2 := other.Kept(d.ctx())
	aside1, err3 := model.Aside(d.ctx(), 0, 1000)
	aside2, err4 := other.Aside(d.ctx(), 0, 1000)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			rt.Fatal(err)
		}
	}
	d.differ(rt, "marks", kept2, kept1)
	d.differ(rt, "side tables", aside2, aside1)
}
