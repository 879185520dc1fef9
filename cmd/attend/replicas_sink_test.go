//go:build unix

package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestReplicaSinks kills, halts and stops replicas while they deliver. Every
// decision arrives, in the order of its scope, and no two replicas ever call the
// sink for one scope at once: who takes a scope over waits until the time of a
// delivery that may be under way is over.
func TestReplicaSinks(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	f := newFleet(t, cluster(t), buildDaemon(t), "sinks_", rand.New(rand.NewPCG(rng.Uint64(), 0)))
	agent := newSinkReceiver(t, rand.New(rand.NewPCG(rng.Uint64(), 0)))
	inbox := filepath.Join(t.TempDir(), "taken")
	if err := os.Mkdir(inbox, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.replicas {
		r.write(configName(0), fmt.Sprintf(sinkConfig, agent.URL+"/wake"))
		if err := os.WriteFile(filepath.Join(r.dir, "take.sh"), []byte("#!/bin/sh\ncd "+filepath.Dir(inbox)+"\n"+takeScript), 0o700); err != nil { //nolint:gosec // it is a program
			t.Fatal(err)
		}
		log := r.store
		r.store = func() []string { return append(log(), "SINK_SECRET="+sinkSecret, "PATH="+os.Getenv("PATH")) }
	}
	f.startAll()
	stop := produceActs(t, f.base)
	for i := range 6 {
		pause(t.Context(), time.Duration(200+rng.IntN(800))*time.Millisecond)
		switch r := f.replicas[rng.IntN(len(f.replicas))]; i % 3 {
		case 0:
			r.restart()
		case 1:
			r.signal(syscall.SIGSTOP)
			pause(t.Context(), 2*fleetLease)
			r.signal(syscall.SIGCONT)
		case 2:
			r.stop()
			r.startReady(0)
		}
	}
	stop()
	// A replica that has not read the last records yet finds nothing waiting: all
	// of them say so, and still do when they have looked at the log again.
	all := func() bool {
		return !slices.ContainsFunc(f.replicas, func(r *replica) bool { return !delivered(t, r.base()) })
	}
	eventually(t, 2*time.Minute, "not everything has been delivered", func() bool {
		if !all() {
			return false
		}
		pause(t.Context(), 2*time.Second)
		return all()
	})
	f.stop()
	f.checkLog()
	checkSinks(t, f.left(), agent, takenBy(t, inbox))
}
