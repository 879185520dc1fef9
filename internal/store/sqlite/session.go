package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	driver "modernc.org/sqlite"

	"attend/internal/store"
)

// session is the one connection that writes, with its statements. A session on
// which a write failed is thrown away, so that nothing of a half-done
// transaction and no broken file handle outlives the failure.
type session struct {
	db    *sql.DB
	conn  *sql.Conn
	stmts []*sql.Stmt // all of them, to be closed: the connection does not do that

	begin, commit        *sql.Stmt
	events, steps        *inserter
	changes              *inserter
	addField, findField  *sql.Stmt
	putRow, dropRow      *sql.Stmt
	lastNumbered         *sql.Stmt
	saveState            *sql.Stmt
	addBlock, dropBlocks *sql.Stmt
	raiseMeta            *sql.Stmt

	onCommit func(commit func() error) error // stands in for the commit in tests
}

// openDB opens a pool of at most n connections.
func openDB(dsn string, n int) (*sql.DB, error) {
	c, err := driver.NewConnector(dsn)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// openSession connects to the database and prepares every statement. The
// schema is brought up to date on the way.
func openSession(ctx context.Context, dsn string, schema []store.Migration) (_ *session, err error) {
	db, err := openDB(dsn, 1)
	if err != nil {
		return nil, err
	}
	s := &session{db: db}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if s.conn, err = db.Conn(ctx); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	var mode string
	if err := s.conn.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return nil, fmt.Errorf("read the journal mode: %w", err)
	}
	if mode != "wal" {
		return nil, fmt.Errorf("the journal mode is %s, not wal: the file system may not support it (a network one does not)", mode)
	}
	if err := migrate(ctx, s.conn, schema); err != nil {
		return nil, err
	}
	return s, s.prepare(ctx)
}

func (s *session) prepare(ctx context.Context) (err error) {
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.begin, "BEGIN IMMEDIATE"},
		{&s.commit, "COMMIT"},
		{&s.putRow, "INSERT INTO rows (space, key, value) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value"},
		{&s.dropRow, "DELETE FROM rows WHERE space = ? AND key = ?"},
		{&s.lastNumbered, "SELECT position FROM steps WHERE scope = ? AND owned = 1 ORDER BY position DESC LIMIT 1"},
		{&s.addField, "INSERT INTO fields (name) VALUES (?)"},
		{&s.findField, findFieldQuery},
		{&s.saveState, `INSERT INTO states (scope, position, wake_at, live, format, body) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET position = excluded.position, wake_at = excluded.wake_at, live = excluded.live,
				format = excluded.format, body = excluded.body WHERE excluded.position >= states.position`},
		{&s.addBlock, "INSERT INTO blocks (scope, seq, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"},
		{&s.dropBlocks, "DELETE FROM blocks WHERE scope = ? AND seq < ?"},
		{&s.raiseMeta, "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT DO UPDATE SET value = max(value, excluded.value)"},
	} {
		if *p.stmt, err = s.statement(ctx, p.text); err != nil { //nolint:sqlclosecheck // the session closes it
			return err
		}
	}
	if s.events, err = s.inserter(ctx, "events", eventColumns, eventWidth); err != nil {
		return err
	}
	if s.steps, err = s.inserter(ctx, "steps", stepColumns, stepWidth); err != nil {
		return err
	}
	s.changes, err = s.inserter(ctx, "changes", changeColumns, changeWidth)
	return err
}

func (s *session) statement(ctx context.Context, text string) (*sql.Stmt, error) {
	stmt, err := s.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare %.60q: %w", text, err)
	}
	s.stmts = append(s.stmts, stmt)
	return stmt, nil
}

// close gives the connection back to the system, and with it whatever was not
// committed.
func (s *session) close() {
	for _, stmt := range s.stmts {
		_ = stmt.Close()
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	_ = s.db.Close()
}

// transaction runs f between BEGIN and COMMIT. After an error the session is
// of no use: when f failed nothing is written once it is closed, and when the
// commit failed, that is not known.
func (s *session) transaction(ctx context.Context, f func() error) error {
	if _, err := s.begin.ExecContext(ctx); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := f(); err != nil {
		return err
	}
	commit := func() error {
		_, err := s.commit.ExecContext(ctx)
		return err
	}
	var err error
	if s.onCommit != nil {
		err = s.onCommit(commit)
	} else {
		err = commit()
	}
	if err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Columns in the order in which rows are written and read.
const (
	eventColumns = "position, stamp, shard, scope, id, name, kind, policy, at, data, text, format"
	eventWidth   = 12
	stepColumns  = "position, stamp, shard, scope, kind, window_id, id, route, owned, format, body"
	stepWidth    = 11

	changeColumns = "field, number, format, body"
	changeWidth   = 4
)

// insertSizes are the numbers of rows that one statement inserts. Statements
// of 64 rows were a third faster than single ones, longer ones were not.
func insertSizes() []int { return []int{64, 8, 1} }

// inserter writes rows of one table, many to a statement.
type inserter struct {
	sizes []int
	stmts []*sql.Stmt
	args  []any
}

func (s *session) inserter(ctx context.Context, table, columns string, width int) (*inserter, error) {
	in := &inserter{sizes: insertSizes()}
	row := "(?" + strings.Repeat(",?", width-1) + ")"
	for _, n := range in.sizes {
		stmt, err := s.statement(ctx, "INSERT INTO "+table+" ("+columns+") VALUES "+row+strings.Repeat(","+row, n-1)) //nolint:sqlclosecheck // the session closes it
		if err != nil {
			return nil, err
		}
		in.stmts = append(in.stmts, stmt)
	}
	return in, nil
}

// insert writes n rows; row appends the values of the i-th.
func (in *inserter) insert(ctx context.Context, n int, row func(args []any, i int) []any) error {
	done, k := 0, 0
	for done < n {
		for in.sizes[k] > n-done {
			k++
		}
		args := in.args[:0]
		for range in.sizes[k] {
			args = row(args, done)
			done++
		}
		in.args = args
		_, err := in.stmts[k].ExecContext(ctx, args...)
		clear(args) // keep nobody's data alive
		if err != nil {
			return err
		}
	}
	return nil
}

// putRows writes the rows of an entry.
func (s *session) putRows(ctx context.Context, puts []store.Put) error {
	for i := range puts {
		p := &puts[i]
		var err error
		if p.Value == nil {
			_, err = s.dropRow.ExecContext(ctx, p.Space, p.Key)
		} else {
			_, err = s.putRow.ExecContext(ctx, p.Space, p.Key, p.Value)
		}
		if err != nil {
			return fmt.Errorf("put row: %w", err)
		}
	}
	return nil
}
