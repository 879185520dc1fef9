package postgres_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"attend/internal/engine"
	"attend/internal/store"
	"attend/internal/store/postgres"
	"attend/internal/store/postgres/pgtest"
	"attend/internal/store/storetest"
)

// exec runs statements on a connection of its own.
func exec(t testing.TB, address string, statements ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// value asks for one value on a connection of its own.
func value[T any](t testing.TB, address, sql string) (v T) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// refused opens a store that cannot be opened.
func refused(t *testing.T, address string, o postgres.Options, says ...string) error {
	t.Helper()
	s, err := postgres.Open(t.Context(), address, o)
	if err == nil {
		_ = s.Close()
		t.Fatalf("it opens; want an error that says %q", says)
	}
	for _, want := range says {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
	return err
}

func TestOpen_WantsTheSchemaThatItKnows(t *testing.T) {
	address := servers.Database(t)
	err := refused(t, address, postgres.Options{}, "no tables attend_*", "attend migrate")
	var schema *postgres.SchemaError
	if !errors.As(err, &schema) || schema.Got != 0 {
		t.Errorf("the error is %#v", err)
	}
	for range 2 { // the second finds nothing to do
		if err := postgres.Migrate(t.Context(), address, ""); err != nil {
			t.Fatal(err)
		}
	}
	open(t, address, postgres.Options{})
	exec(t, address, "UPDATE attend_migrations SET version = -1")
	refused(t, address, postgres.Options{}, "schema -1", "needs 1", "attend migrate")
	exec(t, address, "UPDATE attend_migrations SET version = 7")
	for _, o := range []postgres.Options{{}, {Migrate: true}} {
		refused(t, address, o, "schema 7", "up to 1", "a newer one")
	}
	if err := postgres.Migrate(t.Context(), address, ""); err == nil || !strings.Contains(err.Error(), "schema 7") {
		t.Errorf("migrate: %v", err)
	}
	exec(t, address, "UPDATE attend_migrations SET version = 1", "UPDATE attend_head SET format = 99")
	refused(t, address, postgres.Options{}, "99")
}

func TestMigrate_FromManyProcessesAtOnce(t *testing.T) {
	address := servers.Database(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if err := postgres.Migrate(t.Context(), address, "many_"); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := value[int](t, address, "SELECT count(*) FROM many_shards"); n != engine.Shards {
		t.Errorf("%d shards", n)
	}
}

// TestOpen_NeedsNoRightToCreate opens a store as a user who may only read and
// write rows, and writes one of everything.
func TestOpen_NeedsNoRightToCreate(t *testing.T) {
	address := servers.Database(t)
	exec(t, address, "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
		"DROP ROLE IF EXISTS attend_daemon", "CREATE ROLE attend_daemon LOGIN",
		"ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO attend_daemon")
	t.Cleanup(func() { exec(t, address, "DROP OWNED BY attend_daemon", "DROP ROLE attend_daemon") })
	daemon := pgtest.Set(t, address, func(u *url.URL) { u.User = url.User("attend_daemon") })
	refused(t, daemon, postgres.Options{Migrate: true}, "permission denied")
	if err := postgres.Migrate(t.Context(), address, ""); err != nil {
		t.Fatal(err)
	}
	// There is nothing to migrate, so the right to do it is not asked for.
	s := &sole{Store: open(t, daemon, postgres.Options{Migrate: true})}
	storetest.Fill(t, s)
	if dump := storetest.Dump(t, s); !strings.Contains(dump, "scope a") {
		t.Errorf("it holds %s", dump)
	}
	exec(t, address, "CREATE SCHEMA closed", "CREATE TABLE closed.attend_migrations (version int)", "GRANT USAGE ON SCHEMA closed TO attend_daemon",
		"REVOKE ALL ON closed.attend_migrations FROM attend_daemon")
	refused(t, pgtest.With(t, daemon, "search_path=closed"), postgres.Options{}, "grant SELECT, INSERT, UPDATE and DELETE")
}

// TestOpen_EachPrefixAndSchemaIsAStore: they share a database and nothing else.
func TestOpen_EachPrefixAndSchemaIsAStore(t *testing.T) {
	address := servers.Database(t)
	exec(t, address, "CREATE SCHEMA app")
	refused(t, pgtest.With(t, address, "search_path=nowhere"), postgres.Options{Migrate: true}, "search_path")
	epochs := make(map[string]bool)
	for i, a := range []string{address, pgtest.With(t, address, "prefix=b_"), pgtest.With(t, address, "prefix=9"), pgtest.With(t, address, "search_path=app")} {
		s := open(t, a, postgres.Options{Migrate: true})
		for range i + 1 {
			if _, err := s.Append(t.Context(), store.Entry{Events: []store.NewEvent{event("a", a)}}); err != nil {
				t.Fatal(err)
			}
		}
		h, err := s.Head(t.Context())
		if err != nil || int(h.Position) != i+1 {
			t.Errorf("store %d: %+v, %v", i, h, err)
		}
		epochs[h.Epoch] = true
	}
	if len(epochs) != 4 {
		t.Errorf("%d epochs of four stores", len(epochs))
	}
	for table, want := range map[string]int{"attend_events": 1, "b_events": 2, `"9events"`: 3, "app.attend_events": 4} {
		if n := value[int](t, address, "SELECT count(*) FROM "+table); n != want {
			t.Errorf("%d events in %s", n, table)
		}
	}
	// The option names the prefix before the address does.
	if err := postgres.Migrate(t.Context(), pgtest.With(t, address, "prefix=b_"), "c_"); err != nil {
		t.Fatal(err)
	}
	open(t, pgtest.With(t, address, "prefix=b_"), postgres.Options{Prefix: "c_"})
}

func TestOpen_RefusesAnAddressThatIsNone(t *testing.T) {
	for _, c := range []struct{ address, prefix, says string }{
		{"postgres://u@127.0.0.1/d", "Attend_", `"Attend_"`},
		{"postgres://u@127.0.0.1/d", "a-b", "underscores"},
		{"postgres://u@127.0.0.1/d", `a"; DROP`, "underscores"},
		{"postgres://u@127.0.0.1/d", strings.Repeat("x", 41), "at most 40"},
		{"postgres://u@127.0.0.1/d?listen=maybe", "", `listen is "maybe"`},
		{"postgres://u:hidden@127.0.0.1:port/d", "", "the Postgres address"},
		{"postgres://u:hidden@[/d", "", "the Postgres address"},
		{"user=u password=hidden port=none", "", "the Postgres address"},
		{"postgres://u:hidden@127.0.0.1:1/d?connect_timeout=5", "", "connect"},
	} {
		err := refused(t, c.address, postgres.Options{Prefix: c.prefix}, c.says)
		if strings.Contains(err.Error(), "hidden") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

// TestOpen_RefusesAServerThatOnlyReads: a standby, or a primary of before.
func TestOpen_RefusesAServerThatOnlyReads(t *testing.T) {
	address := servers.Database(t)
	s := open(t, address, postgres.Options{Migrate: true})
	write(t, s, one("a", "0"))
	exec(t, address, "DO $$ BEGIN EXECUTE 'ALTER DATABASE ' || current_database() || ' SET default_transaction_read_only = on'; END $$")
	refused(t, address, postgres.Options{}, "read only")
	// Whoever is connected already is not cut off by a default.
	write(t, s, one("a", "1"))
}
