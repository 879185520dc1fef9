package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DefaultPrefix stands before the name of every table, unless the URL or the
// options name another.
const DefaultPrefix = "attend_"

// maxPrefix leaves room for the longest name within the 63 bytes that Postgres
// keeps of one.
const maxPrefix = 40

const (
	// readers is how many connections read at a time, unless the URL says
	// pool_max_conns.
	readers = 4
	// connectTimeout ends an attempt to connect, unless the URL says
	// connect_timeout.
	connectTimeout = 5 * time.Second
)

// target is a database, and how attend uses it.
type target struct {
	pool   *pgxpool.Config
	names  names
	listen bool
	asked  bool // the address says how statements are sent
}

// parse reads the URL (or the key=value form), takes attend's own parameters
// out of it, and sets what attend needs where the URL is silent.
func parse(address, prefix string) (*target, error) {
	maxGiven := strings.Contains(address, "pool_max_conns")
	c, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("the Postgres address: %w", withoutSecrets(err))
	}
	t := &target{pool: c, listen: true, asked: strings.Contains(address, "default_query_exec_mode")}
	own := c.ConnConfig.RuntimeParams
	if p, ok := own["prefix"]; ok && prefix == "" {
		prefix = p
	}
	switch listen := own["listen"]; listen {
	case "", "on":
	case "off":
		t.listen = false
	default:
		return nil, fmt.Errorf("the Postgres address: listen is %q: want on or off", listen)
	}
	delete(own, "prefix")
	delete(own, "listen")
	if t.names, err = prefixed(prefix); err != nil {
		return nil, err
	}
	if _, ok := own["application_name"]; !ok {
		own["application_name"] = "attend"
	}
	if !t.asked {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	if c.ConnConfig.ValidateConnect == nil {
		// A server that only reads (a standby, a primary of before) is no use.
		c.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if !maxGiven {
		c.MaxConns = readers
	}
	return t, nil
}

// withoutSecrets keeps a URL that cannot be parsed, password and all, out of
// the message.
func withoutSecrets(err error) error {
	var bad *url.Error
	if errors.As(err, &bad) {
		return bad.Err
	}
	return err
}

// connect opens a pool of at most n connections, or of as many as the address
// says when n is 0. It connects when it is first used.
func (t *target) connect(ctx context.Context, n int32) (*pgxpool.Pool, error) {
	c := t.pool.Copy()
	if n > 0 {
		c.MaxConns, c.MinConns, c.MinIdleConns = n, 0, 0
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return pool, nil
}

// inspect makes a first connection: it sees to the schema, and finds out whether
// a pooler stands between.
func (t *target) inspect(ctx context.Context, migrate bool) error {
	conn, err := pgx.ConnectConfig(ctx, t.pool.ConnConfig.Copy())
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if migrate {
		if err := t.names.migrate(ctx, conn); err != nil {
			return fmt.Errorf("migrate: %w", err)
		}
	}
	if err := t.names.check(ctx, conn); err != nil {
		return err
	}
	var pid uint32
	if err := conn.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return fmt.Errorf("look for a pooler: %w", err)
	}
	if !t.asked && pid == conn.PgConn().PID() {
		// The server itself told its process when it was connected to. A pooler
		// tells a number of its own, and may give each transaction another server
		// process, which knows nothing of a statement that was prepared before.
		t.pool.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	}
	return nil
}

// names writes statements for the tables of one prefix.
type names struct {
	prefix string
	texts  *sync.Map // what was written already
}

func prefixed(prefix string) (names, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	if len(prefix) > maxPrefix || strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return names{}, fmt.Errorf("the prefix of the tables is %q: want at most %d lowercase letters, digits and underscores", prefix, maxPrefix)
	}
	return names{prefix: prefix, texts: new(sync.Map)}, nil
}

// sql writes a statement: @name stands for the table of that name.
func (n names) sql(text string) string {
	if written, ok := n.texts.Load(text); ok {
		return written.(string) //nolint:forcetypeassert // nothing else is in it
	}
	written := regexp.MustCompile(`@([a-z_]+)`).ReplaceAllString(text, `"`+n.prefix+`$1"`)
	n.texts.Store(text, written)
	return written
}
