package runner_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/engine"
	"attend/internal/runner"
	"attend/internal/store"
)

// door is a sink. It notes what comes, and what comes while something of the
// same scope and lane is inside.
type door struct {
	mu     sync.Mutex
	takes  time.Duration
	answer func(n int, p *runner.Parcel) error // nil: it takes everything
	came   []runner.Parcel
	took   []string // ids, in order
	inside map[string]string
	two    []string
	most   int
}

func (d *door) Deliver(ctx context.Context, p *runner.Parcel) error {
	d.mu.Lock()
	key := p.Scope
	if p.DeadLetter != nil {
		key += " letters"
	}
	if other, taken := d.inside[key]; taken {
		d.two = append(d.two, fmt.Sprintf("%s of %s while %s is inside", p.ID, key, other))
	}
	if d.inside == nil {
		d.inside = make(map[string]string)
	}
	d.inside[key] = p.ID
	d.most = max(d.most, len(d.inside))
	n := len(d.came)
	d.came = append(d.came, *p)
	takes, answer := d.takes, d.answer
	d.mu.Unlock()
	err := error(nil)
	if answer != nil {
		err = answer(n, p)
	}
	if err == nil && takes > 0 {
		t := time.NewTimer(takes)
		defer t.Stop()
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-t.C:
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.inside, key)
	if err == nil {
		d.took = append(d.took, p.ID)
	}
	return err
}

// set changes the sink while it works.
func (d *door) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// check holds that no two were inside at once, and returns what was taken.
func (d *door) check(t *testing.T) []string {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, two := range d.two {
		t.Error(two)
	}
	return slices.Clone(d.took)
}

// no is what a sink says that does not take something.
type no struct {
	permanent bool
	after     time.Duration
}

func (e no) Error() string             { return "the sink says no" }
func (e no) Permanent() bool           { return e.permanent }
func (e no) RetryAfter() time.Duration { return e.after }

func delivered(change ...func(*engine.Policy)) engine.Policy {
	p := policy("rule", kinds)
	p.Sinks = map[engine.Route]string{engine.Interrupt: "agent", engine.Queue: "inbox"}
	for _, c := range change {
		c(&p)
	}
	return p
}

// decisions lists the ids of a scope's decisions, oldest first.
func (w *world) decisions(scope string) (ids []string) {
	w.t.Helper()
	for _, r := range w.stepsOf(scope) {
		if r.Step.Kind == engine.StepDecision {
			ids = append(ids, r.Step.ID)
		}
	}
	return ids
}

// A sink that is slow, then refuses, then takes: what comes first goes first,
// under the same id each time.
func TestDeliver_InOrderWithStableIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{takes: 2 * time.Second}
		d.answer = func(n int, _ *runner.Parcel) error {
			if n == 1 || n == 2 {
				return no{}
			}
			return nil
		}
		w := start(t, open(t), delivered(), runner.Options{Deliver: d})
		for range 4 {
			w.push("a", "ask")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		ids := w.decisions("a")
		if diff := cmp.Diff(ids, d.check(t)); diff != "" {
			t.Errorf("taken (-want +got):\n%s", diff)
		}
		var attempts []string
		for _, p := range d.came {
			attempts = append(attempts, fmt.Sprint(slices.Index(ids, p.ID), " ", p.Sink, " ", p.Attempt, " ", p.Decision.Notice))
		}
		want := []string{"0 agent 1 ask text", "1 agent 1 ask text", "1 agent 2 ask text", "1 agent 3 ask text", "2 agent 1 ask text", "3 agent 1 ask text"}
		if diff := cmp.Diff(want, attempts); diff != "" {
			t.Errorf("attempts (-want +got):\n%s", diff)
		}
	})
}

// A sink that is down for an hour: its scope's outbox fills, new events are
// refused, each decision in it becomes a dead letter when its attempts are used
// up, and what comes behind goes on when the sink is back.
func TestDeliver_DownForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{answer: func(int, *runner.Parcel) error { return no{} }}
		w := start(t, open(t), delivered(func(p *engine.Policy) { p.Default.MaxOutbox = 5 }), runner.Options{Deliver: d})
		refused := 0
		for range 360 {
			if w.Refuses("a", engine.Context) != "" {
				refused++
			} else {
				w.push("a", "ask")
			}
			time.Sleep(10 * time.Second)
		}
		if got := w.Refuses("a", engine.Flush); got != "outboxFull" {
			t.Errorf("a full lane refuses with %q", got)
		}
		if got := w.Refuses("b", engine.Flush); got != "" {
			t.Errorf("another scope is refused: %q", got)
		}
		v, err := w.Scope(t.Context(), "a")
		if err != nil || v.Lanes == nil || v.Lanes.Outbox == nil || !v.Lanes.Outbox.Full || v.Lanes.Outbox.Waiting < 5 || v.Lanes.Outbox.Sink != "agent" || v.Lanes.Outbox.Error == "" {
			t.Errorf("view %+v, %v", v.Lanes, err)
		}
		d.set(func() { d.answer = nil })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := w.Refuses("a", engine.Flush); got != "" || refused == 0 {
			t.Errorf("%d were refused, and now %q", refused, got)
		}
		dead := 0
		for _, r := range w.stepsOf("a") {
			if l := r.Step.DeadLetter; l != nil {
				dead++
				if l.Stage != engine.StageSink || l.Attempts != 5 || l.Decision == nil || l.Decision.ID != l.WindowID {
					t.Errorf("dead letter %+v", l)
				}
			}
		}
		ids := w.decisions("a")
		if diff := cmp.Diff(ids[dead:], d.check(t)); diff != "" || dead == 0 {
			t.Errorf("%d dead letters; taken (-want +got):\n%s", dead, diff)
		}
	})
}

// Dead letters go to their handler in a lane of their own: while it is down,
// decisions are delivered, and it is tried for ever.
func TestDeliver_HandlerOfDeadLettersIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{}
		d.answer = func(n int, p *runner.Parcel) error {
			if p.DeadLetter != nil || n == 0 {
				return no{permanent: true}
			}
			return nil
		}
		p := delivered(func(p *engine.Policy) { p.Letters, p.Default.MaxDeadLetters = "alerts", 2 })
		w := start(t, open(t), p, runner.Options{Deliver: d})
		w.push("a", "ask")
		w.push("a", "ask")
		time.Sleep(24 * time.Hour)
		if got := d.check(t); len(got) != 1 || got[0] != w.decisions("a")[1] {
			t.Errorf("taken: %v", got)
		}
		d.set(func() { d.answer = nil })
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		last := d.came[len(d.came)-1]
		if last.Sink != "alerts" || last.Attempt < 1000 || last.DeadLetter == nil || last.DeadLetter.ID != last.ID || last.DeadLetter.Decision == nil {
			t.Errorf("the handler was given %+v", last)
		}
		if v, err := w.Scope(t.Context(), "a"); err != nil || v.Lanes != nil {
			t.Errorf("lanes %+v, %v", v.Lanes, err)
		}
	})
}

// A dead letter of stage sink that is requeued is delivered under its id, even
// where the log holds no more of it than the dead letter.
func TestDeliver_Requeued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{answer: func(n int, _ *runner.Parcel) error {
			if n == 0 {
				return no{permanent: true}
			}
			return nil
		}}
		w := start(t, open(t), delivered(), runner.Options{Deliver: d})
		w.push("a", "ask")
		synctest.Wait()
		var letter engine.Record
		for _, r := range w.stepsOf("a") {
			if r.Step.DeadLetter != nil {
				letter = r
			}
		}
		l := letter.Step.DeadLetter
		w.append(store.Entry{Scope: "a", Steps: []engine.Step{{Kind: engine.StepRequeue, Window: l.WindowID, Requeue: &engine.Requeue{
			DeadLetter: l.ID, Number: l.Number, Stage: l.Stage, Position: letter.Position, Route: l.Decision.Route,
		}}}})
		synctest.Wait()
		if diff := cmp.Diff([]string{l.WindowID}, d.check(t)); diff != "" {
			t.Errorf("taken (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(d.came[0].Decision, d.came[1].Decision); diff != "" {
			t.Errorf("the decision has changed:\n%s", diff)
		}
	})
}

// A sink that hangs is given its time, and what a graceful stop broke off does
// not count.
func TestDeliver_HangsAndIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{takes: time.Hour}
		st := open(t)
		w := start(t, st, delivered(func(p *engine.Policy) { p.Default.DeliveryTimeoutMs = 5000 }), runner.Options{Deliver: d})
		w.push("a", "ask")
		time.Sleep(7 * time.Second)
		w.end()
		d.set(func() { d.takes = 0 })
		w = start(t, st, delivered(func(p *engine.Policy) { p.Default.DeliveryTimeoutMs = 5000 }), runner.Options{Deliver: d})
		synctest.Wait()
		w.want("a", "settled flush 1", "decision interrupt", "delivery", "undelivered timeout", "delivery", "undelivered stopped", "delivery", "delivered")
		if last := d.came[len(d.came)-1]; len(d.came) != 3 || last.Attempt != 2 {
			t.Errorf("%d attempts, the last with number %d", len(d.came), last.Attempt)
		}
	})
}

// A sink is called for so many scopes at once, and no more; who waits for a
// place has no attempt in the log.
func TestDeliver_Places(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{takes: 25 * time.Second}
		w := start(t, open(t), delivered(), runner.Options{Deliver: d})
		for i := range 200 {
			w.push(fmt.Sprint("s", i), "ask")
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := d.check(t); len(got) != 200 || d.most != 32 || len(d.came) != 200 {
			t.Errorf("%d of 200 taken in %d attempts, %d at once", len(got), len(d.came), d.most)
		}
	})
}

// A sink that took something takes it once, though its answer was late.
func TestDeliver_TakenLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, open(t), delivered(func(p *engine.Policy) { p.Default.DeliveryTimeoutMs = 5000 }), runner.Options{Deliver: lateDoor{}})
		w.push("a", "ask")
		time.Sleep(time.Minute)
		synctest.Wait()
		w.want("a", "settled flush 1", "decision interrupt", "delivery", "delivered")
	})
}

// lateDoor takes everything, just after its time.
type lateDoor struct{}

func (lateDoor) Deliver(ctx context.Context, _ *runner.Parcel) error {
	<-ctx.Done()
	time.Sleep(time.Millisecond)
	return nil
}
