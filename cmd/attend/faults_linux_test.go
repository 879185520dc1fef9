package main_test

import (
	"fmt"
	"math/rand/v2"
	"os"
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

// A disk that becomes read-only, as the kernel makes one on which it met an
// error: it is full for a moment, so that the database is opened again, and
// then it opens for reading alone. Nothing is lost, and the daemon goes on by
// itself when the disk can be written.
func TestServe_DiskBecomesReadOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may mount") //arch:skip it needs root, and CI runs as root
	}
	dice := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(8, stream)) }
	w := newWorld(t, buildDaemon(t), dice)
	if why := w.d.readOnly(t); why != nil {
		if os.Getenv("ATTEND_REQUIRE_SERVICES") == "1" {
			t.Fatal(why)
		}
		t.Skip(why) //arch:skip not every container may mount, and CI fails where it may not
	}
	w.d.writable(t)
	w.d.fails, w.brief = true, true
	w.d.startReady(0)
	w.open(dice)
	for range 2 {
		pause(t.Context(), 300*time.Millisecond)
		if err := w.d.readOnly(t); err != nil {
			t.Fatal(err)
		}
		w.d.limit(t, "1")
		checkAway(t, w.d, true)
		w.d.limit(t, "unlimited")
		checkAway(t, w.d, true) // it is not full any more
		pause(t.Context(), 300*time.Millisecond)
		w.d.writable(t)
	}
	w.d.kill()
	w.d.startReady(0)
	pause(t.Context(), 300*time.Millisecond)
	w.finish()
	w.check("2 times the disk was read-only")
	if log, err := os.ReadFile(w.d.logName()); err != nil || !strings.Contains(string(log), "readonly database") {
		t.Errorf("the log does not say why nothing is written (%v)", err)
	}
}

// readOnly lays the daemon's folder over itself, for reading. What is open
// stays as it is; what is opened from now on is on a read-only file system.
func (d *daemon) readOnly(t *testing.T) error {
	t.Helper()
	for _, args := range [][]string{{"--bind", d.dir, d.dir}, {"-o", "remount,ro,bind", d.dir}} {
		if out, err := exec.CommandContext(t.Context(), "mount", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("mount %s: %w: %s", strings.Join(args, " "), err, out)
		}
		if args[0] == "--bind" {
			t.Cleanup(func() { _ = exec.Command("umount", "--lazy", d.dir).Run() }) // if it is still there
		}
	}
	return nil
}

// writable takes away what readOnly has laid there.
func (d *daemon) writable(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "umount", "--lazy", d.dir).CombinedOutput(); err != nil {
		t.Fatalf("umount: %v: %s", err, out)
	}
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
