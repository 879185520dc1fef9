package main_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"attend/internal/engine"
)

// TestReplicas is what three replicas of the real binary do, one thing at a
// time.
func TestReplicas(t *testing.T) {
	server, binary := cluster(t), buildDaemon(t)
	f := newFleet(t, server, binary, "one_", rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0)))
	f.startAll()
	t.Run("migrate", func(t *testing.T) { migrates(t, f, binary) })
	t.Run("replaced", func(t *testing.T) { replaces(t, f, binary) })
	t.Run("import", func(t *testing.T) { importsAgain(t, f, binary) })
	for _, one := range []struct {
		name string
		test func(t *testing.T, f *fleet)
	}{
		{"killed", replicaKilled},
		{"stopped", replicaStopped},
		{"halted", replicaHalted},
		{"one scope", replicasOneScope},
		{"without a database", replicasWithoutDatabase},
		{"cut off", replicasCutOff},
	} {
		if !t.Run(one.name, func(t *testing.T) { one.test(t, f) }) {
			return // the fleet is in no known state
		}
	}
	f.stop()
	f.checkLog()
	var found findings
	f.checkFences(&found)
	if len(found) > 0 {
		t.Error(found.report())
	}
}

// A replica that is killed is noticed when its leases expire: what is due in its
// scopes is then decided by others.
func replicaKilled(t *testing.T, f *fleet) {
	took := f.best(t, fleetLease+2*time.Second, func(r *replica) { r.kill() })
	t.Logf("decided elsewhere %v after a kill -9, with a lease of %v", took, fleetLease)
}

// A replica that is stopped hands its shards over: it does not take until its
// leases expire.
func replicaStopped(t *testing.T, f *fleet) {
	took := f.best(t, fleetLease*3/4, func(r *replica) { r.end(syscall.SIGTERM) })
	t.Logf("decided elsewhere %v after SIGTERM, with a lease of %v", took, fleetLease)
}

// best ends replicas, one after the other, until the others have decided within
// a bound what became due in its scopes: the machine may have other things to
// do, but not each time.
func (f *fleet) best(t *testing.T, within time.Duration, end func(r *replica)) time.Duration {
	t.Helper()
	var took time.Duration
	for i := range 5 {
		r, other := f.replicas[i%3], f.replicas[(i+1)%3]
		scopes := f.scopesOf(r, 5)
		for _, scope := range scopes {
			other.post(t, scope, "act.stream") // due 90 ms from now
		}
		begun := time.Now()
		end(r)
		eventually(t, time.Minute, "nobody decides for a replica that is gone", func() bool {
			return !slices.ContainsFunc(scopes, func(scope string) bool { return len(other.decisions(t, scope)) == 0 })
		})
		took = time.Since(begun)
		r.startReady(0)
		f.balanced(t)
		if took <= within {
			return took.Round(time.Millisecond)
		}
	}
	t.Errorf("others decided after %v: want at most %v", took, within)
	return took
}

// balanced waits until every replica has its share.
func (f *fleet) balanced(t *testing.T) {
	t.Helper()
	eventually(t, time.Minute, "the replicas do not share the shards", func() bool {
		return !slices.ContainsFunc(f.replicas, func(r *replica) bool { return f.owned(r.name) < 80 })
	})
}

// scopesOf makes up scopes that a replica owns, and that nobody has used.
func (f *fleet) scopesOf(r *replica, n int) []string {
	f.t.Helper()
	var scopes []string
	for len(scopes) < n {
		f.made++
		scope := fmt.Sprintf("of:%d", f.made)
		if f.ask("SELECT count(*) FROM "+f.prefix+"shards WHERE "+fmt.Sprintf(nameOf, "owner")+" = $1 AND shard = $2", r.name, engine.Shard(scope)) == 1 {
			scopes = append(scopes, scope)
		}
	}
	return scopes
}

// A replica that was halted for longer than its lease goes on as if nothing had
// happened, and writes nothing that is no longer its own; then it takes part
// again.
func replicaHalted(t *testing.T, f *fleet) {
	r, other := f.replicas[0], f.replicas[1]
	scopes := f.scopesOf(r, 40)
	for _, scope := range scopes {
		r.post(t, scope, "act.closing") // due in 120 ms, which it sleeps through
	}
	r.signal(syscall.SIGSTOP)
	eventually(t, time.Minute, "nobody takes the shards of a halted replica", func() bool { return f.owned(r.name) == 0 })
	for _, scope := range scopes {
		eventually(t, time.Minute, "nobody decides for a halted replica", func() bool { return len(other.decisions(t, scope)) > 0 })
	}
	wrote, before := f.steps(r), r.logLength(t)
	r.signal(syscall.SIGCONT)
	eventually(t, time.Minute, "a replica that was halted does not come back", func() bool { return f.owned(r.name) > 80 })
	for _, scope := range scopes {
		if got := other.decisions(t, scope); len(got) != 1 {
			t.Errorf("scope %s has the decisions %v", scope, got)
		}
	}
	if now := f.steps(r); now != wrote {
		t.Errorf("the halted replica wrote %d steps after it went on", now-wrote)
	}
	log, err := os.ReadFile(r.logName())
	if err != nil {
		t.Fatal(err)
	}
	if said := log[before:]; !regexp.MustCompile(`shards.* lost=[1-9]`).Match(said) {
		t.Errorf("it does not say that it has lost shards:\n%s", said)
	}
	eventually(t, time.Minute, "the metrics do not tell who owns the shards", func() bool {
		sum := 0
		for _, r := range f.replicas {
			sum += r.shardsOwned(t)
		}
		return sum == engine.Shards
	})
	mine := f.scopesOf(r, 1)[0]
	other.post(t, mine, "act.flush")
	eventually(t, time.Minute, "a replica that came back decides nothing", func() bool { return f.steps(r) > wrote })
}

// logLength is how much the replica has said so far.
func (r *replica) logLength(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(r.logName())
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// steps counts what a replica has written as an owner, in the eyes of the
// database.
func (f *fleet) steps(r *replica) int {
	f.t.Helper()
	return f.ask("SELECT count(*) FROM "+f.prefix+"saw_steps WHERE writer = $1", r.name)
}

// shardsOwned is what a replica's own metrics say.
func (r *replica) shardsOwned(t *testing.T) (n int) {
	t.Helper()
	_, body, _ := r.call(t, http.MethodGet, "/metrics", "")
	for text := range strings.Lines(string(body)) {
		if value, ok := strings.CutPrefix(text, "attend_shards_owned "); ok {
			n, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	return n
}

// Thirty-two producers write to one scope, through any replica.
func replicasOneScope(t *testing.T, f *fleet) { f.hammer(t, "one:scope", 32, 20, nil) }

// The sessions of all replicas are cut off, again and again, in the midst of
// whatever they do. Nothing is lost, and nothing is written twice.
func replicasCutOff(t *testing.T, f *fleet) {
	cuts := 0
	f.hammer(t, "cut:off", 8, 20, func() {
		cuts += f.ask("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name LIKE $1", strings.ReplaceAll(f.prefix, "_", `\_`)+"%")
	})
	if cuts == 0 {
		t.Error("no session was cut off")
	}
	t.Logf("%d sessions were cut off", cuts)
}

// hammer sends bodies to one scope from many producers at once, and checks the
// whole log afterwards.
func (f *fleet) hammer(t *testing.T, scope string, producers, bodies int, meanwhile func()) {
	t.Helper()
	if f.ledger == nil {
		f.ledger = newLedger()
	}
	var sending sync.WaitGroup
	for i := range producers {
		p := newProducer(t, f, f.ledger, fmt.Sprintf("%s-%d", scope, i), []string{scope}, false, rand.New(rand.NewPCG(uint64(i), 0)))
		sending.Go(func() {
			defer p.client.CloseIdleConnections()
			for body := 0; body < bodies || len(p.queue) > 0; body++ {
				fresh := 0
				if body < bodies {
					fresh = 3
				}
				if !p.send(t.Context(), p.body(fresh)) || fresh == 0 {
					pause(t.Context(), 20*time.Millisecond)
				}
			}
		})
	}
	sent := make(chan struct{})
	go func() {
		sending.Wait()
		close(sent)
	}()
	for done := false; !done; {
		select {
		case <-sent:
			done = true
		case <-time.After(50 * time.Millisecond):
			if meanwhile != nil {
				meanwhile()
			}
		}
	}
	c := newFlusher(t, f, newLedger(), nil, nil)
	eventually(t, time.Minute, "a flush is not answered", func() bool { return c.flush(t.Context(), scope) })
	eventually(t, time.Minute, "the scope does not come to rest", func() bool {
		var view scopeView
		status := get(t.Context(), c.client, f.base()+"/v1/scopes/"+url.PathEscape(scope), &view)
		return status == http.StatusOK && (view.Open == nil || view.Open.Events == 0)
	})
	f.checkScope(t, scope)
}

// checkScope reads the log and holds it against what was sent to one scope.
func (f *fleet) checkScope(t *testing.T, scope string) {
	t.Helper()
	w := &world{t: t}
	left := f.left()
	defer left.Close()
	var seen evidence
	seen.events, seen.shared = f.ledger.events, true
	log := slices.Clone(w.readLog(left))
	for i := range log { // events of other tests are strangers here
		if r := &log[i]; r.Event != nil && r.Scope != scope {
			if _, known := seen.events[eventKey{r.Scope, r.Event.ID}]; !known {
				seen.events[eventKey{r.Scope, r.Event.ID}] = sentEvent{name: r.Event.Name, sum: sumOf(r.Event.Data, r.Event.Text)}
			}
		}
	}
	found, sum := checkCrash(log, &seen)
	if len(found) > 0 {
		t.Errorf("the promise is broken in %d places:\n%s", len(found), found.report())
	}
	if sum.acked == 0 || sum.windows == 0 {
		t.Error("nothing has happened")
	}
	t.Logf("%d events acknowledged, %d windows, %d shed", sum.acked, sum.windows, sum.shed)
}
