package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"attend/internal/store"
)

// Schema tells how far the tables in a database are.
type Schema struct {
	Version int      // of the tables; 0 for none
	Known   int      // of this binary
	Missing []string // names of the migrations from the one to the other, in order
	Absent  []string // tables that belong to the version and are not there, by name
	Prefix  string   // of the tables
}

// Inspect looks at the tables in the database at the address, and changes
// nothing. It fails with a *SchemaError when they are of a schema that this
// binary does not know. An empty prefix is the address's, or DefaultPrefix.
func Inspect(ctx context.Context, address, prefix string) (*Schema, error) {
	t, err := parse(address, prefix)
	if err != nil {
		return nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, t.pool.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	all, err := store.Migrations(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	s := &Schema{Known: len(all), Prefix: t.names.prefix}
	if s.Version, err = t.names.version(ctx, conn); err != nil {
		return nil, err
	}
	if s.Version > s.Known {
		return nil, &SchemaError{Got: s.Version, Known: s.Known, Prefix: s.Prefix}
	}
	for _, m := range all[s.Version:] {
		s.Missing = append(s.Missing, m.Name)
	}
	s.Absent, err = t.names.absent(ctx, conn, all[:s.Version])
	return s, err
}

// AbsentError reports tables that somebody has dropped, or that a restore has
// left out.
type AbsentError struct {
	Tables []string
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("the store is not whole: of its tables there is no %s: bring it back from a backup, since what it held is not made again", strings.Join(e.Tables, ", no "))
}

// tables lists the tables that the migrations make, by name; none for none.
func (n names) tables(made []store.Migration) []string {
	if len(made) == 0 {
		return nil
	}
	all := []string{n.prefix + "migrations"}
	for _, m := range made {
		for _, found := range regexp.MustCompile(`(?m)^CREATE TABLE @([a-z_]+)`).FindAllStringSubmatch(m.Script, -1) {
			all = append(all, n.prefix+found[1])
		}
	}
	slices.Sort(all)
	return all
}

// absent lists which tables of the migrations are not there.
func (n names) absent(ctx context.Context, conn *pgx.Conn, made []store.Migration) ([]string, error) {
	rows, err := conn.Query(ctx, `SELECT name FROM unnest($1::text[]) WITH ORDINALITY AS t (name, place)
		WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_class WHERE relname = name AND pg_catalog.pg_table_is_visible(oid)) ORDER BY place`, n.tables(made))
	if err != nil {
		return nil, fmt.Errorf("look for the tables: %w", err)
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for the tables: %w", err)
	}
	return missing, nil
}

// Drop is the statement that removes the store whose tables have the address's
// prefix, for whoever wants it gone.
func Drop(address string) (string, error) {
	t, err := parse(address, "")
	if err != nil {
		return "", err
	}
	all, err := store.Migrations(migrationFiles, "migrations")
	if err != nil {
		return "", err
	}
	return "DROP TABLE " + strings.Join(t.names.tables(all), ", "), nil
}
