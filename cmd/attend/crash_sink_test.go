//go:build unix

package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"attend/internal/engine"
)

const (
	sinkSecret = "whsec_YSBzZWNyZXQgb2YgdGhpcnR5LXR3byBieXRlcyEh"
	sinkKills  = 10 // when nobody says otherwise
)

// sinkConfig has a receiver for interrupts, and a command for what is queued.
const sinkConfig = `
policy: {closingGraceMs: 50, deliveryTimeoutMs: 700, retryJitter: 0.2, retryBackoffMs: [20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20, 20]}
sinks:
- {name: agent, routes: [interrupt], url: %q, secretEnv: SINK_SECRET}
- {name: inbox, routes: [queue], command: [./take.sh]}
- {name: none, routes: [note, ask]}
`

// takeScript keeps each decision in a file of its own, which is there whole or
// not at all.
const takeScript = `#!/bin/sh
part=$(mktemp taken/part.XXXXXX) && cat > "$part" && mv "$part" "$part.json"
`

// TestCrashSinks kills the daemon while it delivers. Every decision arrives at
// the sink of its route, in the order of its scope, never two of a scope at
// once, and every signature is right. ATTEND_CRASH_KILLS and ATTEND_CRASH_SEED
// set its length and its dice.
func TestCrashSinks(t *testing.T) {
	kills := environ(t, "ATTEND_CRASH_KILLS", sinkKills)
	seed := environ(t, "ATTEND_CRASH_SEED", time.Now().UnixNano()%1_000_000_000)
	t.Logf("seed %d (ATTEND_CRASH_SEED)", seed)
	rng := rand.New(rand.NewPCG(uint64(seed), 1))
	d := newDaemon(t, buildDaemon(t), rng)
	agent := newSinkReceiver(t, rand.New(rand.NewPCG(uint64(seed), 2)))
	d.write(configName(0), fmt.Sprintf(sinkConfig, agent.URL+"/wake"))
	inbox := filepath.Join(d.dir, "taken")
	if err := os.Mkdir(inbox, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.dir, "take.sh"), []byte(takeScript), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	log := d.store
	d.store = func() []string { return append(log(), "SINK_SECRET="+sinkSecret, "PATH="+os.Getenv("PATH")) }
	d.startReady(0)

	stop := produceActs(t, d.base)
	for range kills {
		pause(t.Context(), time.Duration(50+rng.IntN(900))*time.Millisecond)
		d.kill()
		d.startReady(0)
	}
	pause(t.Context(), 200*time.Millisecond)
	stop()
	eventually(t, 2*time.Minute, "not everything has been delivered", func() bool { return delivered(t, d.base()) })
	d.end(syscall.SIGTERM)
	d.checkLog()
	checkSinks(t, d.left(), agent, takenBy(t, inbox))
}

// produceActs sends acts to a few scopes, one after the other, until it is
// stopped.
func produceActs(t *testing.T, base func() string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	producing := make(chan struct{})
	go func() {
		defer close(producing)
		for n := 0; ctx.Err() == nil; n++ {
			name := "act.flush"
			if n%5 == 0 {
				name = "act.closing"
			}
			line := fmt.Sprintf(`{"scope":"sink:%d","name":%q,"id":"e%d","text":"it happened"}`, n%6, name, n)
			_ = authorized(ctx, base()+"/v1/ingest", "application/x-ndjson", line, nil) // what is refused did not happen
			pause(ctx, 8*time.Millisecond)
		}
	}()
	return func() {
		cancel()
		<-producing
	}
}

// delivered tells whether nothing waits in any scope.
func delivered(t *testing.T, base string) bool {
	t.Helper()
	var answer struct {
		Scopes []struct{ Lanes, Open, Judging json.RawMessage }
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	if get(t.Context(), client, base+"/v1/scopes", &answer) != http.StatusOK {
		return false
	}
	for _, s := range answer.Scopes {
		for _, part := range []json.RawMessage{s.Lanes, s.Open, s.Judging} {
			if string(part) != "null" {
				return false
			}
		}
	}
	return len(answer.Scopes) > 0
}

// checkSinks holds what arrived against what was decided. It closes the log.
func checkSinks(t *testing.T, st leftovers, a *sinkReceiver, taken map[string]bool) {
	t.Helper()
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, fault := range a.faults {
		t.Error(fault)
	}
	counts, last := make(map[string]int), make(map[string]int) // scope → place of its last decision
	for from := engine.Position(0); ; {
		recs, err := st.Read(t.Context(), from, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(recs) == 0 {
			break
		}
		for i := range recs {
			from = recs[i].Position
			s := recs[i].Step
			if s == nil {
				continue
			}
			counts[string(s.Kind)]++
			switch {
			case s.DeadLetter != nil:
				t.Errorf("position %d: decision %s was given up: %s", from, s.Window, s.DeadLetter.Message)
			case s.Kind == engine.StepDecision && s.Route == engine.Queue && !taken[s.ID]:
				t.Errorf("position %d: the command was never given decision %s", from, s.ID)
			case s.Kind == engine.StepDecision && s.Route == engine.Interrupt:
				at, ok := a.first[s.ID]
				if !ok || at < last[recs[i].Scope] {
					t.Errorf("position %d: decision %s of %s arrived as number %d (%v), the one before as number %d", from, s.ID, recs[i].Scope, at, ok, last[recs[i].Scope])
				}
				last[recs[i].Scope] = at
			}
		}
	}
	if counts["decision"] < 50 || len(taken) < 5 || counts["undelivered"] == 0 {
		t.Fatalf("%v: the test has looked at nothing", counts)
	}
	t.Logf("%v; %d arrived at the receiver, %d of them more than once, %d were refused on purpose; %d at the command", counts, len(a.first), a.again, a.refused, len(taken))
}

// takenBy are the ids of what the command was given.
func takenBy(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	taken := make(map[string]bool)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var decision engine.Decision
		if err := json.Unmarshal(b, &decision); err != nil {
			continue // the daemon was killed while it wrote
		}
		if decision.Route != engine.Queue {
			t.Errorf("the command was given %s", b)
		}
		taken[decision.ID] = true
	}
	return taken
}

// sinkReceiver is one that is slow and refuses now and then.
type sinkReceiver struct {
	*httptest.Server
	verifier *standardwebhooks.Webhook

	mu      sync.Mutex
	rng     *rand.Rand
	inside  map[string]string // scope → what it is at
	first   map[string]int    // decision → as which it came first
	came    int
	again   int
	refused int
	faults  []string
}

func newSinkReceiver(t *testing.T, rng *rand.Rand) *sinkReceiver {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(sinkSecret)
	if err != nil {
		t.Fatal(err)
	}
	a := &sinkReceiver{verifier: verifier, rng: rng, inside: make(map[string]string), first: make(map[string]int)}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// ServeHTTP checks and takes a decision.
func (a *sinkReceiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // cut off by a kill
	}
	var decision engine.Decision
	if err := a.verifier.Verify(body, r.Header); err != nil || json.Unmarshal(body, &decision) != nil || decision.ID != r.Header.Get("webhook-id") {
		a.fault("%v of %s: %s", err, r.Header.Get("webhook-id"), body)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	takes, status := a.enter(&decision)
	select {
	case <-time.After(takes):
	case <-r.Context().Done(): // the caller was killed
	}
	a.leave(&decision, status == http.StatusNoContent)
	w.WriteHeader(status)
}

func (a *sinkReceiver) fault(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults = append(a.faults, fmt.Sprintf(format, args...))
}

func (a *sinkReceiver) enter(d *engine.Decision) (takes time.Duration, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if other, taken := a.inside[d.Scope]; taken {
		a.faults = append(a.faults, fmt.Sprintf("%s of %s comes while it is at %s", d.ID, d.Scope, other))
	}
	a.inside[d.Scope] = d.ID
	if a.rng.IntN(10) == 0 {
		a.refused++
		return 0, http.StatusServiceUnavailable
	}
	return time.Duration(a.rng.IntN(30)) * time.Millisecond, http.StatusNoContent
}

func (a *sinkReceiver) leave(d *engine.Decision, took bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.inside, d.Scope)
	if !took {
		return
	}
	a.came++
	if _, known := a.first[d.ID]; known {
		a.again++
		return
	}
	a.first[d.ID] = a.came
}
