package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"

	"attend/internal/store"
)

// applicationID marks a database file as a store of attend ("attd").
const applicationID = 0x61747464

//go:embed migrations/*.sql
var migrationFiles embed.FS

// SchemaError reports a store written by a newer binary.
type SchemaError struct {
	Got   int // of the store
	Known int // of this binary
}

func (e *SchemaError) Error() string {
	return fmt.Sprintf("the store has schema %d, and this binary knows schemas up to %d: use the version of attend that wrote it, or a newer one", e.Got, e.Known)
}

// querier is what a connection and a pool have in common.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// identify reads what kind of database this is: whether it holds nothing yet,
// and otherwise the version of its schema. It refuses a database of another
// application and one of a newer schema than known.
func identify(ctx context.Context, q querier, known int) (version int, err error) {
	var id, tables int
	err = q.QueryRowContext(ctx, `SELECT (SELECT application_id FROM pragma_application_id),
		(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`).Scan(&id, &version, &tables)
	if code := errorCode(err); code == codes.SQLITE_NOTADB {
		return 0, errors.New("not a store of attend: the file is no SQLite database")
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("read the schema's version: %w", err)
	case id == 0 && version == 0 && tables == 0:
		return 0, nil
	case id != applicationID:
		return 0, errors.New("not a store of attend: the SQLite database belongs to another application")
	case version > known:
		return 0, &SchemaError{Got: version, Known: known}
	}
	return version, nil
}

// migrate brings the database to the newest schema, each step in a
// transaction of its own, and only ever forwards.
func migrate(ctx context.Context, conn *sql.Conn, all []store.Migration) error {
	version, err := identify(ctx, conn, len(all))
	if err != nil {
		return err
	}
	for _, m := range all[version:] {
		script := fmt.Sprintf("BEGIN IMMEDIATE;\n%s\n;PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT;", m.Script, applicationID, m.Version)
		if _, err := conn.ExecContext(ctx, script); err != nil {
			_, _ = conn.ExecContext(ctx, "ROLLBACK") // fails when the transaction is gone already
			return fmt.Errorf("migration %s: %w", m.Name, err)
		}
	}
	return nil
}

// errorCode is SQLite's primary result code of an error, 0 when it has none.
func errorCode(err error) int {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Code() & 0xff
}
