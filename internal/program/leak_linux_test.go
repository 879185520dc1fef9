package program_test

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"attend/internal/program"
)

// A daemon that is killed can end nothing, and its programs end with it.
func TestRun_DiesWithTheDaemon(t *testing.T) {
	l := newLife(t)
	daemon := exec.CommandContext(t.Context(), os.Args[0], "role:daemon", l.addr())
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	l.begun()
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	l.over()
}

func TestRun_LeavesNoFileOpen(t *testing.T) {
	open := func() int {
		t.Helper()
		files, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	specs := []program.Spec{
		role(t, program.Options{}, "echo"),
		role(t, program.Options{}, "deaf"),
		role(t, program.Options{}, "fail", "1", "no"),
		role(t, program.Options{}, "flood").Bounded(1),
	}
	round := func() {
		for _, s := range specs {
			_, _ = program.Run(t.Context(), s, make([]byte, 1<<17))
			_, _ = program.Run(ended, s, nil)
		}
	}
	round() // what the runtime opens once
	before := open()
	for range 5 {
		round()
	}
	if after := open(); after > before {
		t.Errorf("%d files are open, %d were before", after, before)
	}
}
