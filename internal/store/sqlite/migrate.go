package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	driver "modernc.org/sqlite"
	codes "modernc.org/sqlite/lib"
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

// migration brings the schema from the version before to its own.
type migration struct {
	version int
	name    string
	script  string
}

// migrations reads the numbered scripts of a folder. Numbers start at 1 and
// have no gaps; a script that was released is never changed.
func migrations(files fs.FS, folder string) ([]migration, error) {
	names, err := fs.Glob(files, path.Join(folder, "*.sql"))
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	out := make([]migration, len(names))
	for i, name := range names { // Glob sorts
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: want number %04d", name, i+1)
		}
		script, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		out[i] = migration{version: version, name: path.Base(name), script: string(script)}
	}
	return out, nil
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
func migrate(ctx context.Context, conn *sql.Conn, all []migration) error {
	version, err := identify(ctx, conn, len(all))
	if err != nil {
		return err
	}
	for _, m := range all[version:] {
		script := fmt.Sprintf("BEGIN IMMEDIATE;\n%s\n;PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT;", m.script, applicationID, m.version)
		if _, err := conn.ExecContext(ctx, script); err != nil {
			_, _ = conn.ExecContext(ctx, "ROLLBACK") // fails when the transaction is gone already
			return fmt.Errorf("migration %s: %w", m.name, err)
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
