package main_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"attend/internal/store/postgres/pgtest"
)

// replaces puts the log of a running daemon back to an earlier moment. The
// daemon ends with an error that says what to do, and what it says is done.
func replaces(t *testing.T, f *fleet, binary string) {
	f.exec("CREATE SCHEMA back")
	address := pgtest.With(t, f.cluster.URL(), "search_path=back", "prefix=put_")
	d := newDaemon(t, binary, f.rng)
	d.store = func() []string { return []string{"ATTEND_STORE=" + address} }
	newEpoch := func(want string) bool {
		cmd := exec.CommandContext(t.Context(), binary, "log", "new-epoch", "--store", address)
		cmd.Env = []string{"HOME=" + t.TempDir()} // the suite's own variables are none of the daemon's
		out, _ := cmd.CombinedOutput()            // it says what it did
		t.Logf("%s", out)
		return strings.Contains(string(out), want)
	}
	d.startReady(0)
	for _, id := range []string{"one", "two"} {
		if status, body, _ := d.call(t, http.MethodPost, "/v1/ingest", `{"scope":"back","name":"act.stream","id":"`+id+`"}`); status != http.StatusOK {
			t.Fatalf("an event is answered with %d: %s", status, body)
		}
	}
	if !newEpoch("replicas are alive") {
		t.Error("a new epoch is not refused while the daemon runs")
	}
	f.exec("DELETE FROM back.put_steps WHERE position > 1; DELETE FROM back.put_events")
	eventually(t, time.Minute, "the daemon goes on", d.ended)
	d.now().ended = time.Now()
	if code := d.cmd.ProcessState.ExitCode(); code < 1 {
		t.Errorf("it ended with %d", code)
	}
	if log := string(d.logTail()); !strings.Contains(log, "the log was restored or replaced under the daemon: stop every replica, run `attend log new-epoch`, start them") {
		t.Errorf("it says %s", log)
	}
	eventually(t, time.Minute, "there is no new epoch", func() bool { return newEpoch("has a new epoch") })
	d.startReady(0)
	d.stop()
}
