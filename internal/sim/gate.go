package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"attend/internal/engine"
)

// offGrid sets timers that start at no gate apart from those that do. A run
// uses fewer instants than this has nanoseconds.
const offGrid = 400 * time.Microsecond

// fate is what becomes of a call that is let through a gate.
type fate uint8

const (
	goes        fate = iota // it does its work
	failsBefore             // it fails, and has done nothing
	failsAfter              // it does its work, and the answer is lost
	dies                    // the process is killed before its work
	diesAfter               // the process is killed after it
	ended                   // its context has ended
)

// gate is a call that waits to be let through.
type gate struct {
	life *life
	op   string
	key  string // tells apart calls that came at one instant
	done <-chan struct{}

	after   engine.Position // of a Wait: it goes once the log has more
	waiting bool            // of a Wait: the log has no more yet
	judge   *hearing        // of a call of the judge
	sink    *handing        // of a delivery
	safe    bool            // nothing goes wrong with it

	release chan fate
	seen    bool // the world has drawn its fate
	due     time.Time
	tie     uint64
	fate    fate
	name    string // of its fault; "" for none
}

// park waits until the world lets the call through. done ends the wait too; it
// may be nil.
func (w *World) park(g *gate) fate {
	g.release = make(chan fate, 1)
	w.mu.Lock()
	if g.life.dead {
		w.mu.Unlock()
		return dies
	}
	w.parked = append(w.parked, g)
	w.mu.Unlock()
	w.signal()
	select {
	case f := <-g.release:
		return f
	case <-g.done:
		w.unpark(g)
		return ended
	}
}

func (w *World) unpark(g *gate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = slices.DeleteFunc(w.parked, func(o *gate) bool { return o == g })
}

// signal tells the world's loop that somebody has come.
func (w *World) signal() {
	select {
	case w.came <- struct{}{}:
	default:
	}
}

// open lets a call through. It reports whether the call still waited.
func (w *World) open(g *gate, f fate) bool {
	w.mu.Lock()
	still := slices.Contains(w.parked, g)
	w.mu.Unlock()
	if still {
		w.unpark(g)
		g.release <- f
	}
	return still
}

// instant returns the next instant, at t or after, that nobody else has.
func (w *World) instant(t time.Time) time.Time {
	w.mu.Lock()
	w.instants++
	n := w.instants
	w.mu.Unlock()
	at := t.Truncate(time.Millisecond).Add(time.Duration(n))
	if at.Before(t) {
		at = at.Add(time.Millisecond)
	}
	return at
}

// meet draws the fates of those who have come since it was last called, in an
// order that does not hang on which of them came first.
func (w *World) meet() {
	w.mu.Lock()
	var fresh []*gate
	for _, g := range w.parked {
		if !g.seen {
			fresh = append(fresh, g)
		}
	}
	w.mu.Unlock()
	slices.SortFunc(fresh, func(a, b *gate) int {
		return cmp.Or(cmp.Compare(a.life.number, b.life.number), cmp.Compare(a.op, b.op), cmp.Compare(a.key, b.key))
	})
	for _, g := range fresh {
		g.seen = true
		w.draw(g)
	}
}

// draw decides what becomes of a call, and when.
func (w *World) draw(g *gate) {
	g.life.calls[g.op]++
	name := fmt.Sprintf("%d.%s.%d", g.life.number, g.op, g.life.calls[g.op])
	d := newDraws(w.plan.Seed, name)
	g.tie, g.due = d.next(), time.Now()
	if g.judge != nil {
		w.hear(g, d, name)
		return
	}
	if g.sink != nil {
		w.hand(g, d, name)
		return
	}
	n, rates := d.below(1000), &w.plan.Rates
	slow := pick(d, time.Millisecond, 20*time.Millisecond, 20*time.Millisecond, 300*time.Millisecond, 6*time.Second)
	late := d.chance(500)
	if g.op == opCarry { // it is read in the time of a delivery: see hand
		slow = min(slow, 20*time.Millisecond)
	}
	if g.safe || !w.faulty(name) {
		n = 1000
	}
	for _, c := range []struct {
		rate int
		do   func()
	}{
		{rates.Before, func() { g.fate = failsBefore }},
		{rates.After, func() { g.fate = failsAfter }},
		{rates.Slow, func() { g.due = g.due.Add(slow) }},
		{rates.Crash, func() {
			if g.fate = dies; late {
				g.fate = diesAfter
			}
		}},
	} {
		if n >= 0 && n < c.rate {
			c.do()
			g.name = name
		}
		n -= c.rate
	}
	g.waiting = g.op == opWait && g.fate != failsBefore
}

// faulty reports whether a thing that goes wrong by name may happen now.
func (w *World) faulty(name string) bool {
	return !w.calm && (w.plan.Only == nil || w.plan.Only[name])
}

// first returns the call that is to be let through next, nil for none.
func (w *World) first() *gate {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first *gate
	for _, g := range w.parked {
		if g.waiting && w.log.head() > g.after {
			g.waiting, g.due = false, time.Now()
		}
		if g.waiting {
			continue
		}
		if first == nil || g.due.Before(first.due) || g.due.Equal(first.due) && g.tie < first.tie {
			first = g
		}
	}
	return first
}
