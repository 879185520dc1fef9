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
	attend(1, "it would switch waking off for every replica", "serve", "--port", "0", "--no-migrate", "--store", small)
	d.checkLog()
	if strings.Contains(string(d.logTail()), "hunter2") {
		t.Error("the password is in the daemon's log")
	}

	f.exec("DROP TABLE apart.attend_aside; ALTER TABLE apart.attend_rows RENAME TO elsewhere")
	const missing = "the store is not whole: of its tables there is no attend_aside, no attend_rows"
	attend(1, missing, "migrate", "--check", "--store", owner)
	attend(1, missing, "migrate", "--store", owner)
	attend(1, missing, "serve", "--port", "0", "--store", small)
}

// An import that breaks off says how the tables are removed, and that is how.
func importsAgain(t *testing.T, f *fleet, binary string) {
	f.exec("CREATE SCHEMA brought")
	address := pgtest.With(t, f.cluster.URL(), "search_path=brought", "prefix=b_")
	const first = `{"attendLog":1,"format":1,"epoch":"6TSNSXFUQ5OVJKXLFBSBT4WQIX","position":12,"stamp":1760000000000,"kept":{"events":4,"steps":2},"checkpoint":8}`
	says := func(stdin, want string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), binary, "log", "import", "--store", address)
		cmd.Dir, cmd.Env, cmd.Stdin = t.TempDir(), []string{"PATH=/nowhere"}, strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("the import of %q ends with %v; it says %q, want %q", stdin, err, out, want)
		}
		return string(out)
	}
	says("{}\n", "nothing was imported into postgres://")
	says(first, "the import broke off")
	said := says(first, "an import into this store was not finished: remove it, and import again: DROP TABLE b_aside, ")
	_, drop, _ := strings.Cut(strings.TrimSpace(said), "import again: ")
	f.exec("BEGIN; SET LOCAL search_path = brought; " + drop + "; COMMIT")
	if left := f.ask("SELECT count(*) FROM pg_catalog.pg_class WHERE relnamespace = 'brought'::regnamespace"); left != 0 {
		t.Errorf("%d tables and indexes are left", left)
	}
	says("{}\n", "nothing was imported into postgres://")
	f.exec("INSERT INTO brought.b_rows (space, key, value) VALUES ('a', 'b', 'c')")
	says(first, "holds something already: import into a store that is new, as with another prefix: add prefix=copy_ to the address")
}
