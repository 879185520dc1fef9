package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"syscall"
	"testing"
	"time"

	"attend/internal/engine"
)

const sourceKills = 10 // of both daemons together, when nobody says otherwise

// TestCrashSources kills a daemon whose events are another's decisions, between
// receiving and committing and everywhere else, and that other one too. Every
// decision of the first becomes an event of the second: none is lost, none is
// there twice, streamed and polled. ATTEND_CRASH_KILLS and ATTEND_CRASH_SEED set
// its length and its dice.
func TestCrashSources(t *testing.T) {
	kills := environ(t, "ATTEND_CRASH_KILLS", sourceKills)
	seed := environ(t, "ATTEND_CRASH_SEED", time.Now().UnixNano()%1_000_000_000)
	t.Logf("seed %d (ATTEND_CRASH_SEED)", seed)
	binary := buildDaemon(t)
	for i, mode := range []string{"stream", "poll"} {
		t.Run(mode, func(t *testing.T) {
			crashSource(t, binary, mode, kills, rand.New(rand.NewPCG(uint64(seed), uint64(i))))
		})
	}
}

func crashSource(t *testing.T, binary, mode string, kills int64, rng *rand.Rand) {
	a, b := newDaemon(t, binary, rng), newDaemon(t, binary, rng)
	log := a.store
	a.store = func() []string { return append(log(), "ATTEND_TOKEN="+webhookToken) }
	a.startReady(0)
	b.write("kinds.json", `{"attention.decision": "flush"}`)
	b.write(configName(0), fmt.Sprintf(`
policy: {retryBackoffMs: [20, 50]}
sources:
- {name: a, url: %q, token: %s, event: attention.decision, scope: "of:{data.scope}", mode: %s, pollMs: 100, maxEvents: 40}
`, a.base()+"/mcp", webhookToken, mode))
	b.startReady(0)
	eventually(t, time.Minute, "the second daemon does not follow the first", func() bool {
		var answer struct{ Sources []struct{ Cursor bool } }
		return fetch(t, b.base()+"/v1/sources", &answer) && len(answer.Sources) == 1 && answer.Sources[0].Cursor
	})

	stop := produce(t, a)
	for n := range kills {
		pause(t.Context(), time.Duration(20+rng.IntN(400))*time.Millisecond)
		if n%3 == 2 {
			a.restart()
		} else {
			b.restart()
		}
	}
	pause(t.Context(), 200*time.Millisecond)
	sent := stop()
	a.end(syscall.SIGTERM)
	want := decisionsAfter(t, a.left(), 0)
	a.startReady(0)
	decides(t, b.base, len(want))
	b.end(syscall.SIGTERM)
	a.end(syscall.SIGTERM)
	cameOver(t, want, b.left())
	a.checkLog()
	b.checkLog()
	t.Logf("%d kills, %d events sent, %d decisions came over", kills, sent, len(want))
}

// produce sends events to a daemon, each of which is decided at once, until stop
// is called, which tells how many there were.
func produce(t *testing.T, d *daemon) (stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	sent := 0
	go func() {
		defer close(done)
		for ; ctx.Err() == nil; sent++ {
			line := fmt.Sprintf(`{"scope":"s:%d","name":"act.flush","id":"e%d","text":"it happened"}`, sent%7, sent)
			_ = authorized(ctx, d.base()+"/v1/ingest", "application/x-ndjson", line, nil) // what is refused did not happen
			pause(ctx, 2*time.Millisecond)
		}
	}()
	return func() int {
		cancel()
		<-done
		return sent
	}
}

// decides waits until a daemon has made so many decisions.
func decides(t *testing.T, base func() string, want int) {
	t.Helper()
	decided, after := 0, "start"
	eventually(t, time.Minute, "not every decision has become an event", func() bool {
		var page struct {
			Decisions []struct{ ID string }
			Cursor    string
		}
		if fetch(t, base()+"/v1/decisions?limit=1000&after="+after, &page) {
			decided, after = decided+len(page.Decisions), page.Cursor
		}
		return decided >= want
	})
}

// cameOver checks that each decision is one event of a log, and that nothing
// else is.
func cameOver(t *testing.T, want map[string]engine.Position, log leftovers) {
	t.Helper()
	got, gaps := idsIn(t, log)
	for id := range want {
		if got[id] != 1 {
			t.Errorf("decision %s is there %d times", id, got[id])
		}
	}
	if len(got) != len(want) || gaps > 0 {
		t.Errorf("%d ids of events for %d decisions, and %d gaps", len(got), len(want), gaps)
	}
}

// fetch asks a daemon that wants no token, and tells whether it answered.
func fetch(t *testing.T, url string, into any) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(into) == nil
}

// idsIn counts the events of a log by id, and the gaps. It closes the log.
func idsIn(t *testing.T, st leftovers) (ids map[string]int, gaps int) {
	t.Helper()
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	ids = make(map[string]int)
	for after := engine.Position(0); ; {
		recs, err := st.Read(t.Context(), after, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(recs) == 0 {
			return ids, gaps
		}
		for i := range recs {
			after = recs[i].Position
			switch r := &recs[i]; {
			case r.Event != nil:
				ids[r.Event.ID]++
			case r.Step.Kind == engine.StepGap:
				gaps++
			}
		}
	}
}
