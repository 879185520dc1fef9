package runner_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/judge"
	"attend/internal/runner"
	"attend/internal/store"
)

// A hundred reloads of what is unchanged leave no trace in what happens: the same
// windows close at the same instants, and get the same decisions.
func TestReconfigure_LeavesHistoriesAsTheyAre(t *testing.T) {
	slow := judge.Func(func(ctx context.Context, _ *judge.Input) (judge.Reply, error) {
		select {
		case <-time.After(700 * time.Millisecond): //arch:sleep the bubble's clock
		case <-ctx.Done():
			return judge.Reply{}, ctx.Err()
		}
		return judge.Reply{Answer: engine.Answer{Route: engine.Note}}, nil
	})
	for _, name := range []string{"rule", "slow"} {
		t.Run(name, func(t *testing.T) {
			var histories [2][]string
			for i, reloads := range []bool{false, true} {
				synctest.Test(t, func(t *testing.T) {
					p := policy(name, kinds, func(s *engine.Settings) { s.Floor = engine.Floor{} })
					w := start(t, open(t), p, runner.Options{Judge: slow})
					histories[i] = w.busy(&p, reloads, slow)
				})
			}
			if diff := cmp.Diff(histories[0], histories[1]); diff != "" || len(histories[0]) < 40 {
				t.Errorf("of %d steps (-without reloads +with):\n%s", len(histories[0]), diff)
			}
		})
	}
}

// busy keeps five scopes busy for twenty seconds, and tells what became of that.
func (w *world) busy(p *engine.Policy, reloads bool, j judge.Judge) (history []string) {
	w.t.Helper()
	names := []string{"log", "done", "log", "ask", "done"}
	for i := range 100 {
		if reloads {
			w.Reconfigure(runner.Asks{Judge: j})
			if number, err := runner.RecordPolicy(w.t.Context(), w.store, p); err != nil || number != 1 {
				w.t.Fatal(number, err)
			}
			w.append(store.Entry{Steps: []engine.Step{{Kind: engine.StepReload, Reload: &engine.Reload{Who: "ann", Policy: 1}}}})
		}
		w.push(fmt.Sprint("s", i%5), names[i*7%len(names)])
		time.Sleep(200 * time.Millisecond) //arch:sleep the bubble's clock
		synctest.Wait()
	}
	time.Sleep(time.Minute) //arch:sleep the bubble's clock
	synctest.Wait()
	for scope := range 5 {
		recs, err := w.store.Steps(w.t.Context(), store.StepQuery{Scope: fmt.Sprint("s", scope)})
		if err != nil {
			w.t.Fatal(err)
		}
		for i := range recs {
			st := recs[i].Step
			said := fmt.Sprint(recs[i].Stamp, " ", recs[i].Scope, " ", st.Kind, " ", st.Window, " ", st.Route)
			if s := st.Settled; s != nil {
				said += fmt.Sprint(" ", s.Reason, " ", s.Due, " ", s.SettledAt, " ", len(s.Events))
			}
			history = append(history, said)
		}
	}
	return history
}

// A call that runs ends under the judge that it was begun with; the next one asks
// the new.
func TestReconfigure_ARunningCallEndsUnderItsJudge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := func(route engine.Route) judge.Judge {
			return judge.Func(func(context.Context, *judge.Input) (judge.Reply, error) {
				time.Sleep(time.Second) //arch:sleep the bubble's clock
				return judge.Reply{Answer: engine.Answer{Route: route}, Judge: engine.JudgeName{Name: route.String()}}, nil
			})
		}
		p := policy("any", kinds, func(s *engine.Settings) { s.Floor = engine.Floor{} })
		w := start(t, open(t), p, runner.Options{Judge: answers(engine.Note), Judges: []string{"note"}})
		w.push("a", "ask")
		time.Sleep(500 * time.Millisecond) //arch:sleep the bubble's clock
		w.Reconfigure(runner.Asks{Judge: answers(engine.Queue), Judges: []string{"queue"}})
		w.push("b", "ask")
		time.Sleep(2 * time.Second) //arch:sleep the bubble's clock
		synctest.Wait()
		w.want("a", "settled flush 1", "call 1", "decision note")
		w.want("b", "settled flush 1", "call 1", "decision queue")
	})
}
