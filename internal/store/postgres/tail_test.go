package postgres

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/store"
)

// log is records at the positions from first to last: every third is a step.
func log(first, last engine.Position) (out []engine.Record) {
	for p := first; p <= last; p++ {
		r := engine.Record{Position: p, Stamp: engine.Time(p / 2), Scope: []string{"a", "b", ""}[p%3], Event: &engine.Event{ID: "x"}}
		if p%3 == 0 {
			r.Event, r.Step = nil, &engine.Step{Kind: engine.StepSilence}
		}
		out = append(out, r)
	}
	return out
}

// TestTail_NeverGivesALogWithGaps adds what a writer and a follower find, in
// any order and more than once, and compares with the log itself.
func TestTail_NeverGivesALogWithGaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tail := newTail(0, rapid.IntRange(1, 30).Draw(rt, "bound"))
		end := engine.Position(0) // of what was committed
		cut := engine.Position(0)
		position := func(label string) engine.Position {
			return engine.Position(rapid.Int64Range(0, int64(end)+2).Draw(rt, label))
		}
		rt.Repeat(map[string]func(*rapid.T){
			"commit": func(rt *rapid.T) { // by this replica, or by another
				first := end + 1
				end += engine.Position(rapid.IntRange(1, 5).Draw(rt, "records"))
				if rapid.Bool().Draw(rt, "mine") {
					_, at := tail.end()
					if tail.add(log(first, end)) != (at+1 == first) {
						rt.Fatalf("records from %d on, behind %d", first, at)
					}
				}
			},
			"hear": func(rt *rapid.T) { tail.learn(min(position("known"), end)) },
			"follow": func(rt *rapid.T) {
				known, at := tail.end()
				if known > at && !tail.add(log(at+1, min(known, at+3))) {
					rt.Fatal("what follows does not follow")
				}
			},
			"again": func(rt *rapid.T) { // what the tail holds already, and more
				if _, at := tail.end(); at > 0 && !tail.add(log(max(at-1, 1), min(at+1, end))) {
					rt.Fatal("what is held already does not follow")
				}
			},
			"restart": func(rt *rapid.T) { tail.restart(min(position("at"), end)) },
			"cut":     func(rt *rapid.T) { cut = max(cut, min(position("upto"), end)); tail.cut(cut) },
			"read": func(rt *rapid.T) {
				after, limit := position("after"), rapid.IntRange(1, 9).Draw(rt, "limit")
				known, _ := tail.end()
				got, ok := tail.read(after, limit)
				switch {
				case !ok:
				case after >= known:
					if len(got) > 0 {
						rt.Fatalf("behind the end %d: %v", known, got)
					}
				case len(got) == 0 || len(got) > limit:
					rt.Fatalf("%d records after %d of %d", len(got), after, known)
				default:
					same(rt, got, log(after+1, after+engine.Position(len(got))))
				}
			},
			"steps": func(rt *rapid.T) {
				q := store.StepQuery{After: position("after"), Limit: 3}
				known, _ := tail.end()
				if got, ok := tail.steps(&q); ok {
					want := slices.DeleteFunc(log(q.After+1, known), func(r engine.Record) bool { return r.Step == nil })
					same(rt, got, want[:min(len(want), 3)])
				}
			},
			"pick": func(rt *rapid.T) {
				ask := []engine.Position{position("one"), position("two")}
				found := make(map[engine.Position]engine.Record)
				others := tail.pick(ask, found)
				for _, p := range ask {
					r, ok := found[p]
					if ok && (r.Position != p || r.Event == nil) || !ok && !slices.Contains(others, p) && p%3 != 0 {
						rt.Fatalf("position %d: %+v, and %v are to be asked for", p, r, others)
					}
				}
			},
			"forbids": func(rt *rapid.T) {
				e := &store.Entry{Scope: "a", Applied: position("applied"), Due: engine.Time(position("due"))}
				at, looked, whole := tail.forbids(e)
				for _, r := range log(e.Applied+1, looked) {
					if e.Concerns(&r) && at == 0 && whole {
						rt.Fatalf("%+v passes over %d", e, r.Position)
					}
				}
				if at != 0 && !e.Concerns(&log(at, at)[0]) {
					rt.Fatalf("%d does not forbid %+v", at, e)
				}
			},
		})
	})
}

func same(rt *rapid.T, got, want []engine.Record) {
	rt.Helper()
	if !slices.EqualFunc(got, want, func(a, b engine.Record) bool {
		return a.Position == b.Position && a.Stamp == b.Stamp && (a.Step == nil) == (b.Step == nil)
	}) {
		rt.Fatalf("%v, want %v", got, want)
	}
}
