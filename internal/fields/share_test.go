package fields_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attend/internal/field"
	"attend/internal/fields"
	"attend/internal/store/memory"
)

// counted reads a counter or gauge of a registry; labels are names and values
// in turn.
func counted(t tester, r prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metric:
		for _, m := range f.GetMetric() {
			for i, l := range m.GetLabel() {
				if len(labels) <= 2*i+1 || l.GetName() != labels[2*i] || l.GetValue() != labels[2*i+1] {
					continue metric
				}
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no %s of %q", name, labels)
	return 0
}

// Twenty subscriptions, of which each ten are equal, follow a Field that is
// written to all the time by changes that alter nothing for them.
func TestSubscription_EvaluationsAreFewAndShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prometheus.NewRegistry()
		s := open(t, memory.New(memory.Options{}), func(o *fields.Options) { o.Registerer = r })
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range 20 {
			sub := subscribe(t, s, field.OpReckon, params("agent", fmt.Sprint("agent", i%2), "topic", "tide"))
			mark := look(t, sub).Mark
			all.Go(func() {
				if seen, err := sub.Next(ctx, mark); !errors.Is(err, context.Canceled) {
					t.Errorf("Next gives %s, %v", seen.Result, err)
				}
			})
		}
		synctest.Wait()
		evaluations := func() float64 { return counted(t, r, "attend_field_evaluations_total") }
		if n := evaluations(); n != 2 {
			t.Errorf("%v evaluations for 20 subscriptions that ask 2 questions", n)
		}
		writes := 0
		run := func(topic string) float64 {
			before := evaluations()
			for range 100 {
				do[field.Written](t, s, "", field.OpWrite, note("gull", topic, fmt.Sprint("n", writes), writes))
				writes++
				time.Sleep(100 * time.Millisecond) //arch:sleep the clock of a synctest bubble
			}
			return evaluations() - before
		}
		if n := run("reef"); n != 0 {
			t.Errorf("changes of another topic led to %v evaluations", n)
		}
		if n := run("tide"); n < 20 || n > 24 { // of each at the start, the one saved up, and one a second
			t.Errorf("ten seconds of changes led to %v evaluations of 2 questions, want 24 at most", n)
		}
		if n := counted(t, r, "attend_field_subscriptions"); n != 20 {
			t.Errorf("%v subscriptions are counted, want 20", n)
		}
		cancel()
		all.Wait()
	})
}

// Many goroutines write, read and watch at once; the race detector looks on.
func TestService_AtOnce(t *testing.T) {
	st := memory.New(memory.Options{})
	s := open(t, st, func(o *fields.Options) { o.PushEvery = time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	var watching, writing sync.WaitGroup
	last := make([]fields.Snapshot, 8)
	for i := range last {
		sub := subscribe(t, s, []field.Op{field.OpAttune, field.OpReckon}[i%2], params("agent", fmt.Sprint("agent", i/4), "max_units", 30))
		watching.Go(func() {
			for {
				seen, err := sub.Next(ctx, last[i].Mark)
				if err != nil {
					break
				}
				last[i] = seen
				_ = sub.Checked()
			}
			if seen, err := sub.Look(context.Background()); err != nil || last[i].Mark.Number > seen.Mark.Number {
				t.Errorf("look: %v; it stands at %d, and %d was given", err, seen.Mark.Number, last[i].Mark.Number)
			}
		})
	}
	for i := range 8 {
		writing.Go(func() {
			for n := range 40 {
				do[field.Written](t, s, "", field.OpWrite, note(fmt.Sprint("agent", i), "tide", "n", n))
				do[field.Attuned](t, s, "", field.OpAttune, params("agent", fmt.Sprint("agent", i)))
			}
		})
	}
	writing.Wait()
	cancel()
	watching.Wait()
	compare(t, s, folded(t, st, "default"), nil)
	s.Close()
}
