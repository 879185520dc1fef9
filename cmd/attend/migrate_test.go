package main_test

import (
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"attend/internal/store/postgres/pgtest"
)

// The tables are made by one user, and used by another who may only read and
// write them. The password of neither is told.
func migrates(t *testing.T, f *fleet, binary string) {
	const secret = "hunter2-the-secret"
	f.exec(`CREATE ROLE small LOGIN PASSWORD '` + secret + `'; CREATE SCHEMA apart; GRANT USAGE ON SCHEMA apart TO small;
		ALTER DEFAULT PRIVILEGES IN SCHEMA apart GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO small`)
	owner := pgtest.With(t, f.cluster.URL(), "search_path=apart")
	small := pgtest.Set(t, owner, func(u *url.URL) { u.User = url.UserPassword("small", secret) })
	attend := func(wantCode int, want string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, args...)
		cmd.Dir, cmd.Env = t.TempDir(), []string{"PATH=/nowhere"}
		out, _ := cmd.CombinedOutput() // the code says it
		if code := cmd.ProcessState.ExitCode(); code != wantCode || !strings.Contains(string(out), want) || strings.Contains(string(out), "hunter2") {
			t.Errorf("attend %s: code %d, want %d; it says %q, want %q", args[0], code, wantCode, out, want)
		}
	}
	attend(1, "has no tables attend_*: run `attend migrate` once", "serve", "--no-migrate", "--port", "0", "--store", small)
	attend(1, "has no tables attend_*: run `attend migrate` once", "log", "export", "--store", small)
	attend(1, "the tables are not up to date", "migrate", "--check", "--store", owner)
	attend(1, "permission denied", "migrate", "--store", small)
	attend(0, "would go from nothing to version", "migrate", "--dry-run", "--store", owner)
	attend(1, "would run 0001_", "migrate", "--check", "--store", owner)
	attend(0, "went from nothing to version", "migrate", "--store", owner)
	attend(0, "are up to date: version", "migrate", "--store", owner)
	attend(0, "are up to date: version", "migrate", "--check", "--store", small)
	attend(1, "is for postgres:<url>", "migrate", "--store", "sqlite:attend.db")
	attend(1, "wrong_database", "serve", "--port", "0", "--store", pgtest.Set(t, small, func(u *url.URL) { u.Path = "/wrong_database" }))

	d := newDaemon(t, binary, f.rng)
	d.store = func() []string { return []string{"ATTEND_STORE=" + small, "ATTEND_NO_MIGRATE=true"} }
	d.startReady(0)
	if status, body, _ := d.call(t, http.MethodPost, "/v1/ingest", `{"scope":"small:1","name":"act.flush","id":"of-small"}`); status != http.StatusOK {
		t.Errorf("an event is answered with %d: %s", status, body)
	}
	eventually(t, time.Minute, "nothing is decided", func() bool {
		_, body, _ := d.call(t, http.MethodGet, "/v1/decisions?scope=small:1", "")
		return strings.Contains(string(body), "of-small")
	})
	attend(0, "of-small", "log", "export", "--store", small)
	attend(0, "ready", "ready", "--url", d.base())
	d.stop()
	d.checkLog()
	if strings.Contains(string(d.logTail()), "hunter2") {
		t.Error("the password is in the daemon's log")
	}
}
