package config

import (
	"os"
	"strings"
	"testing"
)

// An address is taken with and without "postgres:" before it, and shown without
// what may be secret.
func TestLoad_Postgres(t *testing.T) {
	t.Chdir(t.TempDir())
	for given, shown := range map[string]string{
		"postgres://u:" + hidden + "@db/app":                                                         "postgres://u@db/app",
		"postgres:postgres://u:" + hidden + "@db/app":                                                "postgres://u@db/app",
		"postgresql://u:" + hidden + "@a:1,b:2/app?target_session_attrs=any&search_path=x&prefix=y_": "postgresql://u@a:1,b:2/app?prefix=y_&search_path=x",
		"postgres:postgresql://db/app?user=u&password=" + hidden + "&sslpassword=" + hidden:          "postgresql://db/app",
		"postgres://db":                                  "postgres://db",
		"postgres://u:%40" + hidden + "@db":              "postgres://u@db",
		"postgres://u:" + hidden + "@/app?host=/var/run": "postgres://u@/app",
	} {
		c, err := Load(nil, []string{"ATTEND_STORE=" + given})
		if err != nil {
			t.Errorf("%s: %v", given, err)
			continue
		}
		if want := strings.TrimPrefix(given, "postgres:postgres"); !strings.HasSuffix(c.Store.Address.Reveal(), want) || !strings.HasPrefix(c.Store.Address.Reveal(), "postgres") {
			t.Errorf("%s: the address is %s", given, c.Store.Address.Reveal())
		}
		if got := c.Store.String(); got != shown {
			t.Errorf("%s: shown as %s, want %s", given, got, shown)
		}
		for _, all := range []string{c.String(), c.LogValue().String()} {
			if strings.Contains(all, hidden) {
				t.Errorf("%s: the password is shown in %s", given, all)
			}
		}
	}
}

// What cannot be read is refused with how to write it, and never quoted: what
// follows an unescaped character of the password is no longer the password to a
// parser.
func TestLoad_PostgresRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, given := range []string{
		"postgres:u:" + hidden + "@db/app",
		"postgres:host=db password=" + hidden,
		"postgresql:" + hidden,
		"postgres://u:a/" + hidden + "@db/app",
		"postgres://u:1/" + hidden + "@db/app",
		"postgres://u:1?" + hidden + "@db/app",
		"postgres://u:1#" + hidden + "@db/app",
		"postgres://u:1%" + hidden + "@db/app",
		"postgres://u:" + hidden + "@db:port/app",
		"postgres://u:" + hidden + "\x01@db/app",
		"postgres://u:1@" + hidden + "@db/app",
		"postgres://u:" + hidden + "@@db/app",
		"postgres://u:1@" + hidden + "@db/app?sslmode=none",
		"postgres://u:1@" + hidden + "/app?host=db",
		"mysql://u:" + hidden + "@db",
	} {
		_, err := Load(nil, []string{"ATTEND_STORE=" + given})
		switch {
		case err == nil:
			t.Errorf("%s is accepted", given)
		case strings.Contains(err.Error(), hidden) || !strings.Contains(err.Error(), "postgres:"):
			t.Errorf("%s: %v", given, err)
		}
		report := Check(nil, []string{"ATTEND_STORE=" + given}, nil)
		for _, m := range report.Mistakes {
			if strings.Contains(m.String(), hidden) {
				t.Errorf("%s: check says %s", given, m)
			}
		}
	}
}

func TestLoad_PostgresWarnings(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, DefaultFile, "store: postgres://u:p@db/app\nleaseMs: 2000\n")
	worldReadable(t, DefaultFile)
	if got := codes(t); got != "worldReadable" {
		t.Errorf("a password in a file that everyone may read: warnings %q", got)
	}
	write(t, DefaultFile, "store: postgres://u@db/app\n")
	worldReadable(t, DefaultFile)
	if got := codes(t); got != "" {
		t.Errorf("no password: warnings %q", got)
	}
	write(t, DefaultFile, "store: memory\nleaseMs: 2000\nreplica: a\nnoMigrate: true\n")
	if got := codes(t); got != "ignored ignored ignored" {
		t.Errorf("what is for Postgres beside another store: warnings %q", got)
	}
}

func worldReadable(t *testing.T, file string) {
	t.Helper()
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
}

// codes lists the codes of the warnings, but for those about kinds.
func codes(t *testing.T) string {
	t.Helper()
	c, err := Load(nil, []string{`ATTEND_KINDS={"a":"flush"}`})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, w := range c.Warnings {
		all = append(all, string(w.Code))
	}
	return strings.Join(all, " ")
}
