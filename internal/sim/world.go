package sim

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"attend/internal/engine"
	"attend/internal/store/memory"
)

// World is one run of a plan.
type World struct {
	plan   *Plan
	store  *memory.Store
	log    *ledger
	begun  time.Time
	offset atomic.Int64 // of the wall clock, in ns
	config atomic.Int32 // number of the configured policy

	mu       sync.Mutex
	parked   []*gate
	instants int64
	asking   bool // the world itself asks the runner something
	lives    []*life
	came     chan struct{}

	running sync.WaitGroup
	born    int
	startAt time.Time // when a daemon is started, where none runs
	ops     []Op      // still to happen
	calm    bool      // nothing goes wrong any more
	leaving bool      // no daemon is started any more
	faults  []string  // that have happened, by name
	sends   int       // writes from outside so far
}

// Result is what a run came to.
type Result struct {
	Findings []string // breaches of the promise, each beginning with the name of its check
	Faults   []string // what went wrong on purpose, by name
	Log      []engine.Record
	Totals   Totals
	Elapsed  time.Duration // virtual
}

// Totals are figures of a run: a suite that meets nothing proves nothing.
type Totals struct {
	Records, Acked, Duplicates, Shed, Windows, Decisions, DeadLetters, Waits, Calls, Failures, Lives, Takeovers, Rows, Replayed, Deliveries, Undelivered int
}

// Bounds of a run. What goes on for longer will not end.
const (
	drainTime   = 30 * time.Minute // virtual
	maxInstants = int64(offGrid) - 1000
)

// Run lets a world run to its end. It must be called in a bubble of
// testing/synctest, and leaves no goroutine behind.
func Run(p *Plan) *Result {
	w := &World{plan: p, begun: time.Now(), ops: p.Ops, came: make(chan struct{}, 1)}
	w.startAt = w.begun
	w.store = memory.New(memory.Options{Now: w.wall})
	w.log = newLedger(p)
	w.until(func() bool { return len(w.ops) == 0 }, 0)
	w.calm = true
	w.until(w.drained, drainTime)
	w.leave()
	w.look()
	w.log.atEnd(w.store)
	r := &Result{Findings: w.log.findings, Faults: w.faults, Log: w.log.records, Totals: w.log.totals, Elapsed: time.Since(w.begun)}
	r.Totals.Lives = w.born
	return r
}

// wall is the wall clock: it can be set.
func (w *World) wall() time.Time { return time.Now().Round(0).Add(time.Duration(w.offset.Load())) }

// until lets one thing happen after the other until it is done, or something
// is found, or the time is over.
func (w *World) until(done func() bool, limit time.Duration) {
	end := time.Now().Add(limit)
	for {
		synctest.Wait()
		w.look()
		if len(w.log.findings) > 0 || done() {
			return
		}
		switch {
		case limit > 0 && time.Now().After(end):
			w.log.undrained(limit)
			return
		case w.instants > maxInstants:
			w.log.add("endless", "%d calls were let through, and no end is in sight", w.instants)
			return
		}
		w.bury()
		w.meet()
		w.one()
	}
}

// one lets the next thing happen, unless somebody comes before its time.
func (w *World) one() {
	g := w.first()
	at, do := time.Now().Add(time.Minute), func() {}
	if g != nil && g.due.Before(at) {
		at, do = g.due, func() { w.let(g) }
	}
	if len(w.lives) < max(w.plan.Replicas, 1) && !w.leaving && w.startAt.Before(at) {
		at, do = w.startAt, w.begin
	}
	if len(w.ops) > 0 {
		if next := w.begun.Add(w.ops[0].At); next.Before(at) {
			at, do = next, w.next
		}
	}
	if now := time.Now(); at.Before(now) {
		at = now
	}
	timer := time.NewTimer(time.Until(w.instant(at)))
	defer timer.Stop()
	select {
	case <-w.came:
	case <-timer.C:
		do()
	}
}

// let lets a call through, as its fate has it.
func (w *World) let(g *gate) {
	if g.name != "" {
		w.faults = append(w.faults, g.name)
	}
	switch {
	case w.calm && g.judge == nil:
		w.open(g, goes)
	case g.fate == dies, g.fate == diesAfter:
		w.mu.Lock()
		g.life.dead = true // nothing that it does from now on reaches the store
		w.mu.Unlock()
		w.open(g, g.fate)
		synctest.Wait()
		w.kill(g.life)
	default:
		w.open(g, g.fate)
	}
}

// look takes in what has been written, and checks it.
func (w *World) look() {
	recs, err := w.store.Read(context.Background(), w.log.head(), 1<<30)
	if err != nil {
		panic(fmt.Sprint("the store in memory fails: ", err)) // it cannot
	}
	w.log.take(recs)
	w.log.checkSaved(w.store)
}

// drained reports whether nothing is left that can lead to a decision.
func (w *World) drained() bool { return len(w.ops) == 0 && w.log.idle() }

// leave stops every daemon in good order, and waits for all that still runs.
func (w *World) leave() {
	w.leaving, w.calm, w.ops = true, true, nil
	for _, l := range w.current() {
		w.halt(l)
	}
	for {
		synctest.Wait()
		w.bury()
		w.meet()
		if g := w.first(); g == nil && len(w.lives) == 0 {
			break
		}
		w.one()
	}
	w.running.Wait()
}

// Add adds the figures of another run.
func (t *Totals) Add(o *Totals) {
	for i, n := range o.fields() {
		*t.fields()[i] += *n
	}
}

// Missing names what a suite has not met.
func (t *Totals) Missing() []string {
	var names []string
	for i, n := range t.fields() {
		if *n == 0 {
			names = append(names, totalNames()[i])
		}
	}
	return names
}

func (t *Totals) fields() []*int {
	return []*int{&t.Records, &t.Acked, &t.Duplicates, &t.Shed, &t.Windows, &t.Decisions, &t.DeadLetters, &t.Waits, &t.Calls, &t.Failures, &t.Lives, &t.Takeovers, &t.Rows, &t.Replayed, &t.Deliveries, &t.Undelivered}
}

func totalNames() []string {
	return []string{"records", "acknowledged events", "duplicates", "shed events", "windows", "decisions", "dead letters", "waits", "judge calls", "failed calls", "daemons", "take-overs", "state rows", "replayed steps", "deliveries", "dead letters of sinks"}
}
