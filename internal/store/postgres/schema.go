package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Schema tells how far the tables in a database are.
type Schema struct {
	Version int      // of the tables; 0 for none
	Known   int      // of this binary
	Missing []string // names of the migrations from the one to the other, in order
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
	all, err := migrations(migrationFiles, "migrations")
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
		s.Missing = append(s.Missing, m.name)
	}
	return s, nil
}
