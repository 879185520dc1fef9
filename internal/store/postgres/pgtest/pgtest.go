// Package pgtest is a PostgreSQL server for tests: one throwaway cluster for
// each test process that asks for one, with a database for each test.
//
// ATTEND_TEST_POSTGRES names a server to use in its place, as a URL of a user
// who may create databases. Where there is neither a server nor PostgreSQL's
// programs the tests that need them are skipped; with
// ATTEND_REQUIRE_SERVICES=1 they fail.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Servers starts a server when it is first asked for one. Declare one in a
// test package, and have its TestMain call Main.
type Servers struct {
	mu     sync.Mutex
	err    error
	url    string   // of the server, "" before it was needed
	own    *Cluster // nil when the server is another's
	number int      // of databases made
}

// Main runs the tests and ends the server. Its result is for os.Exit.
func (s *Servers) Main(m interface{ Run() int }) int {
	code := m.Run()
	if s.own != nil {
		if err := s.own.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return max(code, 1)
		}
	}
	return code
}

// Database makes an empty database and returns its URL. It is dropped when the
// test has ended.
func (s *Servers) Database(t testing.TB) string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start(t)
	s.number++
	name := fmt.Sprintf("attend_%d_%d", os.Getpid(), s.number)
	s.exec(t, "CREATE DATABASE "+name)
	t.Cleanup(func() { s.exec(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	return Set(t, s.url, func(u *url.URL) { u.Path = "/" + name })
}

// start sees to it that there is a server.
func (s *Servers) start(t testing.TB) {
	t.Helper()
	if s.url == "" && s.err == nil {
		if s.url = os.Getenv("ATTEND_TEST_POSTGRES"); s.url == "" {
			if s.own, s.err = NewCluster(); s.err == nil {
				s.url = s.own.URL()
			}
		}
	}
	Need(t, s.err)
}

func (s *Servers) exec(t testing.TB, sql string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it cleans up too
	conn, err := pgx.Connect(ctx, s.url)
	if err == nil {
		_, err = conn.Exec(ctx, sql)
		err = errors.Join(err, conn.Close(ctx))
	}
	if err != nil {
		t.Errorf("%s: %v", sql, err)
	}
}

// Need skips the test for want of PostgreSQL's programs, or fails it.
func Need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv("ATTEND_REQUIRE_SERVICES") != "1":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// Set changes a URL.
func Set(t testing.TB, address string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

// With adds parameters to a URL: "listen=off".
func With(t testing.TB, address string, parameters ...string) string {
	t.Helper()
	return Set(t, address, func(u *url.URL) {
		q := u.Query()
		for _, p := range parameters {
			key, value, _ := strings.Cut(p, "=")
			q.Set(key, value)
		}
		u.RawQuery = q.Encode()
	})
}
