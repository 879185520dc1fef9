package retention_test

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/retention"
	"attend/internal/store"
)

// op is one thing that happens to a world.
type op struct {
	what  string
	scope string
	names []string
	wait  time.Duration
}

func drawOps(rt *rapid.T) []op {
	var ops []op
	for i := range rapid.IntRange(5, 30).Draw(rt, "ops") {
		o := op{
			what:  rapid.SampledFrom([]string{"push", "push", "push", "again", "flush", "requeue", "restart", "wait"}).Draw(rt, "op"),
			scope: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "scope"),
			wait:  time.Duration(rapid.SampledFrom([]int{0, 0, 10, 900, 3000, 8000, 40_000}).Draw(rt, "wait ms")) * time.Millisecond,
		}
		for j := range rapid.IntRange(1, 4).Draw(rt, "events") {
			o.names = append(o.names, fmt.Sprintf("%s:%d.%d", rapid.SampledFrom([]string{"ask", "done", "log", "log"}).Draw(rt, "name"), i, j))
		}
		ops = append(ops, o)
	}
	return ops
}

// history is what came of the ops: decisions and dead letters by id.
type history struct {
	decisions map[string]string
	rounds    retention.Report // added up
}

// play runs the ops in a bubble, with rounds of the keeper or without. What is
// kept is so short that everything is deleted while it is still needed, but for
// what the keeper keeps.
func play(t *testing.T, ops []op, rounds, model bool) (h history) {
	t.Helper()
	h.decisions = make(map[string]string)
	synctest.Test(t, func(t *testing.T) {
		var j judge.Func
		if model {
			j = answer(t, func(in *judge.Input) engine.Route {
				return []engine.Route{engine.Queue, engine.Wait, 0, engine.Note, engine.Wait}[crc32.ChecksumIEEE([]byte(in.Window.ID))%5]
			})
		}
		w := newWorld(t, j, func(s *engine.Settings) {
			s.DedupMs, s.WaitHorizonMs, s.MaxWindowMs, s.MaxEvents = 5000, 20_000, 10_000, 6
		})
		w.keep.Events, w.keep.Steps = 2*time.Second, 15*time.Second
		w.opt.CheckpointInterval, w.opt.CheckpointRecords = 3*time.Second, 5
		w.keep.Batch = 3
		w.start()
		for _, o := range ops {
			w.play(&o)
			sleep(o.wait)
			h.collect(w)
			if rounds {
				h.add(w.round())
			}
		}
		sleep(time.Minute)
		h.collect(w)
		if rounds {
			h.add(w.round())
		}
		w.end()
		w.whole()
	})
	return h
}

func (w *world) play(o *op) {
	w.t.Helper()
	switch o.what {
	case "push":
		w.push(o.scope, o.names...)
	case "again":
		w.push(o.scope, o.names...)
		w.push(o.scope, o.names...)
	case "flush":
		w.append(store.Entry{Scope: o.scope, Steps: []engine.Step{{Kind: engine.StepFlush}}})
	case "requeue":
		letters := w.steps(store.StepQuery{Kinds: []engine.StepKind{engine.StepDeadLetter}, Scope: o.scope})
		for i := range slices.Backward(letters) {
			if letters[i].Stamp > engine.Time(time.Now().Add(-14*time.Second).UnixMilli()) {
				if !w.requeue(&letters[i]) {
					w.t.Errorf("the dead letter at %d is kept, and its events are gone", letters[i].Position)
				}
				return
			}
		}
	case "restart":
		w.end()
		w.start()
	}
}

// whole checks that a stranger who reads the store finds everything that its
// states name.
func (w *world) whole() {
	w.t.Helper()
	rules := engine.NewRules(nil)
	for _, p := range w.steps(store.StepQuery{Kinds: []engine.StepKind{engine.StepPolicy}}) {
		if err := rules.Apply(p); err != nil {
			w.t.Fatal(err)
		}
	}
	rows, err := w.store.LiveStates(w.t.Context(), "", 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, row := range rows {
		s, err := engine.DecodeView(rules, row.Body, row.Format)
		if err != nil {
			w.t.Fatal(err)
		}
		named := s.Named(rules, 1<<62, s.Time)
		recs, err := w.store.Events(w.t.Context(), named)
		if err != nil || len(recs) != len(named) {
			head, _ := w.store.Head(w.t.Context())
			now := s.Named(rules, 1<<62, head.Stamp)
			if len(recs) < len(now) {
				w.t.Errorf("scope %s names %v, and %d of them are there (%v)", row.Scope, now, len(recs), err)
			}
		}
	}
}

// collect takes what has come since, before it is too old.
func (h *history) collect(w *world) {
	w.t.Helper()
	for _, r := range w.steps(store.StepQuery{Kinds: []engine.StepKind{engine.StepDecision, engine.StepDeadLetter}}) {
		letter := new(engine.DeadLetter)
		if d := r.Step.DeadLetter; d != nil {
			*letter = *d
			letter.Settled, letter.Members = nil, nil // positions differ with which scope is written first
		}
		b, err := json.Marshal([]any{r.Step.Decision, letter, r.Stamp})
		if err != nil {
			w.t.Fatal(err)
		}
		h.decisions[r.Scope+" "+r.Step.ID] = string(b)
	}
}

func (h *history) add(r retention.Report) {
	h.rounds.Events += r.Events
	h.rounds.Steps += r.Steps
	h.rounds.Aside += r.Aside
	h.rounds.Released += r.Released
	h.rounds.Forgotten += r.Forgotten
}

// Whatever happens, and whenever the log is shortened and the daemon started
// again, the same windows come out, with the same texts.
func TestKeeper_ChangesNothingThatIsLive(t *testing.T) {
	for _, model := range []bool{false, true} {
		var all retention.Report
		decisions := 0
		rapid.Check(t, func(rt *rapid.T) {
			ops := drawOps(rt)
			with, without := play(t, ops, true, model), play(t, ops, false, model)
			if d := cmp.Diff(without.decisions, with.decisions); d != "" {
				rt.Fatalf("retention changed what happened (-without +with):\n%s", d)
			}
			decisions += len(with.decisions)
			h := history{rounds: all}
			h.add(with.rounds)
			all = h.rounds
		})
		if all.Events == 0 || all.Steps == 0 || all.Aside == 0 || all.Released == 0 || all.Forgotten == 0 || decisions == 0 {
			t.Errorf("too little happened: %+v, %d decisions", all, decisions)
		}
	}
}
