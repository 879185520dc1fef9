package postgres

import (
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"attend/internal/engine"
	"attend/internal/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// SchemaError reports tables that are not of this binary's schema.
type SchemaError struct {
	Got    int    // of the tables; 0 for none
	Known  int    // of this binary
	Prefix string // of the tables
}

func (e *SchemaError) Error() string {
	switch {
	case e.Got > e.Known:
		return fmt.Sprintf("the tables %s* have schema %d, and this binary knows schemas up to %d: use the version of attend that wrote them, or a newer one", e.Prefix, e.Got, e.Known)
	case e.Got == 0:
		return fmt.Sprintf("the database has no tables %s*: run `attend migrate` once, as a user who may create tables", e.Prefix)
	default:
		return fmt.Sprintf("the tables %s* have schema %d, and this binary needs %d: run `attend migrate` once, as a user who may create tables", e.Prefix, e.Got, e.Known)
	}
}

// Migrate brings the tables in the database at the address to this binary's
// schema, and makes them when there are none. It needs a user who may create
// tables. It does nothing when there is nothing to do, and is safe to run from
// several processes at once. An empty prefix is the address's, or
// DefaultPrefix.
func Migrate(ctx context.Context, address, prefix string) error {
	t, err := parse(address, prefix)
	if err != nil {
		return err
	}
	conn, err := pgx.ConnectConfig(ctx, t.pool.ConnConfig)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := t.names.migrate(ctx, conn); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func (n names) migrate(ctx context.Context, conn *pgx.Conn) error {
	all, err := store.Migrations(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	version, err := n.version(ctx, conn)
	if err != nil {
		return err
	}
	if version == len(all) { // no lock, and no right to create anything, is needed
		return nil
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return n.apply(ctx, tx, all) })
}

// apply runs the migrations that are missing, all in one transaction. The lock
// lasts until it ends, in a pooler's hands too.
func (n names) apply(ctx context.Context, tx pgx.Tx, all []store.Migration) error {
	var schema *string
	err := tx.QueryRow(ctx, "SELECT current_schema()::text, pg_advisory_xact_lock(hashtextextended('attend ' || coalesce(current_schema(), '') || '.' || $1::text, 0))", n.prefix).Scan(&schema, nil)
	switch {
	case err != nil:
		return fmt.Errorf("take the lock: %w", err)
	case schema == nil:
		return errors.New("none of the schemas in search_path exists: create one, or name another")
	}
	version, err := n.version(ctx, tx)
	if err != nil {
		return err
	}
	if version > len(all) {
		return &SchemaError{Got: version, Known: len(all), Prefix: n.prefix}
	}
	if version == 0 {
		if _, err := tx.Exec(ctx, n.sql("CREATE TABLE @migrations (version integer PRIMARY KEY, name text NOT NULL, at timestamptz NOT NULL DEFAULT now())")); err != nil {
			return fmt.Errorf("create a table: %w", err)
		}
	}
	for _, m := range all[version:] {
		// Many statements at once go through the simple protocol alone.
		if _, err := tx.Conn().PgConn().Exec(ctx, n.sql(m.Script)).ReadAll(); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
		if _, err := tx.Exec(ctx, n.sql("INSERT INTO @migrations (version, name) VALUES ($1, $2)"), m.Version, m.Name); err != nil {
			return fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails
	_, err = tx.Exec(ctx, n.sql("INSERT INTO @head (position, stamp, epoch, secret, format) VALUES (0, 0, $1, $2, $3) ON CONFLICT DO NOTHING"),
		rand.Text(), secret, engine.Format)
	if err != nil {
		return fmt.Errorf("draw epoch and secret: %w", err)
	}
	return nil
}

// querier is what a connection, a pool and a transaction have in common.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version reads the schema's version, 0 when there are no tables.
func (n names) version(ctx context.Context, q querier) (int, error) {
	// Not to_regclass: what a connection found missing before it waited for the
	// lock it would take as missing still.
	const visible = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = $1::text AND pg_catalog.pg_table_is_visible(oid))"
	var there bool
	if err := q.QueryRow(ctx, visible, n.prefix+"migrations").Scan(&there); err != nil || !there {
		return 0, err
	}
	var version int
	err := q.QueryRow(ctx, n.sql("SELECT coalesce(max(version), 0) FROM @migrations")).Scan(&version)
	var denied *pgconn.PgError
	if errors.As(err, &denied) && denied.Code == "42501" {
		return 0, fmt.Errorf("the user may not read the tables %s*: grant SELECT, INSERT, UPDATE and DELETE on them: %w", n.prefix, err)
	}
	if err != nil {
		return 0, fmt.Errorf("read the schema's version: %w", err)
	}
	return version, nil
}

// check refuses tables that are not of this binary's schema,
// and those that are not whole.
func (n names) check(ctx context.Context, conn *pgx.Conn) error {
	all, err := store.Migrations(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	version, err := n.version(ctx, conn)
	if err != nil {
		return err
	}
	if version != len(all) {
		return &SchemaError{Got: version, Known: len(all), Prefix: n.prefix}
	}
	absent, err := n.absent(ctx, conn, all)
	if err == nil && len(absent) > 0 {
		err = &AbsentError{Tables: absent}
	}
	return err
}
