// The crash suite runs the real binary on a real file, kills it with kill -9
// again and again while events stream in and decisions are read, and holds the
// log that is left against what was acknowledged and shown.
package main_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"attend/internal/engine"
	"attend/internal/store"
)

// defaultKills is how often the daemon is killed when nobody says otherwise.
const defaultKills = 20

// crashKinds and crashConfigs let windows settle within fractions of a second.
// The daemon comes back under one configuration or the other.
const crashKinds = `{
  "act.flush": "flush", "act.closing": "closing", "act.stream": "continuous", "act.passive": "passive",
  "out.*": "consequence", "own.*": "context", "field.*": "consequence", "field.conflict.detected": "closing"
}`

var crashConfigs = [...]string{
	`policy: {closingGraceMs: 120, streamGapMs: 90, passiveQuietMs: 200, maxWindowMs: 900, maxEvents: 60}
scopes:
  - {scope: "busy:*", maxEvents: 15}
  - {scope: "slow:*", closingGraceMs: 600, maxWindowMs: 2500}
field: {ingest: true}
`,
	`policy: {closingGraceMs: 60, streamGapMs: 150, passiveQuietMs: 100, maxWindowMs: 500, maxEvents: 40}
scopes:
  - {scope: "busy:*", maxEvents: 25, maxWindowBytes: 4000}
floor: {flush: interrupt}
field: {ingest: true, scoring: reference}
`,
}

// TestCrash is the promise under kill -9: what was acknowledged ends in exactly
// one window, decisions have one identity and reach their readers, and nothing
// is stuck. ATTEND_CRASH_KILLS and ATTEND_CRASH_SEED set its length and its
// dice; ATTEND_CRASH_DIR names a folder in which the databases stay.
func TestCrash(t *testing.T) {
	kills := environ(t, "ATTEND_CRASH_KILLS", defaultKills)
	seed := environ(t, "ATTEND_CRASH_SEED", time.Now().UnixNano()%1_000_000_000)
	t.Logf("seed %d (ATTEND_CRASH_SEED)", seed)
	binary := buildDaemon(t)
	dice := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), stream)) }

	t.Run("kill", func(t *testing.T) { crashKill(t, binary, int(kills), dice) })
	t.Run("stop", func(t *testing.T) { crashStop(t, binary, dice) })
	t.Run("checkpoint", func(t *testing.T) { crashCheckpoint(t, binary, dice) })
	t.Run("retention", func(t *testing.T) { crashRetention(t, binary, dice) })
}

func environ(t *testing.T, name string, def int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return def
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		t.Fatalf("%s is %q: want a number from 1", name, text)
	}
	return n
}

// crashKill kills the daemon at random instants: while it serves, while it
// starts, while it stops.
func crashKill(t *testing.T, binary string, kills int, dice func(uint64) *rand.Rand) {
	rng := dice(1)
	w := newWorld(t, binary, dice)
	w.d.startReady(0)
	w.open(dice)
	atStart, starting := 0, time.Second
	for range kills {
		config := 0
		if rng.IntN(6) == 0 {
			config = 1
		}
		switch roll := rng.IntN(8); {
		case roll < 2: // before /readyz says yes
			w.d.kill()
			w.d.start(config)
			if w.d.waitReady(time.Duration(rng.Int64N(int64(starting)*5/4))) != nil {
				atStart++
			}
			w.d.kill()
		case roll < 3: // while it stops
			w.d.signal(syscall.SIGTERM)
			pause(t.Context(), time.Duration(rng.IntN(60))*time.Millisecond)
			w.d.kill()
		default:
			pause(t.Context(), time.Duration(20+rng.IntN(580))*time.Millisecond)
			w.d.kill()
		}
		begun := time.Now()
		w.d.startReady(config)
		starting = time.Since(begun)
	}
	w.finish()
	w.check(fmt.Sprintf("%d kills, %d of them at the start", kills, atStart))
}

// crashStop stops the daemon in order under full load. Nobody is cut off in
// the middle of an answer.
func crashStop(t *testing.T, binary string, dice func(uint64) *rand.Rand) {
	const stops = 4
	rng := dice(2)
	w := newWorld(t, binary, dice)
	w.d.startReady(0)
	w.open(dice)
	for i := range stops {
		pause(t.Context(), time.Duration(200+rng.IntN(600))*time.Millisecond)
		w.d.end([]syscall.Signal{syscall.SIGTERM, syscall.SIGINT}[i%2])
		w.d.startReady(i % 2)
	}
	w.finish()
	for _, p := range w.producers {
		for _, cut := range p.cuts {
			t.Errorf("producer %s: a streamed answer broke off, although the daemon was stopped in order: %s", p.name, cut)
		}
	}
	w.check(fmt.Sprintf("%d stops", stops))
}

// host is one daemon, or many replicas of it.
type host interface {
	base() string    // where to call one of them
	restart()        // kills whatever runs, and returns when all is ready again
	stop()           // ends all of it in order
	life() []life    // when it could be used
	checkLog()       // what must never stand in a log
	left() leftovers // what a store that nobody uses holds
	faulty() bool    // the store itself may fail
}

// leftovers is a store when all is over.
type leftovers interface {
	Read(ctx context.Context, after engine.Position, limit int) ([]engine.Record, error)
	FieldNames(ctx context.Context, after string, limit int) ([]string, error)
	FieldChanges(ctx context.Context, name string, after int64, limit int) ([]store.FieldChange, error)
	Close() error
}

// world is a host with everybody who talks to it.
type world struct {
	t         *testing.T
	at        host
	d         *daemon // the host, when it is one on a file
	brief     bool    // the run is too short for everything to happen
	ledger    *ledger
	scopes    []string
	producers []*producer
	authors   []*author
	agent     *agent
	follower  *follower
	flusher   *flusher

	quit    chan struct{} // closed when no new events are to be sent
	sending sync.WaitGroup
	leave   context.CancelFunc
	reading sync.WaitGroup
}

func newWorld(t *testing.T, binary string, dice func(uint64) *rand.Rand) *world {
	d := newDaemon(t, binary, dice(3))
	w := newWorldAt(t, d, dice)
	w.d = d
	return w
}

func newWorldAt(t *testing.T, at host, dice func(uint64) *rand.Rand) *world {
	w := &world{t: t, at: at, ledger: newLedger(), quit: make(chan struct{})}
	for _, family := range []string{"chat", "busy", "slow", "quiet"} {
		for i := range 3 {
			w.scopes = append(w.scopes, fmt.Sprintf("%s:%d", family, i))
		}
	}
	for i, streams := range []bool{true, true, false} {
		p := newProducer(t, at, w.ledger, fmt.Sprintf("p%d", i), w.scopes, streams, dice(10+uint64(i)))
		w.producers = append(w.producers, p)
	}
	w.agent = newAgent(t, at, w.ledger, dice(4))
	w.follower = newFollower(t, at, w.ledger)
	w.flusher = newFlusher(t, at, w.ledger, w.scopes, dice(5))
	return w
}

// open lets everybody in. The consumer is there before the first event.
func (w *world) open(dice func(uint64) *rand.Rand) {
	w.t.Helper()
	ctx, leave := context.WithCancel(w.t.Context())
	w.leave = leave
	if _, ok := w.agent.wait(ctx, 1, false); !ok {
		w.t.Fatal("the consumer was not heard")
	}
	for _, p := range w.producers {
		w.sending.Go(func() { p.run(ctx, w.quit) })
	}
	for i, name := range crashAuthors() {
		a := newAuthor(w.t, w.at, w.ledger, name, dice(20+uint64(i)))
		w.authors = append(w.authors, a)
		w.sending.Go(func() { a.run(ctx, w.quit) })
	}
	w.reading.Go(func() { w.agent.run(ctx) })
	w.reading.Go(func() { w.follower.run(ctx) })
	w.reading.Go(func() { w.flusher.run(ctx) })
	w.t.Cleanup(func() {
		leave()
		w.sending.Wait()
		w.reading.Wait()
	})
}

// finish lets the producers get rid of what they have, and restarts the daemon
// for the last time.
func (w *world) finish() {
	w.t.Helper()
	close(w.quit)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		w.sending.Wait()
	}()
	select {
	case <-sent:
	case <-time.After(2 * time.Minute):
		w.t.Fatal("the producers cannot get rid of their events")
	}
	w.leave()
	w.reading.Wait()
	w.at.restart()
	w.end()
}

// end lets what is due settle by the clock alone, flushes every scope, kills
// the daemon over that, and has the readers read to the end. A daemon that is
// ready has written down whatever its log brings about, so that nothing can
// come behind them.
func (w *world) end() {
	w.t.Helper()
	eventually(w.t, 30*time.Second, "there are windows with a deadline, and nobody settles them", func() bool {
		return w.every(func(s *scopeView) bool { return s.Open == nil || len(s.Open.Deadlines) == 0 })
	})
	w.flushAll()
	w.at.restart()
	idle := func() bool {
		return w.every(func(s *scopeView) bool {
			return (s.Open == nil || s.Open.Events == 0) && s.Held == nil && s.Judging == nil
		})
	}
	const stuck = "after a flush of every scope there are some in which something is open, held or judged"
	if w.at.faulty() { // replicas that were killed keep their leases for a while
		eventually(w.t, 30*time.Second, stuck, idle)
	} else if !idle() {
		w.t.Error(stuck)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	w.agent.drain(ctx)
	w.follower.drain(ctx)
	w.at.stop()
	w.at.checkLog()
}

// flushAll flushes every scope.
func (w *world) flushAll() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	var flushing sync.WaitGroup
	scopes := w.ledger.scopes()
	for part := range slices.Chunk(scopes, 1+len(scopes)/8) {
		flushing.Go(func() {
			for _, scope := range part {
				for !w.flusher.flush(ctx, scope) && ctx.Err() == nil {
					pause(ctx, 10*time.Millisecond)
				}
			}
		})
	}
	flushing.Wait()
	if ctx.Err() != nil {
		w.t.Fatal("flush calls are not answered")
	}
}

// scopeView is what GET /v1/scopes tells of a scope.
type scopeView struct {
	Open *struct {
		Events    int
		Deadlines []struct{}
	}
	Held, Judging *struct{}
}

// every reports whether something holds for all scopes, as far as the daemon
// answers.
func (w *world) every(holds func(*scopeView) bool) bool {
	after := ""
	for {
		var page struct {
			Scopes []scopeView `json:"scopes"`
			Cursor *string     `json:"cursor"`
		}
		if get(w.t.Context(), w.flusher.client, w.at.base()+"/v1/scopes?limit=1000&after="+after, &page) != http.StatusOK {
			return false
		}
		for i := range page.Scopes {
			if !holds(&page.Scopes[i]) {
				return false
			}
		}
		if page.Cursor == nil {
			return true
		}
		after = *page.Cursor
	}
}

// check reads the log that is left and holds it against what was seen.
func (w *world) check(what string) totals {
	w.t.Helper()
	seen := w.ledger.seal(w.at.life(), true)
	seen.shared = w.d == nil
	left := w.at.left()
	defer left.Close()
	log, changes := w.readLog(left), w.readFields(left)
	found, sum := checkCrash(log, seen)
	entries := checkFields(&found, changes, log, &seen.fields)
	starting := time.Duration(0)
	for i := range seen.lives {
		starting = max(starting, seen.lives[i].starting())
	}
	w.t.Logf("%s; %d records, %d events acknowledged, %d sent again, %d duplicates told and %d found by the fold, %d shed, %d windows, %d decisions, %d answers redelivered; %d entries of Fields acknowledged, %d there; ready after %v at most, late by %v at most",
		what, sum.records, sum.acked, seen.resent, seen.copies, sum.refused, sum.shed, sum.windows, sum.decisions, sum.redelivered, len(seen.fields.acked), entries,
		starting.Round(time.Millisecond), sum.lag.Round(time.Millisecond))
	if len(found) > 0 {
		w.t.Errorf("the promise is broken in %d places:\n%s", len(found), found.report())
	}
	// A run in which nothing happened proves nothing.
	if sum.acked == 0 || sum.decisions == 0 || sum.shed == 0 || sum.redelivered == 0 && !w.brief || seen.resent == 0 ||
		len(w.authors) > 0 && len(seen.fields.acked) == 0 {
		w.t.Error("something that the suite is about has not happened at all")
	}
	return sum
}

// readLog reads the whole log.
func (w *world) readLog(from leftovers) []engine.Record {
	w.t.Helper()
	var all []engine.Record
	for {
		records, err := from.Read(w.t.Context(), engine.Position(len(all)), 5000)
		if err != nil {
			w.t.Fatal(err)
		}
		if len(records) == 0 {
			return all
		}
		all = append(all, records...)
	}
}
