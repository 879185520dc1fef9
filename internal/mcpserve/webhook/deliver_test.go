package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"attend/internal/store"
)

// A receiver that fails gets the same event again after about 1, 10, 60 and 300
// seconds, each try signed for its own time; then it is given up, and the
// watermark moves on.
func TestDeliver_LadderThenGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.net.always(500)
		g := w.subscribe(callback, nil)
		w.feed.happen(1)
		pass(20 * time.Minute)
		tries := w.net.posts(callback)
		if len(tries) != 5 {
			t.Fatalf("%d tries, want 5", len(tries))
		}
		for i, least := range []time.Duration{time.Second, 10 * time.Second, time.Minute, 5 * time.Minute} {
			if pause := tries[i+1].at.Sub(tries[i].at); pause < least || pause > least*12/10 {
				t.Errorf("try %d came after %s, want %s and up to a fifth more", i+2, pause, least)
			}
		}
		for i, e := range tries {
			if e.id != "e1" || e.cursor != "0" || e.stamp != e.at.Unix() || e.signature != signatureOf(e.id, e.at, e.body, keyOf(1)) {
				t.Errorf("try %d: %+v", i+1, e)
			}
		}
		again := w.subscribe(callback, nil)
		if again.ID != g.ID || again.Cursor != "1" || again.Status.LastError != "http_5xx" || again.Status.FailedSince == 0 || !again.Status.Active {
			t.Errorf("a refresh gives %+v, %+v", again, again.Status)
		}
		if p := w.progress(g.ID); p.Abandoned != 1 || p.LastAbandoned != "e1" || p.Cursor != "1" {
			t.Errorf("stored: %+v", p)
		}
		w.net.always(204)
		w.feed.happen(1)
		settle()
		if status := w.subscribe(callback, nil).Status; status.LastError != "" || status.FailedSince != 0 || status.LastDelivery == 0 {
			t.Errorf("after a success the status is %+v", status)
		}
	})
}

func (w *world) progress(id string) *progress {
	w.t.Helper()
	pass(time.Second) // it is stored a little later
	p, err := w.s.progressOf(w.t.Context(), id)
	if err != nil || p == nil {
		w.t.Fatal(err)
	}
	return p
}

// One event that fails does not hold up the ones behind it; the watermark stays
// before it, and after a restart only what was not taken is posted again.
func TestDeliver_OvertakesAndResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.net.respond(func(_ context.Context, e *exchange) (int, http.Header, error) {
			if e.id == "e2" {
				return 500, nil, nil
			}
			return 204, nil, nil
		})
		g := w.subscribe(callback, nil)
		w.feed.happen(20)
		pass(5 * time.Second)
		if p := w.progress(g.ID); p.Cursor != "1" || len(p.Done) != 18 || len(p.Trying) != 1 || p.Trying[0].Tries != 2 {
			t.Fatalf("stored: %+v", p)
		}
		w.stop()
		before := len(w.net.posts(callback))
		w.start()
		w.feed.happen(1)
		pass(30 * time.Minute)
		after := w.net.ids(callback)[before:]
		if diff := cmp.Diff([]string{"e21", "e2", "e2", "e2"}, after); diff != "" {
			t.Errorf("after the restart (-want +got):\n%s", diff)
		}
		if p := w.progress(g.ID); p.Cursor != "21" || len(p.Done) != 0 {
			t.Errorf("in the end: %+v", p)
		}
	})
}

func TestDeliver_FinalAnswers(t *testing.T) {
	for _, status := range []int{http.StatusGone, http.StatusRequestEntityTooLarge} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.net.always(status)
			w.subscribe(callback, nil)
			w.feed.happen(2)
			pass(time.Hour / 2)
			if diff := cmp.Diff([]string{"e1", "e2"}, w.net.ids(callback)); diff != "" {
				t.Errorf("%d (-want +got):\n%s", status, diff)
			}
			if g := w.subscribe(callback, nil); g.Cursor != "2" || g.Status.LastError != "http_4xx" {
				t.Errorf("%d: %+v %+v", status, g, g.Status)
			}
		})
	}
}

// What a receiver asks for in Retry-After holds for all of its subscription.
func TestDeliver_RetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.net.respond(func(context.Context, *exchange) (int, http.Header, error) {
			return 429, http.Header{"Retry-After": {"40"}}, nil
		})
		w.subscribe(callback, nil)
		w.feed.happen(5)
		pass(10 * time.Second)
		if status := w.subscribe(callback, nil).Status; !status.Throttled || status.RetryAfter > 30*time.Second || status.RetryAfter < 29*time.Second {
			t.Errorf("the status is %+v", status)
		}
		w.net.always(204)
		pass(29 * time.Second)
		if n := len(w.net.posts(callback)); n != 1 {
			t.Errorf("%d posts within the pause, want the first alone", n)
		}
		pass(15 * time.Second)
		if got := slices.Sorted(slices.Values(w.net.ids(callback)[1:])); len(slices.Compact(got)) != 5 {
			t.Errorf("after the pause came %v", got)
		}
	})
}

// Receivers that hang take nobody else's time, and never more than 8 at once.
func TestDeliver_HangingReceiversAreInNobodysWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		hangs := func(url string) bool { return strings.Contains(url, "hang") }
		w.net.respond(func(ctx context.Context, e *exchange) (int, http.Header, error) {
			if hangs(e.url) {
				<-ctx.Done()
				return 0, nil, ctx.Err()
			}
			return 204, nil, nil
		})
		const sound, bad = 200, 100
		var urls []string
		for i := range sound + bad {
			url := fmt.Sprintf("https://sound%d.example.com/", i)
			if i >= sound {
				url = fmt.Sprintf("https://hang%d.example.com/", i)
			}
			urls = append(urls, url)
			w.subscribe(url, nil)
		}
		begun := time.Now()
		w.feed.happen(30)
		settle()
		for _, url := range urls {
			if got := len(w.net.posts(url)); !hangs(url) && got != 30 {
				t.Fatalf("%s has got %d of 30 after %s", url, got, time.Since(begun))
			}
			if hangs(url) && w.net.most[url] > maxAtOnce {
				t.Errorf("%s had %d at once", url, w.net.most[url])
			}
		}
		w.feed.happen(1)
		pass(time.Minute)
		for _, url := range urls[:sound] {
			if got := len(w.net.posts(url)); got != 31 {
				t.Fatalf("%s has got %d of 31", url, got)
			}
		}
		if status := w.subscribe(urls[sound], nil).Status; status.LastError != "timeout" {
			t.Errorf("the status of one that hangs is %+v", status)
		}
	})
}

// An hour in which all fails suspends; a refresh revives, and nothing is lost.
func TestDeliver_SuspendsAndRevives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.net.always(503)
		g := w.subscribe(callback, func(r *Request) { r.TTL.Never = true })
		for range 60 {
			w.feed.happen(1)
			pass(time.Minute)
		}
		tries := w.net.posts(callback)
		if failed := tries[len(tries)-1].at.Sub(tries[0].at); len(tries) < suspendTries || failed < 30*time.Minute || failed > 31*time.Minute {
			t.Fatalf("the last of %d tries came %s after the first, want it suspended after half an hour", len(tries), failed)
		}
		p := w.progress(g.ID)
		if p.Suspended == 0 {
			t.Fatalf("stored: %+v", p)
		}
		w.stop()
		w.start() // it stays so
		w.net.always(204)
		pass(time.Hour)
		if got := len(w.net.posts(callback)); got != len(tries) {
			t.Fatalf("%d posts to one that is suspended", got-len(tries))
		}
		answered := make(chan struct{}) // the refresh, before delivery has moved on
		w.net.respond(func(context.Context, *exchange) (int, http.Header, error) { <-answered; return 204, nil, nil })
		again := w.subscribe(callback, func(r *Request) { r.TTL.Never = true })
		close(answered)
		pass(time.Minute)
		if again.Cursor != p.Cursor || !again.Status.Active || again.RefreshBefore != 0 {
			t.Errorf("the refresh gives %+v, %+v; it stood at %s", again, again.Status, p.Cursor)
		}
		got := w.net.ids(callback)[len(tries):]
		slices.Sort(got)
		if len(got)+int(p.Abandoned) != 60 || len(slices.Compact(got)) != len(got) {
			t.Errorf("%d came after the refresh, %d had been given up, of 60", len(got), p.Abandoned)
		}
	})
}

// A short blip suspends nothing, however many events it costs.
func TestDeliver_BlipIsNoSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(callback, nil)
		w.feed.happen(200)
		settle()
		w.net.always(500)
		w.feed.happen(60)
		pass(5 * time.Minute)
		if status := w.subscribe(callback, nil).Status; !status.Active || status.LastError == "" {
			t.Errorf("the status is %+v", status)
		}
	})
}

func TestDeliver_ManyRefusedAtOnceAreNoSuspension(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.subscribe(callback, nil)
		w.net.always(http.StatusGone)
		for range 3 {
			w.feed.happen(45)
			pass(time.Second)
		}
		w.net.always(204)
		w.feed.happen(1)
		pass(time.Second)
		if ids := w.net.ids(callback); len(ids) != 136 || ids[135] != "e136" {
			t.Errorf("%d posts, want the one after the blip too", len(ids))
		}
	})
}

// What fails for good counts as well.
func TestDeliver_RefusedForAnHourIsSuspended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.net.always(http.StatusGone)
		w.subscribe(callback, nil)
		for range 59 {
			w.feed.happen(5)
			pass(time.Minute)
		}
		if n := len(w.net.posts(callback)); n != 151 || w.s.states()[stateSuspended] != 1 {
			t.Errorf("%d posts, states %v, want it suspended after half an hour", n, w.s.states())
		}
	})
}

// Of states that follow each other the last is what counts: one that fails makes
// room for the next, one at a time, and the watermark never passes what nobody
// has taken.
func TestDeliver_LatestState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.feed.latest = true
		w.net.always(500)
		g := w.subscribe(callback, nil)
		w.feed.happen(1)
		settle()
		w.feed.happen(3)
		settle()
		w.feed.happen(3)
		pass(time.Second / 2)
		if diff := cmp.Diff([]string{"e1", "e4", "e7"}, w.net.ids(callback)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if p := w.progress(g.ID); p.Cursor != "0" {
			t.Errorf("nothing was taken, and the watermark is %s", p.Cursor)
		}
		w.net.always(204)
		pass(time.Minute)
		if ids := w.net.ids(callback); ids[len(ids)-1] != "e7" || w.progress(g.ID).Cursor != "7" || w.net.most[callback] != 1 {
			t.Errorf("in the end: %v, %d at once", ids, w.net.most[callback])
		}
	})
}

// What retention has taken is told in a body of its own, before what comes after
// it; a receiver that does not know such bodies is in order.
func TestDeliver_Gap(t *testing.T) {
	for _, status := range []int{204, 400} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			w.feed.count, w.feed.oldest = 9, 7
			w.net.respond(func(_ context.Context, e *exchange) (int, http.Header, error) {
				if e.kind == "gap" {
					return status, nil, nil
				}
				return 204, nil, nil
			})
			w.subscribe(callback, nil)
			settle()
			posts := w.net.posts(callback)
			if len(posts) != 3 || posts[0].kind != "gap" || posts[0].cursor != "7" || !strings.HasPrefix(posts[0].id, "msg_gap_") {
				t.Fatalf("posted: %+v", posts)
			}
			if g := w.subscribe(callback, nil); g.Cursor != "9" || g.Status.LastError != "" {
				t.Errorf("%d: %+v %+v", status, g, g.Status)
			}
		})
	}
}

// A subscription whose principal may no longer read is told so, and is gone.
func TestDeliver_Terminated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		g := w.subscribe(callback, nil)
		settle()
		w.net.always(503)
		w.feed.stir(func() {
			w.feed.ended = &Ended{Code: -32024, Message: "over", Data: json.RawMessage(`{"reason":"revoked"}`)}
		})
		pass(2 * time.Second)
		w.net.always(204)
		pass(time.Minute)
		posts := w.net.posts(callback)
		if len(posts) != 3 || posts[2].kind != "terminated" || posts[0].id != posts[2].id ||
			!strings.Contains(string(posts[2].body), `"error":{"code":-32024,"message":"over","data":{"reason":"revoked"}}`) {
			t.Fatalf("posted: %+v", posts)
		}
		if _, err := w.store.Row(t.Context(), store.SpaceWebhook, g.ID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("the row is still there: %v", err)
		}
	})
}
