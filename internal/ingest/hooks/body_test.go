package hooks

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"
)

// fill takes all that semaphores have, and returns what gives it back.
func (w *world) fill(all ...*semaphore.Weighted) (release func()) {
	w.t.Helper()
	sizes := w.sizes()
	for _, s := range all {
		if !s.TryAcquire(sizes[s]) {
			w.t.Error("somebody holds something of it")
		}
	}
	return func() {
		for _, s := range all {
			s.Release(sizes[s])
		}
	}
}

// sizes are those of the service's semaphores.
func (w *world) sizes() map[*semaphore.Weighted]int64 {
	s := w.service
	sizes := map[*semaphore.Weighted]int64{
		s.desk: maxParsed, s.open.small: openSmall, s.open.large: openLarge, s.known.small: knownSmall, s.known.large: knownLarge,
	}
	for _, hook := range *s.hooks.Load() { //arch:sorted into a map
		sizes[hook.room.small], sizes[hook.room.large] = knownSmallShare, knownLargeShare
		if hook.signed != nil {
			sizes[hook.room.small], sizes[hook.room.large] = openSmallShare, openLargeShare
		}
	}
	return sizes
}

// emptied checks that nothing is held any more.
func (w *world) emptied() {
	w.t.Helper()
	for s, size := range w.sizes() { //arch:sorted each is looked at alone
		if !s.TryAcquire(size) {
			w.t.Errorf("of a room of %d bytes something is held still", size)
		}
	}
}

// hold begins to post bodies whose bytes come but for the last, and returns what
// ends them once all wait for it.
func (w *world) hold(hook string, n, size int) (end func() []int) {
	answers := make(chan int)
	var pipes []*io.PipeWriter
	for range n {
		r, pipe := io.Pipe()
		req := httptest.NewRequest(http.MethodPost, Path+hook, io.MultiReader(strings.NewReader(strings.Repeat("x", size-1)), r))
		req.ContentLength = int64(size)
		pipes = append(pipes, pipe)
		go func() {
			rec := httptest.NewRecorder()
			w.service.ServeHTTP(rec, req)
			answers <- rec.Code
		}()
	}
	synctest.Wait()
	return func() (all []int) {
		for _, pipe := range pipes {
			go func() { _, _ = pipe.Write([]byte("x")); _ = pipe.Close() }()
		}
		for range n {
			all = append(all, <-answers)
		}
		for _, pipe := range pipes {
			_ = pipe.CloseWithError(io.EOF)
		}
		synctest.Wait()
		return all
	}
}

func other() Hook { return Hook{Name: "other", Type: GitHub, Secrets: keys(gitHubSecret)} }

// Whoever sends large bodies without a signature keeps out neither small ones of
// the same hook, nor another hook's, nor senders that bear a token.
func TestBody_LargeBodiesKeepNobodyElseOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gitHubHook(), other(), mapped(simple()))
		end := w.hold("gh", 4, 17<<20)
		if (*w.service.hooks.Load())["gh"].room.large.TryAcquire(1) {
			t.Error("the hook has room for large bodies still")
		}
		w.deliver("fork", "1", `{}`).want(t, 200, "")
		w.deliver("fork", "2", `{"x":"`+strings.Repeat("x", 500_000)+`"}`).want(t, 200, "")
		w.post("any", `{"scope":"a","name":"b"}`, asJSON(bearer()...)...).want(t, 200, "")
		large := `{"x":"` + strings.Repeat("x", 4<<20) + `"}`
		w.post("other", large, "Content-Type", "application/json", "X-GitHub-Event", "fork", "X-GitHub-Delivery", "3", "X-Hub-Signature-256", "sha256="+signed(gitHubSecret, large)).want(t, 200, "")
		for _, code := range end() {
			if code != 401 {
				t.Errorf("status %d of a body that waited for room", code)
			}
		}
		w.emptied()
	})
}

// Many small bodies fill the share of one hook alone, however few bytes of them
// come; what waits gets its place once there is one.
func TestBody_SmallBodiesFillOneShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gitHubHook(), other(), mapped(simple()))
		end := w.hold("gh", openSmallShare/firstChunk, firstChunk-1)
		w.post("any", `{"scope":"a","name":"b"}`, asJSON(bearer()...)...).want(t, 200, "")
		w.post("other", `{}`, "Content-Type", "application/json").want(t, 401, "unauthorized")
		start := time.Now()
		w.deliver("fork", "1", `{}`).want(t, 429, "saturated")
		if waited := time.Since(start); waited != patience {
			t.Errorf("it waited %v", waited)
		}
		answers := make(chan int)
		go func() { answers <- w.deliver("fork", "2", `{}`).Code }()
		synctest.Wait()
		end()
		if code := <-answers; code != 200 {
			t.Errorf("status %d for one that waited for its place", code)
		}
		w.emptied()
	})
}

// One body is parsed at a time where it is large, for what is parsed takes many
// times its size.
func TestBody_WhatIsParsedAtOnceIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, gitHubHook())
		if !w.service.desk.TryAcquire(maxParsed - minParsed) {
			t.Fatal("the desk is not empty")
		}
		w.deliver("fork", "1", `{}`).want(t, 200, "")
		w.deliver("fork", "2", `{"x":"`+strings.Repeat("x", minParsed)+`"}`).want(t, 429, "saturated")
		w.service.desk.Release(maxParsed - minParsed)
		w.emptied()
	})
}

// A body of somebody who is not known must keep coming; one of a sender that
// bears a token has the whole time.
func TestBody_ARate(t *testing.T) {
	start := time.Unix(atTest, 0)
	for bytes, want := range map[int]time.Duration{
		0: grace, leastRate: grace + time.Second, 10*leastRate + leastRate/2: grace + 10*time.Second + time.Second/2, 1 << 30: bodyTimeout,
	} {
		if got := due(start, bytes).Sub(start); got != want {
			t.Errorf("after %d bytes more must come within %v, want %v", bytes, got, want)
		}
	}
	for hook, first := range map[string]time.Duration{"gh": grace, "any": bodyTimeout} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, gitHubHook(), mapped(simple()))
			rec := &deadlines{ResponseRecorder: httptest.NewRecorder()}
			r := httptest.NewRequest(http.MethodPost, Path+hook, strings.NewReader("{}"))
			r.Header.Set("Authorization", "Bearer "+token)
			begin := time.Now()
			w.service.ServeHTTP(rec, r)
			set := rec.set[min(1, len(rec.set)-1)]
			if got := set.Sub(begin); got != first {
				t.Errorf("%s: the first bytes must come within %v, want %v", hook, got, first)
			}
		})
	}
}

// deadlines are those that a connection was given.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set = append(d.set, t)
	return nil
}

// A form is larger than the payload that it holds: it is the payload that must
// not be too large.
func TestBody_AFormMayBeLargerThanItsPayload(t *testing.T) {
	w := newWorld(t, gitHubHook())
	form := func(size int) sent {
		body := "payload=" + strings.Repeat("%20", size/2) + strings.Repeat("+", size-size/2-2) + "{}"
		return w.post("gh", body, "Content-Type", typeForm, "X-GitHub-Event", "fork", "X-GitHub-Delivery", strconv.Itoa(size), "X-Hub-Signature-256", "sha256="+signed(gitHubSecret, body))
	}
	form(18<<20).want(t, 200, "")
	w.post("gh", strings.Repeat("x", maxGitHubBody+1), "Content-Type", typeJSON).want(t, 413, "bodyTooLarge")
	w.post("gh", strings.Repeat("x", maxGitHubForm+1), "Content-Type", typeForm).want(t, 413, "bodyTooLarge")
	body := "payload=" + strings.Repeat("+", maxGitHubBody) + "{}"
	w.post("gh", body, "Content-Type", typeForm, "X-GitHub-Event", "fork", "X-Hub-Signature-256", "sha256="+signed(gitHubSecret, body)).want(t, 413, "bodyTooLarge")
	w.emptied()
}
