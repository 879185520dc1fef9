package main_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A disk that is full, as far as the daemon can tell: none of its files takes
// another byte. It says so, answers what needs no writing, and goes on by itself
// once there is room. What it had acknowledged is there, and nothing is there
// twice.
func TestServe_DiskFull(t *testing.T) {
	dice := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(7, stream)) }
	w := newWorld(t, buildDaemon(t), dice)
	w.d.fails, w.brief = true, true
	w.d.startReady(0)
	w.open(dice)
	for range 3 {
		pause(t.Context(), 300*time.Millisecond)
		w.d.limit(t, "1")
		checkAway(t, w.d, true)
		pause(t.Context(), 300*time.Millisecond) // windows become due
		w.d.limit(t, "unlimited")
	}
	w.d.kill() // with what the failures have left behind
	w.d.startReady(0)
	pause(t.Context(), 300*time.Millisecond)
	w.finish()
	w.check("3 times the disk was full")
}

// limit bounds the length of the daemon's files. Its log on standard error is
// one of them.
func (d *daemon) limit(t *testing.T, bytes string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "prlimit", "--pid", fmt.Sprint(d.cmd.Process.Pid), "--fsize="+bytes+":").CombinedOutput(); err != nil {
		t.Fatalf("prlimit: %v: %s", err, out)
	}
}

// A disk that cannot be written is found at the start, and named.
func TestServe_ReadOnlyDisk(t *testing.T) {
	out := run(t, buildDaemon(t), "serve", "--port", "0", "--store", "sqlite:/proc/attend.db")
	if !strings.Contains(out, "open the store sqlite:/proc/attend.db") {
		t.Errorf("it says %s", out)
	}
}
