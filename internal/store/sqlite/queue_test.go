package sqlite

import (
	"fmt"
	"slices"
	"testing"

	"attend/internal/engine"
	"attend/internal/store"
)

func none() error { return nil }

// named makes a call of entries whose scopes tell them apart in a group.
func named(owned bool, scopes ...string) *call {
	var entries []store.Entry
	for _, s := range scopes {
		e := store.Entry{Steps: []engine.Step{{Kind: engine.StepFlush}}, Scope: s}
		if owned {
			e.Fence = store.Fence{Shard: -1, Token: 1}
		}
		entries = append(entries, e)
	}
	return newCall(none, entries)
}

func scopesOf(g *group) []string {
	var out []string
	for _, p := range g.entries {
		out = append(out, p.Scope)
	}
	return out
}

func TestQueue_TheOwnersCallsGoFirst(t *testing.T) {
	q := newQueue()
	q.push(named(false, "p1", "p2"))
	q.push(named(true, "o1", "o2"))
	q.push(named(false, "p3"))
	q.push(named(true, "o3"))
	g, _ := q.take()
	if got, want := scopesOf(g), []string{"o1", "o2", "o3", "p1", "p2", "p3"}; !slices.Equal(got, want) {
		t.Errorf("group %v, want %v", got, want)
	}
}

func TestQueue_ATaskWaitsForOneGroupAtMost(t *testing.T) {
	q := newQueue()
	a, b := new(task), new(task)
	q.pushTask(a)
	q.pushTask(b)
	q.push(named(false, "p1"))
	var order []string
	for range 3 {
		switch g, tk := q.take(); {
		case g != nil:
			order = append(order, "group")
			q.push(named(false, "more"))
		case tk == a:
			order = append(order, "a")
		case tk == b:
			order = append(order, "b")
		}
	}
	if want := []string{"group", "a", "group"}; !slices.Equal(order, want) {
		t.Errorf("taken: %v, want %v", order, want)
	}
}

func TestQueue_GroupsAreBounded(t *testing.T) {
	sized := func(events, bytes int) store.Entry {
		e := store.Entry{}
		for i := range events {
			e.Events = append(e.Events, store.NewEvent{Scope: "a", Event: engine.Event{ID: fmt.Sprint(i), Data: make([]byte, bytes)}})
		}
		return e
	}
	for name, c := range map[string]struct {
		entries []store.Entry
		want    []int // entries in each group
	}{
		"ByRecords":              {[]store.Entry{sized(1000, 0), sized(500, 0), sized(1, 0)}, []int{1, 2}},
		"ByBytes":                {[]store.Entry{sized(1, 100<<10), sized(1, 100<<10), sized(1, 100<<10)}, []int{2, 1}},
		"ALargeEntryStandsAlone": {[]store.Entry{sized(1, 1), sized(1, 1<<20), sized(5000, 1), sized(1, 1)}, []int{1, 1, 1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue()
			c1 := newCall(none, c.entries)
			q.push(c1)
			next := 0
			for i, want := range c.want {
				g, _ := q.take()
				if len(g.entries) != want {
					t.Fatalf("group %d has %d entries, want %d", i, len(g.entries), want)
				}
				for _, p := range g.entries {
					if p != &c1.entries[next] {
						t.Fatalf("entry %d is out of order", next)
					}
					next++
					p.settle(store.Receipt{})
				}
			}
			<-c1.done
		})
	}
}

func TestQueue_WhatWaitsIsTakenAfterTheClose(t *testing.T) {
	q := newQueue()
	q.push(named(false, "p1"))
	q.pushTask(new(task))
	q.close()
	if q.push(named(false, "p2")) || q.pushTask(new(task)) {
		t.Error("a closed queue took more")
	}
	if g, tk := q.take(); g == nil || tk != nil {
		// The call came first, but a task goes before calls after a group only.
		t.Errorf("took %v, %v; want the group", g, tk)
	}
	if g, tk := q.take(); g != nil || tk == nil {
		t.Errorf("took %v, %v; want the task", g, tk)
	}
	if g, tk := q.take(); g != nil || tk != nil {
		t.Errorf("took %v, %v from an empty queue", g, tk)
	}
}

func TestNumbered_IsBoundedAndForgetsTheOldest(t *testing.T) {
	var n recent[engine.Position]
	n.put("kept", 1)
	for i := range 3 * recentMost {
		n.put(fmt.Sprint(i), engine.Position(i))
		if p, ok := n.get("kept"); !ok || p != 1 {
			t.Fatalf("what is asked for was forgotten after %d", i)
		}
	}
	if len(n.young)+len(n.old) > 2*recentMost {
		t.Errorf("it holds %d and %d", len(n.young), len(n.old))
	}
	if _, ok := n.get("0"); ok {
		t.Error("the oldest was not forgotten")
	}
}
