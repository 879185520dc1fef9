// The crash suite on Postgres: three replicas are killed, stopped, halted past
// their leases, and lose their database, at random instants.
package main_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestCrashReplicas is the promise with many replicas on one database.
// ATTEND_CRASH_KILLS and ATTEND_CRASH_SEED set its length and its dice.
func TestCrashReplicas(t *testing.T) {
	kills := environ(t, "ATTEND_CRASH_KILLS", defaultKills)
	seed := environ(t, "ATTEND_CRASH_SEED", time.Now().UnixNano()%1_000_000_000)
	t.Logf("seed %d (ATTEND_CRASH_SEED)", seed)
	dice := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), stream)) }
	f := newFleet(t, cluster(t), buildDaemon(t), "crash_", dice(3))
	w := newWorldAt(t, f, dice)
	f.startAll()
	w.open(dice)
	c := &chaos{fleet: f, rng: dice(1), did: make(map[string]int), takeovers: make(map[string][]time.Duration)}
	begun := time.Now()
	for range kills {
		c.strike()
	}
	f.revive()
	t.Logf("struck for %v", time.Since(begun).Round(time.Second))
	w.finish()
	sum := w.check(fmt.Sprintf("%d blows: %s", kills, c.report()))
	if sum.latest != nil {
		t.Logf("why a window was late by %v: %s", sum.lag.Round(time.Millisecond), f.story(sum.latest))
	}
	var found findings
	steps, handovers := f.checkFences(&found)
	if steps == 0 {
		found.add("fences", "the witness saw no step")
	}
	t.Logf("%d steps of owners, each under its owner's fence; shards changed hands %d times", steps, handovers)
	if len(found) > 0 {
		t.Errorf("fences are broken in %d places:\n%s", len(found), found.report())
	}
}

// chaos deals blows to a fleet.
type chaos struct {
	*fleet
	rng       *rand.Rand
	did       map[string]int
	takeovers map[string][]time.Duration // until a replica's shards were others'
}

// strike deals one blow. Afterwards every replica runs again, ready or not.
func (c *chaos) strike() {
	c.t.Helper()
	pause(c.t.Context(), time.Duration(20+c.rng.IntN(500))*time.Millisecond)
	c.revive()
	r := c.replicas[c.rng.IntN(len(c.replicas))]
	switch roll := c.rng.IntN(20); {
	case roll < 8:
		c.count("kill")
		c.note("kill of %s", r.name)
		held := c.owned(r.name) > 0
		r.kill()
		if held && c.rng.IntN(3) == 0 { // and stays away until others have its shards
			c.takeover("kill", r)
		}
		r.start(c.rng.IntN(2))
	case roll < 10: // all but one, or all
		c.count("kill of several")
		for _, other := range c.replicas[c.rng.IntN(2):] {
			c.note("kill of %s", other.name)
			other.kill()
			other.start(0)
		}
	case roll < 13:
		c.count("stop")
		c.halt(r)
	case roll < 17:
		c.count("freeze")
		c.freeze(r)
	default:
		c.count("loss of the database")
		c.database(time.Duration(c.rng.IntN(1500)) * time.Millisecond)
	}
}

func (c *chaos) count(what string) { c.did[what]++ }

// halt stops a replica in order, and now and then kills it in the midst.
func (c *chaos) halt(r *replica) {
	c.t.Helper()
	c.note("stop of %s", r.name)
	if r.waitReady(readyBound) != nil || c.rng.IntN(3) == 0 {
		r.signal(syscall.SIGTERM)
		pause(c.t.Context(), time.Duration(c.rng.IntN(80))*time.Millisecond)
		r.kill()
	} else {
		held := c.owned(r.name) > 0
		begun := time.Now()
		r.end(syscall.SIGTERM)
		if held && time.Since(begun) < fleetLease {
			c.takeover("stop", r)
		}
	}
	r.start(c.rng.IntN(2))
}

// freeze halts a process for about as long as its lease, or longer.
func (c *chaos) freeze(r *replica) {
	c.t.Helper()
	c.note("halt of %s", r.name)
	r.signal(syscall.SIGSTOP)
	pause(c.t.Context(), fleetLease/2+time.Duration(c.rng.Int64N(int64(fleetLease))))
	r.signal(syscall.SIGCONT)
	c.note("%s goes on", r.name)
}

// takeover waits until others have what a replica had.
func (c *chaos) takeover(how string, r *replica) {
	c.t.Helper()
	begun := time.Now()
	eventually(c.t, 30*time.Second, "nobody takes the shards of a replica that is gone", func() bool { return c.owned(r.name) == 0 })
	c.takeovers[how] = append(c.takeovers[how], time.Since(begun))
}

// report tells what was done, and how quickly others took over.
func (c *chaos) report() string {
	var parts []string
	for _, what := range []string{"kill", "kill of several", "stop", "freeze", "loss of the database"} {
		part := fmt.Sprintf("%d × %s", c.did[what], what)
		if times := c.takeovers[what]; len(times) > 0 {
			slices.Sort(times)
			part += fmt.Sprintf(" (taken over after %v, at most %v)", times[len(times)/2].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
