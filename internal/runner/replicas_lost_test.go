package runner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

func TestReplicas_ASuspendedOneWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("rule", kinds), runner.Options{CheckpointRecords: 1})
		b := join(t, st, "b", policy("rule", kinds), runner.Options{})
		settle()
		for _, s := range scopes {
			b.push(s, "done") // due in two seconds
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		before, saves := a.written(), a.saves
		a.suspend() // its appends are on their way when it stops
		time.Sleep(30 * time.Second)
		synctest.Wait()
		for _, s := range scopes {
			b.want(s, "settled closing 1", "decision queue")
		}
		head, err := st.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		a.wake()
		synctest.Wait()
		if a.written() != before || a.saves != saves {
			t.Errorf("it wrote %d entries and %d states", a.written()-before, a.saves-saves)
		}
		if now, _ := st.Head(t.Context()); now.Position != head.Position {
			t.Errorf("the log grew by %d records", now.Position-head.Position)
		}
		settle()
		if a.owned() != engine.Shards/2 {
			t.Errorf("it came back to %d shards", a.owned())
		}
	})
}

func TestReplicas_NothingIsDoneWithoutTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("rule", kinds), runner.Options{})
		settle()
		a.set(func() { a.noLease = true })
		time.Sleep(7 * time.Second) // the last claim was sent up to a second ago
		for _, s := range scopes {
			a.push(s, "ask")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := a.written(); n != 0 {
			t.Errorf("%d entries were written under leases that could not be renewed", n)
		}
		if err := a.Ready(t.Context()); err == nil {
			t.Error("it calls itself ready")
		}
		if a.owned() != 0 {
			t.Errorf("it calls itself the owner of %d shards", a.owned())
		}
		a.set(func() { a.noLease = false })
		time.Sleep(time.Second)
		synctest.Wait()
		for _, s := range scopes {
			a.want(s, "settled flush 1", "decision interrupt")
		}
		if err := a.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestReplicas_ShareAgainWhenTheyComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		opt := func() runner.Options { return runner.Options{Judge: slow(3*time.Second, engine.Queue)} }
		a := join(t, st, "a", policy("script", kinds), opt())
		settle()
		if a.owned() != engine.Shards {
			t.Errorf("alone it owns %d shards", a.owned())
		}
		for _, s := range scopes {
			a.push(s, "ask")
		}
		time.Sleep(1300 * time.Millisecond) // who claims at one instant may take before the other has told
		b := join(t, st, "b", policy("script", kinds), opt())
		time.Sleep(200 * time.Millisecond)
		c := join(t, st, "c", policy("script", kinds), opt())
		settle()
		for _, r := range []*replica{a, b, c} {
			if n := r.owned(); n < 84 || n > 86 {
				t.Errorf("one of three owns %d shards", n)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		stopped := 0
		for _, s := range scopes { // what is given back under a running call costs no attempt
			want := []string{"settled flush 1", "call 1"}
			for range (len(a.steps(s)) - 3) / 2 {
				want = append(want, "failed stopped", "call 1")
				stopped++
			}
			a.want(s, append(want, "decision queue")...)
		}
		if stopped == 0 {
			t.Error("no running call was given back")
		}
		a.leave()
		settle()
		if b.owned() != engine.Shards/2 || c.owned() != engine.Shards/2 {
			t.Errorf("the two that stay own %d and %d shards", b.owned(), c.owned())
		}
	})
}

// TestReplicas_ALateAppendIsRefused: the append was begun in trust, and reached
// the store when another replica had the shards.
func TestReplicas_ALateAppendIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("script", kinds), runner.Options{Judge: slow(time.Second, engine.Note)})
		b := join(t, st, "b", policy("script", kinds), runner.Options{Judge: slow(time.Second, engine.Queue)})
		settle()
		a.hang()
		for _, s := range scopes {
			b.push(s, "ask")
		}
		time.Sleep(20 * time.Second)
		synctest.Wait()
		for _, s := range scopes {
			b.want(s, "settled flush 1", "call 1", "decision queue")
		}
		a.wake()
		synctest.Wait()
		if a.fenced == 0 || a.written() != 0 {
			t.Errorf("%d of its entries were refused, %d taken", a.fenced, a.written())
		}
		settle()
		if a.owned() != engine.Shards/2 {
			t.Errorf("it came back to %d shards", a.owned())
		}
		for _, s := range scopes {
			b.want(s, "settled flush 1", "call 1", "decision queue")
		}
	})
}

// TestReplicas_LeaveMemoryWhatOthersHaveSaved: states of shards of others are
// not this replica's to save, and must not stay for it.
func TestReplicas_LeaveMemoryWhatOthersHaveSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		opt := runner.Options{MaxScopes: 5, CheckpointInterval: 10 * time.Second}
		a := join(t, st, "a", policy("rule", kinds), opt)
		b := join(t, st, "b", policy("rule", kinds), opt)
		settle()
		for _, s := range scopes {
			a.push(s, "done")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, r := range []*replica{a, b} {
			if n := value(t, r.registry, "attend_scopes_in_memory"); n > 5 {
				t.Errorf("%v scopes are in memory", n)
			}
		}
		for _, s := range scopes { // in memory nowhere, and then due at a replica that takes over
			a.push(s, "log", "done")
		}
		time.Sleep(time.Second)
		a.kill()
		time.Sleep(12 * time.Second)
		synctest.Wait()
		for _, s := range scopes {
			b.want(s, "settled closing 1", "decision queue", "settled closing 2", "decision queue")
		}
	})
}

// TestReplicas_AStartMeetsRowsFromFurtherOn: the log is read from the lowest
// checkpoint, and the rows of other shards cover more of it.
func TestReplicas_AStartMeetsRowsFromFurtherOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("rule", kinds), runner.Options{CheckpointRecords: 1})
		b := join(t, st, "b", policy("rule", kinds), runner.Options{})
		settle()
		for _, s := range scopes {
			a.push(s, "done")
		}
		time.Sleep(3 * time.Second)
		for _, s := range scopes {
			a.push(s, "log", "log", "done")
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if a.saves == 0 || b.saves != 0 {
			t.Fatalf("%d and %d states are saved", a.saves, b.saves)
		}
		a.kill()
		b.kill()
		c := join(t, st, "c", policy("rule", kinds), runner.Options{})
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, s := range scopes {
			c.want(s, "settled closing 1", "decision queue", "settled closing 3", "decision queue")
		}
	})
}

// TestReplicas_DroppedEventsAreToldOnce: by the owner, or by who takes over.
func TestReplicas_DroppedEventsAreToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		p := policy("rule", kinds, func(s *engine.Settings) { s.MaxEvents = 2 })
		a := join(t, st, "a", p, runner.Options{})
		join(t, st, "b", p, runner.Options{})
		settle()
		for _, s := range scopes {
			a.push(s, "log", "log", "log") // one is dropped
		}
		time.Sleep(61 * time.Second) // and told, as states are saved
		for _, s := range scopes {
			a.push(s, "log", "log") // two more
		}
		time.Sleep(time.Second)
		a.kill()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		for _, s := range scopes {
			recs, err := st.Steps(t.Context(), store.StepQuery{Scope: s, Kinds: []engine.StepKind{engine.StepShed}})
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, r := range recs {
				n += r.Step.Shed.Count
			}
			if n != 3 || len(recs) != 2 {
				t.Errorf("%s: %d dropped events are told in %d steps, want 3 in 2", s, n, len(recs))
			}
		}
	})
}

// TestReplicas_TheSameNameTakesItsShardsAtOnce, and what the process before it
// had on its way is refused.
func TestReplicas_TheSameNameTakesItsShardsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, scopes := cluster(t)
		a := join(t, st, "a", policy("rule", kinds), runner.Options{})
		settle()
		a.hang()
		for _, s := range scopes {
			a.push(s, "ask")
		}
		synctest.Wait()
		again := join(t, st, "a", policy("rule", kinds), runner.Options{})
		synctest.Wait()
		for _, s := range scopes {
			again.want(s, "settled flush 1", "decision interrupt")
		}
		if n := again.owned(); n != engine.Shards {
			t.Errorf("it owns %d shards", n)
		}
		a.stop() // not to claim under the name any more
		a.wake()
		synctest.Wait()
		if a.fenced == 0 || a.written() != 0 {
			t.Errorf("of the process before it %d entries were refused, %d taken", a.fenced, a.written())
		}
	})
}
