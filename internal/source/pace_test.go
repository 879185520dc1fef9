package source

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A server that always has more, and never anything, is asked ten times a second.
func TestPace_MoreThatIsNothing(t *testing.T) {
	inBubble(t, func(w *world) {
		w.source.Mode = ModePoll
		w.poll = func(_ context.Context, r Request) (Page, error) {
			p := page(map[bool]string{true: "b", false: "a"}[r.Cursor == "a"])
			p.HasMore, p.Truncated = true, true
			return p, nil
		}
		w.start()
		w.pass(time.Minute)
		if n := strings.Count(w.requests(), "poll"); n > 601 {
			t.Errorf("it was asked %d times in a minute", n)
		}
		gaps := 0
		for _, c := range w.committed() {
			gaps += strings.Count(c, "gap")
		}
		if gaps < 2 || gaps > 7 {
			t.Errorf("%d gaps were told in a minute, want one in ten seconds", gaps)
		}
		if n := strings.Count(w.log.String(), "no longer has all events"); n > 7 {
			t.Errorf("it was logged %d times in a minute", n)
		}
	})
}

// Cursors that come alone are stored ten times a second, and the last one is.
func TestPace_CursorsWithoutEvents(t *testing.T) {
	inBubble(t, func(w *world) {
		w.stream = func(ctx context.Context, r Request, hear func(Notification)) error {
			hear(active("c0", false))
			for n := range 2000 {
				rest(time.Millisecond)
				hear(beat(fmt.Sprintf("c%d", n)))
			}
			return silent(ctx, r, hear)
		}
		w.start()
		w.pass(3 * time.Second)
		all := w.committed()
		if len(all) > 50 || all[len(all)-1] != "@c1999" {
			t.Errorf("in two seconds there were %d commits, the last %s", len(all), all[len(all)-1])
		}
	})
}

// A loss that is told again while nothing came is told later, and with what
// comes at once. None is forgotten.
func TestPace_GapsWithoutEvents(t *testing.T) {
	inBubble(t, func(w *world) {
		w.stream = func(ctx context.Context, r Request, hear func(Notification)) error {
			for n := range 5 {
				hear(active(fmt.Sprintf("c%d", n), true))
				rest(time.Second)
			}
			rest(6 * time.Second)
			hear(active("c5", true))
			rest(time.Second)
			hear(event("a", "c6"))
			return silent(ctx, r, hear)
		}
		w.start()
		w.pass(9 * time.Second)
		equal(t, "commits before", w.committed(), []string{"gap:s @c0"})
		w.pass(time.Minute)
		equal(t, "commits", w.committed(), []string{"gap:s @c0", "gap:s @c4", "gap:s a @c6"})
	})
}

// poisoned is a stream that breaks its session behind a cursor.
func poisoned(at string) func(context.Context, Request, func(Notification)) error {
	return func(ctx context.Context, r Request, hear func(Notification)) error {
		hear(active(at, false))
		rest(time.Millisecond)
		return fmt.Errorf("%w: failed to decode event: exceeded max depth", ErrClosed)
	}
}

// What cannot be read is climbed the ladder for, gets its source a session of
// its own, and is shown.
func TestStuck_OneEventThatBreaksTheSession(t *testing.T) {
	inBubble(t, func(w *world) {
		var mended atomic.Bool
		poison, fine := poisoned("c0"), says(active("c0", false), event("a", "c1"))
		w.stream = func(ctx context.Context, r Request, hear func(Notification)) error {
			if mended.Load() {
				return fine(ctx, r, hear)
			}
			return poison(ctx, r, hear)
		}
		w.start()
		w.pass(time.Millisecond)
		var waits []int64
		for range stuckAfter {
			s := w.status()
			waits = append(waits, int64(s.RetryAt-s.LastError.At))
			if want := (len(waits) == stuckAfter); (s.State == Stuck) != want {
				t.Errorf("after %d times it stands as %s", len(waits), s.State)
			}
			w.pass(time.Duration(waits[len(waits)-1]+1) * time.Millisecond)
		}
		equal(t, "waits", waits, []int64{1000, 5000, 15000, 60000, 60000})
		if s := w.status(); s.Counts.Malformed != 1 || w.errors("malformed") != 1 {
			t.Errorf("it counts as %+v", s.Counts)
		}
		mended.Store(true)
		w.pass(time.Minute + time.Second)
		if s := w.status(); s.State != Streaming || s.Counts.Accepted != 1 {
			t.Errorf("then it stands as %+v", s)
		}
	})
}

// Of two sources of one server, that which breaks the session is left alone with
// it; the other goes on undisturbed.
func TestStuck_LeavesTheOthersAlone(t *testing.T) {
	inBubble(t, func(w *world) {
		broken := make(chan struct{}, 1) // the session that both have
		w.stream = func(ctx context.Context, r Request, hear func(Notification)) error {
			if r.Name == "poison" {
				hear(active("p0", false))
				rest(time.Millisecond)
				w.mu.Lock()
				shared := w.open == 1
				w.mu.Unlock()
				if shared {
					broken <- struct{}{}
				}
				return fmt.Errorf("%w: it cannot be read", ErrClosed)
			}
			hear(active("c0", false))
			select {
			case <-broken:
				return fmt.Errorf("%w: another cannot be read", ErrClosed)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		other := w.source
		other.Name, other.Event, other.Dialer, other.Mode = "other", "poison", w, ModeStream
		w.source.Mode = ModeStream
		w.others = []Source{other}
		w.start()
		w.pass(2 * time.Minute)
		w.requests()
		good := w.service.Statuses()[0]
		w.pass(10 * time.Minute)
		if s := w.service.Statuses()[0]; s.State != Streaming || s.Counts.Retries != good.Counts.Retries {
			t.Errorf("it stands as %+v, before as %+v", s, good)
		}
		if s := w.service.Statuses()[1]; s.State != Stuck {
			t.Errorf("the other stands as %+v", s)
		}
	})
}

// A stream that was cut is opened after a second, whatever the ladder; one that
// is cut again before anything came takes the ladder.
func TestStream_ThatIsCutIsOpenedAfterASecond(t *testing.T) {
	inBubble(t, func(w *world) {
		w.policy.Default.RetryBackoffMs = []int64{60_000}
		w.stream = func(_ context.Context, _ Request, hear func(Notification)) error {
			hear(active("c0", false))
			rest(time.Millisecond)
			return errors.New("request terminated without response")
		}
		w.start()
		w.requests()
		w.pass(time.Second + time.Millisecond)
		equal(t, "requests a second later", w.requests(), "list, stream c0")
		w.pass(59 * time.Second)
		equal(t, "requests of the ladder, before", w.requests(), "")
		w.pass(2 * time.Second)
		equal(t, "requests of the ladder", w.requests(), "list, stream c0")
		w.pass(time.Hour)
		if s := w.status(); s.LastError.Kind != "connection" || s.State == Stuck {
			t.Errorf("it stands as %+v", s)
		}
	})
}

// The cursor of one server is given to no other.
func TestCursor_IsOfItsServer(t *testing.T) {
	inBubble(t, func(w *world) {
		w.stream = says(active("c1", false))
		w.start()
		w.stop()
		w.requests()
		w.source.Origin = "another"
		w.stream = says(active("x1", false))
		w.start()
		equal(t, "requests of another server", w.requests(), "dial, list, stream -")
		equal(t, "commits", w.committed(), []string{"@c1", "gap:s @x1"})
		w.stop()
		w.requests()
		w.start()
		equal(t, "requests of the same server", w.requests(), "dial, list, stream x1")
	})
}

// Where the server repeats what it was asked with, nobody is shown it.
func TestWords_HoldNoSecret(t *testing.T) {
	long := strings.Repeat("x", maxShown-5) // where words are cut, too
	for name, params := range map[string]Notification{
		"an error":   told("error", `{"error":{"code":-1,"message":"`+long+theToken+`"}}`),
		"its end":    told("terminated", `{"error":{"code":-1,"message":"`+long+theToken+`"}}`),
		"an eventId": told("event", `{"eventId":"`+long+theToken+`"}`),
		"a time":     told("event", `{"eventId":"a","name":"n","timestamp":"`+theToken+`"}`),
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				w.stream = says(active("c0", false), params)
				w.start()
				shown := w.status().LastError.Message
				if all := shown + w.log.String(); strings.Contains(all, theToken[:12]) || !strings.Contains(shown, "[hidden]") {
					t.Errorf("it shows %s", all)
				}
			})
		})
	}
}
