package main_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// crashCheckpoint kills the daemon while it saves the states of many scopes and
// moves its WAL into the database, and opens what that leaves.
func crashCheckpoint(t *testing.T, binary string, dice func(uint64) *rand.Rand) {
	const scopes, wanted, most = 1500, 3, 12
	rng := dice(6)
	w := newWorld(t, binary, dice)
	w.scopes = nil
	for i := range scopes {
		w.scopes = append(w.scopes, fmt.Sprintf("many:%d", i))
	}
	w.d.startReady(0)
	if _, ok := w.agent.wait(t.Context(), 1, true); !ok {
		t.Fatal("the consumer was not heard")
	}
	w.everywhere()
	begun := time.Now()
	w.d.end(syscall.SIGTERM)
	stopping := time.Since(begun)

	kills, amidStates, amidWAL := 0, 0, 0
	for ; kills < most && (amidStates < wanted || amidWAL < 1); kills++ {
		w.d.startReady(0)
		w.everywhere()
		w.d.signal(syscall.SIGTERM)
		pause(t.Context(), time.Duration(rng.Int64N(int64(stopping))))
		w.d.kill()
		if w.d.amidWAL() { // first: whoever opens the database recovers the WAL
			amidWAL++
		}
		if w.d.amidStates() {
			amidStates++
		}
	}
	if amidStates == 0 {
		t.Errorf("in %d kills none came while states were being saved", kills)
	}
	w.d.startReady(0)
	w.everywhere()
	w.agent.wait(t.Context(), 1000, true) // and is given again
	w.everywhere()
	w.d.end(syscall.SIGTERM) // all states are saved: nothing of the log is read to find what is due
	w.d.startReady(0)
	w.end()
	w.check(fmt.Sprintf("%d kills, %d while states were saved, %d while the WAL was moved", kills, amidStates, amidWAL))
}

// everywhere sends an event to every scope, and some consequences to a few,
// more than their windows hold.
func (w *world) everywhere() {
	w.t.Helper()
	p := w.producers[2]
	for _, scope := range w.scopes {
		p.queue = append(p.queue, p.event(scope))
	}
	for range 100 {
		p.queue = append(p.queue, p.event("quiet:0"))
	}
	p.queue = append(p.queue, p.old[:min(10, len(p.old))]...)
	for len(p.queue) > 0 {
		if !p.send(w.t.Context(), p.body(0)) {
			w.t.Fatal("events were not taken")
		}
	}
}

// amidStates reports whether the database holds rows of states that are
// younger than the checkpoint: the pass that wrote them did not come to its end.
func (d *daemon) amidStates() bool {
	d.t.Helper()
	r, err := sqlite.OpenReader(d.t.Context(), d.file())
	if err != nil {
		d.t.Fatal(err)
	}
	defer r.Close()
	checkpoint, err := r.Checkpoint(d.t.Context(), store.Fence{})
	if err != nil {
		d.t.Fatal(err)
	}
	rows, err := r.LiveStates(d.t.Context(), "", 1<<20)
	if err != nil {
		d.t.Fatal(err)
	}
	var youngest engine.Position
	for i := range rows {
		youngest = max(youngest, rows[i].Position)
	}
	return youngest > checkpoint
}

// amidWAL reports whether a checkpoint of the WAL had begun to copy pages and
// had not said that they are there: of the two counts in the WAL's index the
// one of pages tried is ahead of the one of pages done. It is so after a
// recovery too, until the first checkpoint.
func (d *daemon) amidWAL() bool {
	done, tried := d.walIndex()
	return tried > done && tried != d.recovered
}

// walIndex reads how many pages of the WAL are in the database, and how many a
// checkpoint has tried to bring there; zeros when there is no index.
func (d *daemon) walIndex() (done, tried uint32) {
	const atDone, atTried = 96, 128 // sqlite.org/walformat.html: nBackfill, nBackfillAttempted
	b, err := os.ReadFile(d.file() + "-shm")
	if err != nil || len(b) < atTried+4 {
		return 0, 0
	}
	return binary.NativeEndian.Uint32(b[atDone:]), binary.NativeEndian.Uint32(b[atTried:])
}
