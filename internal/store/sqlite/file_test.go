package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"attend/internal/store"
)

// copyStore copies a database that is in use, as a disk would hold it after a
// kill. The copy is made through new handles: that would harm the locks of the
// store that is copied, so nothing is written to it afterwards.
func copyStore(t *testing.T, path string) string {
	t.Helper()
	to := fresh(t)
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		if errors.Is(err, fs.ErrNotExist) && suffix != "" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to+suffix, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

func TestOpen_RefusesASecondDaemon(t *testing.T) {
	path := fresh(t)
	first := openStore(t, path, Options{})
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, link} {
		_, err := Open(t.Context(), name, Options{})
		if !errors.Is(err, store.ErrLocked) {
			t.Fatalf("a second open: %v, want locked", err)
		}
		if msg := err.Error(); !strings.Contains(msg, "process "+pid()+" has it") || !strings.Contains(msg, path+".lock") {
			t.Errorf("the refusal does not say who holds what: %s", msg)
		}
	}
	mustAppend(t, first, plain("a", 1))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got := position(t, openStore(t, link, Options{})); got != 1 {
		t.Errorf("head %d", got)
	}
}

func TestOpen_TakesOddNames(t *testing.T) {
	for _, name := range []string{"a b.db", "50%.db", "what?.db", "#1.db", "a&b=c.db", "żółw.db", "%41.db"} {
		path := filepath.Join(t.TempDir(), name)
		s := openStore(t, path, Options{})
		mustAppend(t, s, plain("a", 1))
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		r, err := OpenReader(t.Context(), path)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if h, err := r.Head(t.Context()); err != nil || h.Position != 1 {
			t.Errorf("%q: head %+v, %v", name, h, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpen_LeavesOtherFilesAsTheyAre tries files that are no store.
func TestOpen_LeavesOtherFilesAsTheyAre(t *testing.T) {
	text := fresh(t)
	if err := os.WriteFile(text, bytes.Repeat([]byte("no database\n"), 200), 0o600); err != nil {
		t.Fatal(err)
	}
	other := fresh(t)
	execSQL(t, other, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
	newer := fresh(t)
	if err := openStore(t, newer, Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	execSQL(t, newer, "PRAGMA user_version = 7")
	for path, says := range map[string]string{
		text:  "no SQLite database",
		other: "another application",
		newer: "schema 7, and this binary knows schemas up to 3: use the version of attend that wrote it, or a newer one",
	} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for name, open := range map[string]func() error{
			"Open":       func() error { _, err := Open(t.Context(), path, Options{}); return err },
			"OpenReader": func() error { _, err := OpenReader(t.Context(), path); return err },
		} {
			if err := open(); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%s: %v, want it to say %q", name, err, says)
			}
		}
		after, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%q: the file was changed, %v", says, err)
		}
	}
	var schema *SchemaError
	if _, err := Open(t.Context(), newer, Options{}); !errors.As(err, &schema) || schema.Got != 7 {
		t.Errorf("a newer schema: %v", err)
	}
}

func TestOpen_SaysWhatIsWrongWithAPath(t *testing.T) {
	dir := t.TempDir()
	for path, says := range map[string]string{
		"":                               "name the database file",
		filepath.Join(dir, "none", "db"): "folder of the database",
		dir:                              "",
	} {
		if _, err := Open(t.Context(), path, Options{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("open %q: %v, want it to say %q", path, err, says)
		}
	}
	if _, err := OpenReader(t.Context(), filepath.Join(dir, "none.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reader of nothing: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "none*")); err != nil || len(left) > 0 {
		t.Errorf("a reader of nothing left %v", left)
	}
}

func TestReader_ReadsWhatAKilledDaemonLeft(t *testing.T) {
	path := fresh(t)
	s := openStore(t, path, Options{noCheckpoints: true})
	mustAppend(t, s, plain("a", 3))
	r, err := OpenReader(t.Context(), copyStore(t, path))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if rs, err := r.Read(t.Context(), 0, 10); err != nil || len(rs) != 3 {
		t.Errorf("read: %d records, %v", len(rs), err)
	}
}

func execSQL(t *testing.T, path, script string) {
	t.Helper()
	db, err := openDB(dsn(path, "rwc"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

func TestMigrations_HaveNoGaps(t *testing.T) {
	script := &fstest.MapFile{Data: []byte("SELECT 1")}
	for name, files := range map[string]fstest.MapFS{
		"gap":    {"m/0001_a.sql": script, "m/0003_c.sql": script},
		"start":  {"m/0002_b.sql": script},
		"twice":  {"m/0001_a.sql": script, "m/0001_b.sql": script},
		"number": {"m/first.sql": script},
	} {
		if _, err := store.Migrations(files, "m"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	all, err := store.Migrations(migrationFiles, "migrations")
	if err != nil || len(all) == 0 {
		t.Errorf("%d migrations, %v", len(all), err)
	}
}

// TestMigrate_EachStepStandsOrFallsAlone brings a store from the first schema
// forwards, past a step that fails at its second statement.
func TestMigrate_EachStepStandsOrFallsAlone(t *testing.T) {
	first, err := store.Migrations(migrationFiles, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	path := fresh(t)
	s := openStore(t, path, Options{})
	mustAppend(t, s, plain("a", 3))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := openDB(dsn(path, "rw"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n := len(first)
	good := store.Migration{Version: n + 1, Name: "good", Script: "CREATE TABLE added (x);\nINSERT INTO added SELECT count(*) FROM events"}
	bad := store.Migration{Version: n + 2, Name: "bad", Script: "CREATE TABLE half (x);\nINSERT INTO nowhere VALUES (1)"}
	if err := migrate(t.Context(), conn, append(first, good, bad)); err == nil || !strings.Contains(err.Error(), "bad") {
		t.Fatalf("migrate: %v, want it to name the step", err)
	}
	if version, err := identify(t.Context(), conn, n+2); err != nil || version != n+1 {
		t.Errorf("schema %d, %v; want %d", version, err, n+1)
	}
	if got := count(t, conn, "SELECT x FROM added"); got != 3 {
		t.Errorf("the good step saw %d events", got)
	}
	if got := count(t, conn, "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"); got != 0 {
		t.Error("half of the bad step was left")
	}
	bad.Script = "CREATE TABLE half (x)"
	for range 2 { // the second time there is nothing to do
		if err := migrate(t.Context(), conn, append(first, good, bad)); err != nil {
			t.Fatal(err)
		}
	}
}

func count(t *testing.T, conn *sql.Conn, query string) (n int) {
	t.Helper()
	if err := conn.QueryRowContext(context.Background(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
