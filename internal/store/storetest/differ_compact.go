package storetest

import (
	"slices"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/store"
)

// compact shortens all logs in the same way, where they can be shortened.
func (d *duel) compact(rt *rapid.T) {
	for _, o := range d.others {
		if _, ok := o.Store.(store.Compactor); !ok {
			return
		}
		d.seen["compactor "+o.name]++
	}
	head, err := d.model.Head(d.ctx())
	d.must(rt, "head", err)
	to := func(name string) engine.Position {
		return engine.Position(rapid.IntRange(0, int(head.Position)+1).Draw(rt, name))
	}
	checkpoint := to("checkpoint")
	c := store.Compaction{Events: to("events"), Limit: rapid.IntRange(1, 20).Draw(rt, "limit")}
	c.Steps = engine.Position(rapid.IntRange(0, int(c.Events)).Draw(rt, "steps"))
	for range rapid.IntRange(0, 6).Draw(rt, "names") {
		c.Keep = append(c.Keep, to("keep"))
		c.Release = append(c.Release, to("release"))
	}
	slices.Sort(c.Keep)
	slices.Sort(c.Release)
	want := d.compactOne(rt, d.model, d.fence, checkpoint, c)
	for _, o := range d.others {
		d.differ(rt, "compactions", o, d.compactOne(rt, o.Store, o.fence, checkpoint, c), want)
	}
	if want.Refused == "append" { // no error
		d.seen["compact"]++
	} else {
		d.seen["compact "+want.Refused]++
	}
}

// compaction is all that a compaction and what it leaves may differ in.
type compaction struct {
	Unsaved, Refused string // classes of errors
	Done             store.Compacted
	Kept             store.Kept
	Aside            []engine.Position
}

func (d *duel) compactOne(rt *rapid.T, s store.Store, fence store.Fence, checkpoint engine.Position, c store.Compaction) (all compaction) {
	all.Unsaved = class(s.SaveStates(d.ctx(), fence, nil, checkpoint))
	compactor := s.(store.Compactor) //nolint:forcetypeassert // looked at before
	done, err := compactor.Compact(d.ctx(), fence, c)
	all.Done, all.Refused = done, class(err)
	if all.Kept, err = compactor.Kept(d.ctx()); err != nil {
		rt.Fatal(err)
	}
	if all.Aside, err = compactor.Aside(d.ctx(), 0, 1000); err != nil {
		rt.Fatal(err)
	}
	return all
}
