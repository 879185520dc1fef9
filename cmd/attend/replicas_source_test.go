package main_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// TestReplicaSources lets replicas follow another daemon. One of them runs the
// source; when it is killed another goes on from the cursor: each decision of
// the other daemon is one event, and no two replicas ever take it.
func TestReplicaSources(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	binary := buildDaemon(t)
	a := newDaemon(t, binary, rng)
	log := a.store
	a.store = func() []string { return append(log(), "ATTEND_TOKEN="+webhookToken) }
	a.startReady(0)
	f := newFleet(t, cluster(t), binary, "sourced_", rng)
	for _, r := range f.replicas {
		r.write("kinds.json", `{"attention.decision": "flush"}`)
		r.write(configName(0), fmt.Sprintf(`
policy: {retryBackoffMs: [20, 50]}
sources:
- {name: a, url: %q, token: %s, event: attention.decision, scope: "of:{data.scope}"}
`, a.base()+"/mcp", webhookToken))
	}
	f.startAll()
	runs := f.follower(t)
	stop := produce(t, a)
	for range 3 {
		pause(t.Context(), time.Duration(100+rng.IntN(300))*time.Millisecond)
		before := runs
		before.kill()
		if runs = f.follower(t); runs == before {
			t.Fatal("the one that was killed runs the source")
		}
		before.startReady(0)
	}
	stop()
	a.end(syscall.SIGTERM)
	want := decisionsAfter(t, a.left(), 0)
	a.startReady(0)
	decides(t, f.base, len(want))
	f.stop()
	a.end(syscall.SIGTERM)
	cameOver(t, want, f.left())
	f.checkLog()
	t.Logf("%d decisions came over", len(want))
}

// follower waits until one replica streams the source, and returns it.
func (f *fleet) follower(t *testing.T) (runs *replica) {
	t.Helper()
	eventually(t, time.Minute, "no replica runs the source", func() bool {
		runs = nil
		for _, r := range f.replicas {
			var answer struct{ Sources []struct{ State string } }
			if r.running() && fetch(t, r.base()+"/v1/sources", &answer) && len(answer.Sources) == 1 && answer.Sources[0].State == "streaming" {
				if runs != nil {
					return false // one of them has lost it, and hears of that within a second
				}
				runs = r
			}
		}
		return runs != nil
	})
	return runs
}
