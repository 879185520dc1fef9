package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/runner"
)

// halfDoor takes what is for healthy scopes at once, and hangs for others.
type halfDoor struct{ door }

func (d *halfDoor) Deliver(ctx context.Context, p *runner.Parcel) error {
	if strings.HasPrefix(p.Scope, "hangs") {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.door.Deliver(ctx, p)
}

// Many scopes for which a sink hangs do not take its places from those for which
// it works, however often they are tried.
func TestDeliver_HangingScopesBesideHealthyOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &halfDoor{}
		w := start(t, open(t), delivered(func(p *engine.Policy) { p.Default.DeliveryTimeoutMs = 10_000 }), runner.Options{Deliver: d})
		for i := range 500 {
			w.push(fmt.Sprint("hangs", i), "ask")
			w.push(fmt.Sprint("hangs", i), "ask")
		}
		time.Sleep(5 * time.Minute) // each has hung once
		for round := range 40 {
			for i := range 10 {
				w.push(fmt.Sprint("works", i), "ask")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if got, want := len(d.check(t)), 10*(round+1); got != want {
				t.Fatalf("after %d s %d of %d have arrived", round+1, got, want)
			}
			time.Sleep(20 * time.Second)
		}
	})
}

// Who says how many places a sink has is obeyed.
func TestDeliver_PlacesOfASink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{takes: 25 * time.Second}
		w := start(t, open(t), delivered(), runner.Options{Deliver: d, SinkPlaces: func(sink string) int { return map[string]int{"agent": 5}[sink] }})
		for i := range 20 {
			w.push(fmt.Sprint("s", i), "ask")
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := d.check(t); len(got) != 20 || d.most != 5 {
			t.Errorf("%d of 20 taken, %d at once", len(got), d.most)
		}
	})
}

// While the store cannot be read nothing is used up, and the log is not flooded.
func TestDeliver_Unread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &door{answer: func(int, *runner.Parcel) error { return &runner.UnreadError{Err: errors.New("the disk is away")} }}
		w := start(t, open(t), delivered(), runner.Options{Deliver: d})
		w.push("a", "ask")
		time.Sleep(time.Minute)
		d.set(func() { d.answer = nil })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got, n := d.check(t), len(w.stepsOf("a")); len(got) != 1 || n > 130 || d.came[len(d.came)-1].Attempt != 1 {
			t.Errorf("%d arrived, with attempt %d, after %d steps", len(got), d.came[len(d.came)-1].Attempt, n)
		}
	})
}
