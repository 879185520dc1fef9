package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"attend/internal/store/postgres"
	"attend/internal/store/postgres/pgtest"
)

// fleetLease is the lease of the replicas in the tests.
const fleetLease = 2 * time.Second

// fleet is three replicas of the real binary on one database. The test's
// goroutine alone starts and ends them; base may be called by any.
type fleet struct {
	t        *testing.T
	cluster  *pgtest.Cluster
	address  string // of the store
	prefix   string // of its tables
	replicas []*replica
	asked    *pgx.Conn // for the tests' own questions

	mu     sync.Mutex
	rng    *rand.Rand
	pinned *replica // whom base names, if not any

	lives  []life // when the fleet and its database were there
	blows  []blow // what was done to it
	made   int    // scopes
	ledger *ledger
}

// replica is one of them, run again and again.
type replica struct {
	*daemon
	number, runs int
	name         string // of this run, in the leases and in the database's sessions
	away         bool   // the database was away while it started: it may have ended by itself
}

// cluster starts a database server.
func cluster(t *testing.T) *pgtest.Cluster {
	t.Helper()
	c, err := pgtest.NewCluster()
	pgtest.Need(t, err)
	t.Cleanup(func() {
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// newFleet makes tables of its own in the cluster, with a witness, and replicas
// that do not run yet.
func newFleet(t *testing.T, c *pgtest.Cluster, binary, prefix string, rng *rand.Rand) *fleet {
	t.Helper()
	f := &fleet{t: t, cluster: c, prefix: prefix, rng: rng, address: pgtest.With(t, c.URL(), "prefix="+prefix)}
	if err := postgres.Migrate(t.Context(), f.address, ""); err != nil {
		t.Fatal(err)
	}
	f.exec(witness(prefix))
	for i := range 3 {
		r := &replica{daemon: newDaemon(t, binary, rand.New(rand.NewPCG(rng.Uint64(), 0))), number: i}
		r.daemon.store = func() []string {
			r.runs++
			r.name = fmt.Sprintf("%s%d.%d", prefix, i, r.runs)
			return []string{
				"ATTEND_STORE=" + pgtest.With(t, f.address, "application_name="+r.name), "ATTEND_REPLICA=" + r.name,
				"ATTEND_LEASE_MS=" + strconv.FormatInt(fleetLease.Milliseconds(), 10), "ATTEND_NO_MIGRATE=true",
			}
		}
		f.replicas = append(f.replicas, r)
	}
	return f
}

// startAll starts every replica, and returns when all are ready and share the
// shards.
func (f *fleet) startAll() {
	f.t.Helper()
	for _, r := range f.replicas {
		r.startReady(0)
	}
	eventually(f.t, time.Minute, "the replicas do not share the shards", func() bool { return f.owned(f.names()...) == 256 })
	now := time.Now()
	f.lives = append(f.lives, life{begun: now, ready: now})
}

func (f *fleet) names() []string {
	names := make([]string, len(f.replicas))
	for i, r := range f.replicas {
		names[i] = r.name
	}
	return names
}

// base implements host: any replica, or the pinned one.
func (f *fleet) base() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pinned != nil {
		return f.pinned.base()
	}
	return f.replicas[f.rng.IntN(len(f.replicas))].base()
}

func (f *fleet) pin(r *replica) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pinned = r
}

func (f *fleet) faulty() bool { return true }

func (f *fleet) life() []life { return f.lives }

// restart implements host. From then on one replica is asked, so that what it
// says of all scopes holds for the readers that follow.
func (f *fleet) restart() {
	f.t.Helper()
	for _, r := range f.replicas {
		f.note("restart of %s", r.name)
		r.kill()
		r.startReady(0)
	}
	f.pin(f.replicas[f.rng.IntN(len(f.replicas))])
}

// stop implements host.
func (f *fleet) stop() {
	f.t.Helper()
	f.lives[len(f.lives)-1].ended = time.Now()
	for _, r := range f.replicas {
		r.end(syscall.SIGTERM)
	}
}

func (f *fleet) checkLog() {
	f.t.Helper()
	for _, r := range f.replicas {
		r.checkLog()
	}
}

func (f *fleet) left() leftovers {
	f.t.Helper()
	st, err := postgres.Open(f.t.Context(), f.address, postgres.Options{})
	if err != nil {
		f.t.Fatal(err)
	}
	return st
}

// database stops the server as a crash would, and starts it again.
func (f *fleet) database(away time.Duration) {
	f.t.Helper()
	for _, r := range f.replicas {
		r.away = r.now().ready.IsZero()
	}
	f.lives[len(f.lives)-1].ended = time.Now()
	f.asked = nil
	f.note("the database stops")
	if err := f.cluster.Stop("immediate"); err != nil {
		f.t.Fatal(err)
	}
	pause(f.t.Context(), away)
	if err := f.cluster.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.lives = append(f.lives, life{begun: time.Now(), ready: time.Now()})
	f.note("the database is back")
}

// revive starts again whoever ended by itself because there was no database
// while it started.
func (f *fleet) revive() {
	f.t.Helper()
	for _, r := range f.replicas {
		if r.ended() && r.away {
			r.now().ended = time.Now()
			r.start(0)
		}
		r.away = false
	}
}

// conn is a connection for the tests' own questions.
func (f *fleet) conn() *pgx.Conn {
	f.t.Helper()
	if f.asked == nil {
		conn, err := pgx.Connect(f.t.Context(), f.cluster.URL())
		if err != nil {
			f.t.Fatal(err)
		}
		f.t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may be gone
		f.asked = conn
	}
	return f.asked
}

func (f *fleet) exec(sql string) {
	f.t.Helper()
	if _, err := f.conn().Exec(f.t.Context(), sql); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

// ask asks for one number.
func (f *fleet) ask(sql string, args ...any) (n int) {
	f.t.Helper()
	if err := f.conn().QueryRow(f.t.Context(), sql, args...).Scan(&n); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// nameOf is SQL for the name that an owner of shards was given: a word of its own
// stands behind it.
const nameOf = `split_part(convert_from(%s, 'UTF8'), '-', 1)`

// owned is how many shards some replicas have.
func (f *fleet) owned(names ...string) int {
	f.t.Helper()
	return f.ask("SELECT count(*) FROM "+f.prefix+"shards WHERE "+fmt.Sprintf(nameOf, "owner")+" = ANY($1)", names)
}

// post has a replica take an event, with a body of its own.
func (r *replica) post(t *testing.T, scope, name string) {
	t.Helper()
	if status, body, _ := r.call(t, http.MethodPost, "/v1/ingest", fmt.Sprintf(`{"scope":%q,"name":%q}`, scope, name)); status != http.StatusOK {
		t.Fatalf("an event is answered with status %d: %s", status, body)
	}
}

// decisions lists the ids of a scope's decisions, as far as the replica answers.
func (r *replica) decisions(t *testing.T, scope string) []string {
	t.Helper()
	status, body, _ := r.call(t, http.MethodGet, "/v1/decisions?scope="+url.QueryEscape(scope), "")
	var page struct {
		Decisions []struct{ ID string }
	}
	if status != http.StatusOK {
		return nil
	}
	if err := json.Unmarshal(body, &page); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	ids := make([]string, len(page.Decisions))
	for i := range page.Decisions {
		ids[i] = page.Decisions[i].ID
	}
	return ids
}
