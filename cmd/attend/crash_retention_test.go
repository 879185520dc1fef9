package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/sqlite"
)

// crashRetention keeps events for a millisecond, and kills the daemon while it
// deletes them. Nothing is deleted behind a checkpoint, and in a life as short
// as these the only one is that of the stop before: so what is read between a
// stop and the next start is all that there was.
func crashRetention(t *testing.T, binary string, dice func(uint64) *rand.Rand) {
	const rounds = 6
	rng := dice(7)
	w := newWorld(t, binary, dice)
	kept := &archive{daemon: w.d}
	w.at = kept
	for i, text := range crashConfigs {
		w.d.write(configName(i), text+"retention: {eventsMs: 1, everyMs: 10}\n")
	}
	w.d.startReady(0)
	w.open(dice)
	amid := 0
	for range rounds {
		pause(t.Context(), time.Duration(300+rng.IntN(600))*time.Millisecond)
		w.d.end(syscall.SIGTERM)
		kept.read()
		for range 2 {
			w.d.start(0)
			_ = w.d.waitReady(readyBound)
			pause(t.Context(), time.Duration(rng.IntN(40))*time.Millisecond)
			w.d.kill()
			if kept.amid() {
				amid++
			}
		}
		w.d.startReady(0)
	}
	w.finish()
	marks, aside := kept.marks()
	if marks.Events == 0 {
		t.Error("nothing was deleted")
	}
	w.check(fmt.Sprintf("%d kills, %d of them before all was deleted that was too old; at the end events up to %d were gone, but for %d that were still named",
		2*rounds, amid, marks.Events, aside))
}

// archive is a daemon whose log somebody reads before it is shortened.
type archive struct {
	*daemon
	log []engine.Record
}

// read takes up what is new, while no daemon runs.
func (a *archive) read() {
	a.t.Helper()
	r := a.open()
	defer r.Close()
	for {
		records, err := r.Read(a.t.Context(), engine.Position(len(a.log)), 5000)
		if err != nil {
			a.t.Fatal(err)
		}
		if len(records) == 0 {
			return
		}
		if at := records[0].Position; at != engine.Position(len(a.log)+1) {
			a.t.Fatalf("records up to %d were deleted before anybody could know that they were folded; %d were read", at-1, len(a.log))
		}
		a.log = append(a.log, records...)
	}
}

func (a *archive) open() *sqlite.Reader {
	a.t.Helper()
	r, err := sqlite.OpenReader(a.t.Context(), a.file())
	if err != nil {
		a.t.Fatal(err)
	}
	return r
}

// marks returns where the log begins, and how many events stand beside it.
func (a *archive) marks() (store.Kept, int) {
	a.t.Helper()
	r := a.open()
	defer r.Close()
	kept, err := r.Kept(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	aside, err := r.Aside(a.t.Context(), 0, 1<<20)
	if err != nil {
		a.t.Fatal(err)
	}
	return kept, len(aside)
}

// amid reports whether something is still to be deleted.
func (a *archive) amid() bool {
	a.t.Helper()
	r := a.open()
	defer r.Close()
	checkpoint, err := r.Checkpoint(a.t.Context(), store.Fence{Shard: -1})
	if err != nil {
		a.t.Fatal(err)
	}
	kept, _ := a.marks()
	return kept.Events < checkpoint
}

// left is everything that there ever was.
func (a *archive) left() leftovers {
	a.t.Helper()
	a.read()
	return &archived{a.daemon.left(), a.log}
}

type archived struct {
	leftovers
	log []engine.Record
}

func (a *archived) Read(_ context.Context, after engine.Position, limit int) ([]engine.Record, error) {
	rest := a.log[min(int(after), len(a.log)):]
	return rest[:min(limit, len(rest))], nil
}
