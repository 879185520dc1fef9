//go:build e2e && soak

package e2e

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestSoak keeps a stream of each era open for ATTEND_SOAK_MINUTES (15): past
// every timeout that the daemon, the client or the HTTP stack may have. One
// event a minute is heard on each, and nothing else ends them than the daemon's
// stop, with a result.
func TestSoak(t *testing.T) {
	minutes := 15
	if v := os.Getenv("ATTEND_SOAK_MINUTES"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1 {
			t.Fatalf("ATTEND_SOAK_MINUTES is %q: want a number from 1", v)
		}
		minutes = n
	}
	d := start(t, "")
	var clients []*golang
	var ended []chan error
	for _, version := range []string{"2025-11-25", modern} {
		g := connectGo(d, version, false)
		clients = append(clients, g)
		ended = append(ended, g.follow(t.Context(), "chat:*"))
	}
	began := time.Now()
	for minute := range minutes {
		for i := range ended {
			select {
			case err := <-ended[i]:
				t.Fatalf("stream %d ended after %v: %v", i, time.Since(began), err)
			default:
			}
		}
		text := fmt.Sprint("minute ", minute)
		d.push("chat:soak", text)
		for i, g := range clients {
			eventually(t, fmt.Sprintf("stream %d hears of %s", i, text), func() bool {
				of, notices := g.tap.of("event")
				return len(of) == 1 && len(notices[of[0]]) == minute+1 && notices[of[0]][minute] == text
			})
		}
		time.Sleep(time.Until(began.Add(time.Duration(minute+1) * time.Minute))) //arch:sleep the time is what is tested
	}
	for i, g := range clients {
		of, heartbeats := g.tap.of("heartbeat")
		if len(of) != 1 || len(heartbeats[of[0]]) < 2*minutes {
			t.Errorf("stream %d had %v heartbeats in %d minutes, want two a minute at least", i, heartbeats, minutes)
		}
	}
	d.becomes("attend_event_streams", float64(len(clients)))
	d.terminate()
	for i := range ended {
		if err := <-ended[i]; err != nil {
			t.Errorf("stream %d ended with %v, want a result", i, err)
		}
	}
	t.Logf("2 streams stayed open for %v", time.Since(began).Round(time.Second))
}
