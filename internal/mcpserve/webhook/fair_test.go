package webhook

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// However many receivers of one principal hang, answer late or never agree:
// another's event is there within a second, and so is its consent.
func TestDeliver_OnePrincipalIsInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.net.deaf = "deaf"
		w.net.respond(func(ctx context.Context, e *exchange) (int, http.Header, error) {
			switch {
			case strings.Contains(e.url, "hang"):
				<-ctx.Done()
				return 0, nil, ctx.Err()
			case strings.Contains(e.url, "slow"):
				late := time.NewTimer(4500 * time.Millisecond)
				<-late.C
			}
			return 204, nil, nil
		})
		for i := range 800 {
			w.subscribe(fmt.Sprintf("https://%s%d.example.com/%d", []string{"hang", "slow"}[i%2], i%200, i), func(r *Request) { r.TTL.Never = true })
		}
		ben := func(r *Request) { r.Principal, r.TTL.Never = "ben", true }
		w.subscribe(callback, ben)
		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for i := range 100 {
			asking.Go(func() {
				_, _ = w.s.Subscribe(ctx, request(fmt.Sprintf("https://deaf%d.example.com/", i), nil))
			})
		}
		for round := range 20 {
			w.feed.happen(1)
			url := fmt.Sprintf("%s?%d", callback, round)
			begun := time.Now()
			w.subscribe(url, ben)
			if took := time.Since(begun); took > time.Second {
				t.Errorf("round %d: the consent took %s", round, took)
			}
			pass(time.Second)
			if got := len(w.net.posts(callback)); got != round+1 {
				t.Fatalf("round %d: %d events have arrived, want %d", round, got, round+1)
			}
			pass(3 * time.Second)
		}
		cancel()
		asking.Wait()
	})
}

// What answers late is not in the way of its own principal's others either, once
// it is known to.
func TestDeliver_SlowReceiversLeaveTheSoundPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.net.respond(func(_ context.Context, e *exchange) (int, http.Header, error) {
			if strings.Contains(e.url, "slow") {
				late := time.NewTimer(3 * time.Second)
				<-late.C
			}
			return 204, nil, nil
		})
		for i := range partSound {
			w.subscribe(fmt.Sprintf("https://slow%d.example.com/", i), nil)
		}
		w.feed.happen(3)
		pass(10 * time.Second)
		w.subscribe(callback, nil)
		w.feed.happen(1)
		pass(time.Second)
		if got := len(w.net.posts(callback)); got != 4 {
			t.Errorf("%d events have arrived within a second, want all 4", got)
		}
	})
}
