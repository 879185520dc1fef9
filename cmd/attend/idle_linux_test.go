//go:build !race

package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// An idle daemon stays small (docs/performance.md): under 60 MB of resident
// memory, its binary's pages included. (Under the race detector it is several
// times that; make test runs this one without.)
func TestServe_IdleMemory(t *testing.T) {
	const most = 60 << 10 // KiB
	s, err := serve(t.TempDir(), withoutAttend(os.Environ()), "--port", "0", "--kinds", `{"*":"closing"}`)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(status), "VmHWM:")
	var peak int
	if _, err := fmt.Sscan(line, &peak); err != nil {
		t.Fatalf("%v in %s", err, status)
	}
	if peak > most {
		t.Errorf("an idle daemon took %d KiB at its peak, want at most %d", peak, most)
	}
	t.Logf("%d KiB at its peak", peak)
	if err := s.end(os.Interrupt); err != nil {
		t.Error(err)
	}
}
